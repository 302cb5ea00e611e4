"""The benchmark runs and reports on a model that takes a second."""

import json
import subprocess
import sys
from pathlib import Path

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
