"""The benchmark of the data path, at a size that takes a moment."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "data_path.py"


def test_the_data_path_benchmark_prints_and_writes_its_figures(tmp_path: Path) -> None:
    sizes = ["--pairs", "3000", "--batch-tokens", "2048", "--json", str(tmp_path / "figures.json")]

    shown = subprocess.run(
        [sys.executable, BENCHMARK, *sizes], capture_output=True, text=True, check=True
    )

    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert all(stage in shown.stdout for stage in figures)
    assert all(rate > 0 for rate in figures.values())
    assert 0.8 < figures["rows filled"] <= 1
