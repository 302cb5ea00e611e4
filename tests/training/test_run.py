"""Whole runs on a toy text: what they leave behind, and how they end."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from native_models import needs_compiler
from torch import Tensor
from torch.testing import assert_close

from allyouneed.checkpoint import average_weights, load_manifest, load_model, load_weights
from allyouneed.config import CorpusConfig, RunConfig
from allyouneed.data.corpus import Corpus
from allyouneed.data.shards import PreparedData
from allyouneed.errors import CheckpointError, TrainingError
from allyouneed.evaluation.metrics import corpus_bleu
from allyouneed.inference import plain_search
from allyouneed.training.checkpoints import MOMENTS, PROGRESS, list_checkpoints
from allyouneed.training.events import Event, Finished, Stopped
from allyouneed.training.loss import label_smoothed_loss
from allyouneed.training.run import only_process_in, train
from allyouneed.translator import Translator


def with_training(run: RunConfig, **values: Any) -> RunConfig:
    return dataclasses.replace(run, training=dataclasses.replace(run.training, **values))


def with_dev(run: RunConfig, dev: CorpusConfig) -> RunConfig:
    return dataclasses.replace(run, data=dataclasses.replace(run.data, dev=dev))


def events(run: RunConfig, kind: str) -> list[dict[str, Any]]:
    lines = (Path(run.folder) / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record["event"] == kind]


def assert_same_outcome(one: RunConfig, other: RunConfig) -> None:
    """The same weights everywhere, and the same idea of what comes next."""
    folders = [Path(run.folder) for run in (one, other)]
    checkpoints = [list_checkpoints(folder / "checkpoints") for folder in folders]
    assert [path.name for path in checkpoints[0]] == [path.name for path in checkpoints[1]]
    for name in ("model", "best", f"checkpoints/{checkpoints[0][-1].name}"):
        weights, other_weights = (load_weights(folder / name) for folder in folders)
        assert_close(other_weights, weights, rtol=0, atol=0)
    progress, other_progress = (
        json.loads((paths[-1] / PROGRESS).read_text(encoding="utf-8")) | {"seconds": 0}
        for paths in checkpoints
    )
    assert other_progress == progress


class StopAfter:
    """Asks for a stop once a number of checks has been made, one a step."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def __call__(self) -> bool:
        self.steps -= 1
        return self.steps == 0


def test_a_run_leaves_the_mean_of_its_last_checkpoints(toy_run: RunConfig) -> None:
    run = with_training(toy_run, average=2, keep_checkpoints=2)

    outcome = train(run)

    assert isinstance(outcome, Finished)
    checkpoints = list_checkpoints(Path(run.folder) / "checkpoints")
    assert [path.name for path in checkpoints] == ["step-00000008", "step-00000012"]
    model = load_model(Path(outcome.path)).model
    assert_close(model.state_dict(), average_weights(checkpoints), rtol=0, atol=0)


def test_only_checkpoints_that_may_be_gone_on_from_keep_moments(toy_run: RunConfig) -> None:
    run = with_training(toy_run, save_every=2)

    train(run)

    checkpoints = list_checkpoints(Path(run.folder) / "checkpoints")
    assert len(checkpoints) == 5
    kept = [(path / MOMENTS).exists() for path in checkpoints]
    assert kept == [False, False, False, True, True]


@pytest.mark.parametrize(
    "settings",
    [{}, {"accumulate": 3}, {"batching": "padded"}, {"cooldown_steps": 6}, {"best_by": "loss"}],
)
def test_a_stopped_run_goes_on_to_the_very_same_weights(
    toy_run: RunConfig, toy_text: CorpusConfig, tmp_path: Path, settings: dict[str, Any]
) -> None:
    toy_run = with_training(with_dev(toy_run, toy_text), **settings)
    straight = dataclasses.replace(toy_run, folder=str(tmp_path / "straight"))
    train(straight)

    stopped = train(toy_run, stop_requested=StopAfter(5))
    assert isinstance(stopped, Stopped)
    assert stopped.step == 5
    train(toy_run)

    assert_same_outcome(straight, toy_run)


@pytest.mark.parametrize("change", [{"batch_tokens": 512}, {"seed": 2}, {"batching": "padded"}])
def test_with_other_batches_a_run_goes_on_with_the_next_epoch(
    toy_run: RunConfig, change: dict[str, Any]
) -> None:
    train(toy_run, stop_requested=StopAfter(3))
    train(with_training(toy_run, steps=4, **change))

    assert events(toy_run, "step")[0]["epoch"] == 0
    assert events(toy_run, "step")[-1]["epoch"] == 1


def test_the_log_tells_loss_rate_and_speed(toy_run: RunConfig) -> None:
    train(toy_run)

    steps = events(toy_run, "step")
    assert {3, 6, 9, 12} <= {record["step"] for record in steps}
    assert steps[-1]["loss"] < steps[0]["loss"]
    assert all(record["tokens_per_second"] > 0 for record in steps)
    assert all(record["rate"] > 0 and record["grad_norm"] > 0 for record in steps)


def test_validation_scores_the_dev_set_and_keeps_the_best(
    toy_run: RunConfig, toy_text: CorpusConfig
) -> None:
    run = with_training(with_dev(toy_run, toy_text), best_by="loss")

    train(run)

    validations = events(run, "validation")
    assert [record["step"] for record in validations] == [6, 12]
    assert validations[1]["loss"] < validations[0]["loss"]
    assert validations[1]["best"]
    best, last = (
        load_weights(Path(run.folder) / "best"),
        list_checkpoints(Path(run.folder) / "checkpoints")[-1],
    )
    assert_close(best, load_weights(last), rtol=0, atol=0)


@needs_compiler
def test_validation_on_a_cpu_searches_by_the_native_engine(
    toy_run: RunConfig, toy_text: CorpusConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(plain_search, "search")
    suited = dataclasses.replace(toy_run.model, d_k=16, d_v=16)
    run = with_training(with_dev(toy_run, toy_text), steps=1, validate_every=1)

    train(dataclasses.replace(run, model=suited))

    assert len(events(run, "validation")) == 1


def test_patience_ends_a_run_that_no_longer_gets_better(
    toy_run: RunConfig, toy_text: CorpusConfig
) -> None:
    frozen = with_training(
        with_dev(toy_run, toy_text), best_by="loss", rate_scale=1e-12, validate_every=1, patience=2
    )

    outcome = train(frozen)

    assert isinstance(outcome, Finished)
    assert outcome.step < frozen.training.steps
    assert "no better validation in 2" in outcome.reason


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_batch(
    toy_run: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Tensor] = []

    def poisoned(logits: Tensor, labels: Tensor, smoothing: float) -> Any:
        calls.append(labels)
        factor = torch.nan if len(calls) == 6 else 1.0
        return label_smoothed_loss(logits * factor, labels, smoothing)

    monkeypatch.setattr("allyouneed.training.step.label_smoothed_loss", poisoned)
    with pytest.raises(TrainingError, match="no longer a number"):
        train(toy_run)

    folder = Path(toy_run.folder)
    pairs = (folder / "not-a-number.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(pairs) == (calls[5] == 2).sum()  # one END a target
    assert [path.name for path in list_checkpoints(folder / "checkpoints")] == ["step-00000004"]


def test_a_loss_that_is_no_number_never_reaches_a_checkpoint(
    toy_run: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    seldom_logged = with_training(toy_run, log_every=100, save_every=4)
    monkeypatch.setattr(
        "allyouneed.training.step.label_smoothed_loss",
        lambda logits, *rest: label_smoothed_loss(logits * torch.nan, *rest),
    )

    with pytest.raises(TrainingError, match="no longer a number at step 1;"):
        train(seldom_logged)

    assert not list_checkpoints(Path(toy_run.folder) / "checkpoints")


def test_out_of_memory_names_the_setting_to_lower(
    toy_run: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_much(*_: object) -> Any:
        raise torch.OutOfMemoryError

    monkeypatch.setattr("allyouneed.training.step.label_smoothed_loss", too_much)

    with pytest.raises(TrainingError, match=r"lower training\.batch_tokens \(now 256\)"):
        train(toy_run)


def test_dev_scores_are_loss_a_token_and_bleu_of_the_translations(
    toy_run: RunConfig, toy_text: CorpusConfig
) -> None:
    run = with_training(with_dev(toy_run, toy_text), steps=6)
    train(run)

    translator = Translator.load(Path(run.folder) / "best", device="cpu")
    sources, references = map(list, zip(*Corpus(toy_text), strict=True))
    scores = translator.score(sources, references)
    n_tokens = sum(len(translator.tokenizer.encode(text)) + 1 for text in references)
    texts = [translation.text for translation in translator.translate(sources)]
    [validation] = events(run, "validation")
    assert validation["loss"] == pytest.approx(
        -sum(score.log_probability for score in scores) / n_tokens
    )
    assert validation["bleu"] == pytest.approx(corpus_bleu(texts, references))
    assert validation["perplexity"] == pytest.approx(math.exp(validation["loss"]))
    [finish] = events(run, "finish")
    assert finish["bleu"] is not None


def test_a_better_validation_gives_patience_anew(
    toy_run: RunConfig, toy_text: CorpusConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    bleus = iter([5.0, 1.0, 6.0, 1.0, 1.0, 9.0, 9.0])
    monkeypatch.setattr("allyouneed.training.validation.corpus_bleu", lambda *_: next(bleus))
    run = with_training(with_dev(toy_run, toy_text), validate_every=1, patience=2)

    outcome = train(run)

    assert outcome.step == 5


def test_another_measure_of_the_best_starts_from_nothing(
    toy_run: RunConfig, toy_text: CorpusConfig
) -> None:
    run = with_training(with_dev(toy_run, toy_text), validate_every=3)
    train(run, stop_requested=StopAfter(4))
    train(with_training(run, best_by="loss"))

    assert [record["best"] for record in events(run, "validation")][:2] == [True, True]


def test_two_runs_in_one_folder_are_refused(toy_run: RunConfig) -> None:
    with (
        only_process_in(Path(toy_run.folder)),
        pytest.raises(TrainingError, match="another process"),
    ):
        train(toy_run)


def test_a_refused_run_leaves_the_folder_as_it_is(
    toy_run: RunConfig, toy_text: CorpusConfig
) -> None:
    train(with_training(toy_run, steps=4))
    folder = Path(toy_run.folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    heavier = dataclasses.replace(toy_text, weight=2.0)
    other = dataclasses.replace(toy_run.data, corpora=(heavier,))

    with pytest.raises(CheckpointError, match="trained on other data"):
        train(dataclasses.replace(toy_run, data=other))

    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_the_model_knows_how_long_its_sources_were(toy_run: RunConfig) -> None:
    train(with_training(toy_run, steps=1))

    data = PreparedData.open(Path(toy_run.folder) / "data")
    manifest = load_manifest(Path(toy_run.folder) / "model")
    assert manifest.max_source_tokens == data.lengths[:, 0].max() + 1


def test_the_users_run_file_is_left_alone(toy_run: RunConfig) -> None:
    folder = Path(toy_run.folder)
    folder.mkdir()
    (folder / "run.yaml").write_text("# mine", encoding="utf-8")

    train(with_training(toy_run, steps=1))

    assert (folder / "run.yaml").read_text(encoding="utf-8") == "# mine"


def test_a_folder_with_another_model_is_refused(toy_run: RunConfig) -> None:
    train(with_training(toy_run, steps=4))
    other = dataclasses.replace(toy_run, model=dataclasses.replace(toy_run.model, d_ff=64))

    with pytest.raises(CheckpointError, match="holds another model"):
        train(other)


def test_a_folder_trained_on_other_text_is_refused(
    toy_run: RunConfig, toy_text: CorpusConfig
) -> None:
    train(with_training(toy_run, steps=4))
    assert toy_text.source
    assert toy_text.target
    for side in (toy_text.source, toy_text.target):
        lines = Path(side).read_text(encoding="utf-8").splitlines()
        Path(side).write_text("\n".join(lines[:150]) + "\n", encoding="utf-8")

    with pytest.raises(CheckpointError, match="trained on other data"):
        train(toy_run)


def test_tensorboard_gets_the_scalars(toy_run: RunConfig) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(with_training(toy_run, tensorboard=True))

    written = EventAccumulator(str(Path(toy_run.folder) / "tensorboard"))
    written.Reload()
    losses = {scalar.step: scalar.value for scalar in written.Scalars("train/loss")}
    logged = {record["step"]: record["loss"] for record in events(toy_run, "step")}
    assert losses == pytest.approx(logged)


def test_listeners_hear_every_event(toy_run: RunConfig) -> None:
    heard: list[Event] = []

    class Ear:
        def report(self, event: Event) -> None:
            heard.append(event)

    outcome = train(toy_run, [Ear()])

    assert [event.name for event in heard].count("checkpoint") == 3
    assert heard[0].name == "start"
    assert heard[-1] == outcome
