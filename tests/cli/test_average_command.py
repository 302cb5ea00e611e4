"""`allyouneed average`: folders and shipped models in, one model folder out."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from torch.testing import assert_close

from allyouneed.checkpoint import load_weights
from allyouneed.cli.average import average
from allyouneed.errors import CheckpointError
from allyouneed.models import find_model

SHIPPED = "en-de"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(average, [str(it) for it in arguments], catch_exceptions=False)


def test_a_shipped_model_is_found_by_its_name(tmp_path: Path) -> None:
    shown = run(SHIPPED, find_model(SHIPPED), "--output", tmp_path / "mean")

    assert "the mean of 2" in shown.stderr
    assert_close(load_weights(tmp_path / "mean"), load_weights(find_model(SHIPPED)))


def test_what_is_not_a_model_is_refused_and_nothing_written(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=f"nowhere: not a model folder; .*{SHIPPED}"):
        run(SHIPPED, tmp_path / "nowhere", "--output", tmp_path / "mean")

    assert not list(tmp_path.iterdir())
