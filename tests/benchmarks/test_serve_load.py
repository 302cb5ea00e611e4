"""The benchmark of the server, at a size that takes seconds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_translator import tiny_translator

from allyouneed.checkpoint import save_model

pytest.importorskip("ctranslate2")
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "serve_load.py"


def test_every_server_answers_every_client(tmp_path: Path) -> None:
    translator = tiny_translator()
    model, figures = tmp_path / "tiny", tmp_path / "figures.json"
    save_model(model, translator.model.state_dict(), translator.tokenizer, translator.manifest)
    sizes = ["--requests", "12", "--clients", "4", "--threads", "1", "--peers", "int8"]
    command = [sys.executable, str(BENCHMARK), "--model", str(model), *sizes]

    shown = subprocess.run(
        [*command, "--json", str(figures)], capture_output=True, text=True, check=True
    )

    loads = json.loads(figures.read_text(encoding="utf-8"))
    assert len(loads) == 4
    for load in loads:
        assert load["name"] in shown.stdout
        assert (load["answers"], load["lost"], load["swapped"]) == (12, 0, 0)
        assert 0 < load["p50"] <= load["p95"] <= load["p99"]
