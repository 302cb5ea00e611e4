"""The benchmark runs and reports on a model that takes a second."""

import json
import subprocess
import sys
from pathlib import Path

from native_models import needs_compiler

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "decode_speed.py"


@needs_compiler
def test_all_settings_of_all_systems_are_reported(tmp_path: Path) -> None:
    small = "--preset tiny --vocab-size 400 --tokens 4 --sentences 3 --rounds 1 --threads 1"
    systems = "--systems int8 plain --beam-sizes 2 --batch-sizes 2 1"
    command = [sys.executable, str(SCRIPT), *small.split(), *systems.split(), "--json", "out.json"]

    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)

    rows = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["rows"]
    assert [(row["system"], row["batch"]) for row in rows] == [
        (system, batch) for batch in (2, 1) for system in ("int8", "plain")
    ]
    assert all(row["tokens_a_second"] > 0 and row["peak_mebibytes"] > 0 for row in rows)
    assert [row["latency_p50"] is None for row in rows] == [True, True, False, False]
