"""`allyouneed figure` from arguments to files."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tiny_translator import tiny_translator

from allyouneed.checkpoint import save_model
from allyouneed.cli.figure import figure
from allyouneed.config import ModelConfig, RunConfig, TrainingConfig
from allyouneed.errors import ConfigError
from allyouneed.run_file import SETTINGS, save_run
from allyouneed.training.optimizer import rate


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A run and its model in the current folder."""
    monkeypatch.chdir(tmp_path)
    made = tiny_translator()
    save_model(tmp_path / "tiny", made.model.state_dict(), made.tokenizer, made.manifest)
    (tmp_path / "run").mkdir()
    training = TrainingConfig(steps=50, warmup_steps=20)
    run = RunConfig(model=ModelConfig(d_model=64), training=training)
    save_run(run, tmp_path / "run" / SETTINGS)
    record = json.dumps({"event": "step", "step": 50, "loss": 2.0, "rate": 0.001})
    (tmp_path / "run" / "log.jsonl").write_text(record, encoding="utf-8")


def draw(*arguments: str) -> Result:
    return CliRunner().invoke(figure, list(arguments), catch_exceptions=False)


def test_figures_are_of_the_model_that_is_named() -> None:
    n_parameters = sum(it.numel() for it in tiny_translator().model.parameters())
    draw("architecture", "--model", "tiny")
    draw("multi-head", "--model", "tiny")

    drawn = Path("architecture.svg").read_text(encoding="utf-8")
    assert f"tiny: {n_parameters:,} parameters" in drawn
    assert "2 heads, d_k 4, d_v 4" in drawn
    assert "2 × 4 = 8" in Path("multi-head.svg").read_text(encoding="utf-8")


def test_positions_of_the_model_and_rate_and_curves_of_the_run_are_drawn() -> None:
    draw("positions", "--model", "tiny", "--output", "positions.png")
    draw("rate", "--run", "run")
    draw("curves", "--run", "run")

    peak = rate(20, 64, TrainingConfig(steps=50, warmup_steps=20))
    assert Path("positions.png").read_bytes().startswith(b"\x89PNG")
    assert f"{peak:.3g} at step 20" in Path("rate.svg").read_text(encoding="utf-8")
    assert Path("curves.svg").exists()


def test_a_run_file_is_enough_for_the_rate() -> None:
    draw("rate", "--run", f"run/{SETTINGS}", "--output", "a.svg")

    assert "settings: learning rate" in Path("a.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "arguments",
    [["rate"], ["curves", "--run", "run", "--model", "tiny"], ["positions", "--run", "run"]],
)
def test_models_and_runs_are_not_confused(arguments: list[str]) -> None:
    result = draw(*arguments)

    assert result.exit_code == 2
    assert "is drawn from a" in result.stderr


def test_other_kinds_of_pictures_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"\.png or \.svg, not '\.pdf'"):
        draw("positions", "--output", "a.pdf")
