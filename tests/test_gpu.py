"""What must hold on a GPU; skipped where there is none. Run with: pytest -m gpu."""

import dataclasses
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from allyouneed.checkpoint import load_weights
from allyouneed.config import ModelConfig, RunConfig
from allyouneed.inference import Limits, search
from allyouneed.inference.strategies import BeamSearch
from allyouneed.model.transformer import Transformer
from allyouneed.rows import one_sentence_a_row
from allyouneed.training.checkpoints import list_checkpoints
from allyouneed.training.events import Event, Finished, Stepped, Stopped
from allyouneed.training.run import train
from allyouneed.translator import Translator

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
    # torch's compiler warns of its own affairs.
    pytest.mark.filterwarnings("default"),
]

MODEL = ModelConfig(
    vocab_size=100, n_layers=2, d_model=64, d_ff=128, n_heads=4, d_k=16, d_v=16, dropout=0.0
)
SOURCES = [[5, 6, 7, 8], [9, 10], [11, 12, 13, 14, 15, 16], [17]]


class StepEvents:
    """Keeps what a run reports of its steps."""

    def __init__(self) -> None:
        self.losses: dict[int, float] = {}

    def report(self, event: Event) -> None:
        if isinstance(event, Stepped):
            self.losses[event.step] = event.loss


def on_gpu(run: RunConfig, folder: Path, **values: object) -> RunConfig:
    training = dataclasses.replace(run.training, device="cuda", **values)  # type: ignore[arg-type]
    return dataclasses.replace(run, folder=str(folder), training=training)


def test_logits_are_those_of_the_cpu() -> None:
    model = Transformer(MODEL).eval()
    src = one_sentence_a_row(SOURCES)
    on_cpu = model(src, src)

    assert_close(model.cuda()(src.to("cuda"), src.to("cuda")).cpu(), on_cpu, atol=1e-4, rtol=1e-4)


def test_translations_are_those_of_the_cpu() -> None:
    model = Transformer(MODEL).eval()
    on_cpu = search(model, SOURCES, BeamSearch(), Limits(max_extra_tokens=10), n_best=4)
    on_gpu = search(model.cuda(), SOURCES, BeamSearch(), Limits(max_extra_tokens=10), n_best=4)

    assert [[h.ids for h in best] for best in on_gpu] == [[h.ids for h in best] for best in on_cpu]


def test_the_shipped_model_translates_as_on_a_cpu() -> None:
    texts = ["A man in a blue shirt is standing on a ladder.", "Two dogs play.", "", "A red ball."]
    on_cpu = Translator.load(device="cpu", engine="plain").translate(texts)

    for engine in ("auto", "bfloat16", "plain"):
        translator = Translator.load(device="cuda", engine=engine)
        assert (translator.engine is None) == (engine == "plain")
        found = translator.translate(texts)
        assert [it.text for it in found] == [it.text for it in on_cpu]


@pytest.mark.parametrize(
    "values",
    [
        {"fused": True},
        {"fused": True, "batching": "padded"},
        {"fused": True, "accumulate": 2, "batch_tokens": 128, "clip_norm": 1.0},
        {"fused": False},
    ],
    ids=["fused", "fused, padded", "fused, accumulated and clipped", "compiled"],
)
def test_fast_bfloat16_training_follows_plain_float32(
    toy_run: RunConfig, tmp_path: Path, values: dict[str, object]
) -> None:
    model = dataclasses.replace(toy_run.model, dropout=0.0, d_k=16, d_v=16)
    no_dropout = dataclasses.replace(toy_run, model=model)
    fast, plain = StepEvents(), StepEvents()

    values = {"steps": 300, "log_every": 20, "rate_scale": 0.1, **values}
    slow = {**values, "precision": "float32", "fused": False, "compile": False}
    train(on_gpu(no_dropout, tmp_path / "fast", **values), [fast])
    train(on_gpu(no_dropout, tmp_path / "plain", **slow), [plain])

    assert fast.losses[300] < 0.8 * fast.losses[20]
    for step, loss in plain.losses.items():
        assert fast.losses[step] == pytest.approx(loss, rel=0.02)


def test_a_stopped_run_goes_on(toy_run: RunConfig, tmp_path: Path) -> None:
    run = on_gpu(toy_run, tmp_path / "run")
    steps = iter(range(100))

    assert isinstance(train(run, stop_requested=lambda: next(steps) == 4), Stopped)
    outcome = train(run)

    assert isinstance(outcome, Finished)
    assert outcome.step == run.training.steps
    newest = load_weights(list_checkpoints(tmp_path / "run" / "checkpoints")[-1])
    assert all(tensor.isfinite().all() for tensor in newest.values())
