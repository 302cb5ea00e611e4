"""`allyouneed quantize`: eight bits in the folder, and the same sentences out of it."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from tiny_translator import tiny_translator

from allyouneed.checkpoint import WEIGHTS, load_weights, save_model
from allyouneed.cli.quantize import quantize
from allyouneed.errors import CheckpointError
from allyouneed.weights import Weights


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    made = tiny_translator()
    save_model(tmp_path / "whole", made.model.state_dict(), made.tokenizer, made.manifest)
    return tmp_path / "whole"


def run(*arguments: object) -> str:
    return (
        CliRunner().invoke(quantize, [str(it) for it in arguments], catch_exceptions=False).stderr
    )


def test_the_folder_shrinks_and_holds_nearly_the_same_weights(whole: Path) -> None:
    shown = run(whole, "--output", whole.with_name("small"))

    small = whole.with_name("small")
    assert (small / WEIGHTS).stat().st_size < (whole / WEIGHTS).stat().st_size
    assert Weights.open(small / WEIGHTS).are_in_eight_bits
    assert "MB of weights" in shown
    for name, tensor in load_weights(whole).items():
        largest = tensor.abs().amax(dim=-1, keepdim=True)
        assert ((load_weights(small)[name] - tensor).abs() <= largest / 250).all()


def test_quantizing_twice_changes_nothing_more(whole: Path) -> None:
    once, twice = whole.with_name("once"), whole.with_name("twice")
    run(whole, "--output", once)
    run(once, "--output", twice)

    assert (once / WEIGHTS).read_bytes() == (twice / WEIGHTS).read_bytes()


def test_what_is_not_a_model_is_refused_and_nothing_written(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not a model folder"):
        run(tmp_path / "nowhere", "--output", tmp_path / "small")

    assert not list(tmp_path.iterdir())
