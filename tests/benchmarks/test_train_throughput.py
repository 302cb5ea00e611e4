"""The benchmark runs and reports on a model that takes a second."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from training_peers import Marian, TorchTransformer

from allyouneed.config import ModelConfig, RunConfig
from allyouneed.data.prepare import prepare
from allyouneed.run_file import save_run

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "train_throughput.py"


def test_ours_and_a_peer_are_reported(tmp_path: Path) -> None:
    small = (
        "--model tiny --vocab-size 100 --batch-tokens 256 --steps 2 --device cpu --json out.json"
    )
    systems = ["allyouneed", "torch.nn.Transformer"]

    done = subprocess.run(
        [sys.executable, str(SCRIPT), *small.split(), "--systems", *systems],
        check=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    figures = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert [figure["system"] for figure in figures] == systems
    assert all(figure["tokens_per_second"] > 0 for figure in figures)
    assert "× fastest peer" in done.stdout


@pytest.mark.parametrize("n_decoder_layers", [None, 1])
def test_peers_have_as_many_layers_as_ours(n_decoder_layers: int | None) -> None:
    pytest.importorskip("transformers")
    config = ModelConfig(
        vocab_size=10, n_layers=3, n_decoder_layers=n_decoder_layers, d_model=8, d_ff=8, n_heads=2
    )

    marian, transformer = Marian(config).marian.model, TorchTransformer(config).transformer

    for encoder, decoder in (
        (marian.encoder, marian.decoder),
        (transformer.encoder, transformer.decoder),
    ):
        assert (len(encoder.layers), len(decoder.layers)) == (3, config.decoder_layers)


def train_peer(folder: Path, run: RunConfig, *options: str) -> subprocess.CompletedProcess[str]:
    save_run(run, folder / "run.yaml")
    corpus = run.data.corpora[0]
    return subprocess.run(
        [sys.executable, str(SCRIPT.with_name("train_peer.py")), "run.yaml", "--eager",
         "--source", str(corpus.source), "--reference", str(corpus.target),
         "--output", "log.jsonl", *options],
        check=False, cwd=folder, capture_output=True, text=True,
    )  # fmt: skip


def test_a_peer_learns_from_a_prepared_run(tmp_path: Path, toy_run: RunConfig) -> None:
    prepare(toy_run, Path(toy_run.folder) / "data")

    # Far more time than it takes: how far the peer gets must not depend on the machine.
    done = train_peer(tmp_path, toy_run, "--minutes", "60", "--steps", "30")

    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert (events[-1]["event"], events[-1]["step"]) == ("validation", 30)
    assert events[-1]["bleu"] >= 0
    losses = [event["loss"] for event in events if event["event"] == "step"]
    assert losses[-1] < losses[0]


def test_a_peer_whose_data_is_missing_is_refused(tmp_path: Path, toy_run: RunConfig) -> None:
    done = train_peer(tmp_path, toy_run, "--minutes", "1")

    assert done.returncode == 2
    assert "no tokenizer to read here" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "log.jsonl").exists()
