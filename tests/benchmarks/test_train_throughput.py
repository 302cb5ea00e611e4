"""The benchmark runs and reports on a model that takes a second."""

import json
import subprocess
import sys
from pathlib import Path

from allyouneed.config import RunConfig
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


def test_a_peer_learns_from_a_prepared_run(tmp_path: Path, toy_run: RunConfig) -> None:
    save_run(toy_run, tmp_path / "run.yaml")
    prepare(toy_run, Path(toy_run.folder) / "data")
    corpus = toy_run.data.corpora[0]
    files = ["--source", str(corpus.source), "--reference", str(corpus.target)]

    subprocess.run(
        [sys.executable, str(SCRIPT.with_name("train_peer.py")), "run.yaml", "--eager",
         *files, "--minutes", "0.03", "--output", "log.jsonl"],
        check=True, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip

    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert events[-1]["event"] == "validation"
    assert events[-1]["bleu"] >= 0
    losses = [event["loss"] for event in events if event["event"] == "step"]
    assert losses[-1] < losses[0]
