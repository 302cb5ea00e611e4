"""The command as a whole: instant help, one exit code for mistakes, no tracebacks."""

import subprocess
import sys
from pathlib import Path

import pytest
from torch.testing import assert_close

from allyouneed.checkpoint import load_weights
from allyouneed.cli.main import COMMANDS, cli
from allyouneed.models import PRETRAINED

SHIPPED = PRETRAINED / "en-de"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "allyouneed", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_help_names_every_command_and_loads_no_torch() -> None:
    code = (
        "import sys; from allyouneed.cli.main import cli; "
        "cli(['--help'], standalone_mode=False); print('torch' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert all(name in shown.stdout for name in COMMANDS)
    assert shown.stdout.endswith("False\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_in_a_line(name: str) -> None:
    command = cli.get_command(None, name)  # type: ignore[arg-type]

    assert command is not None
    assert command.help


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fly"], "No such command 'fly'"),
        (["translate", "--model", "nowhere", "x"], "nowhere"),
        (["train", "nowhere.yaml"], "nowhere.yaml"),
        (["average", "nowhere", "--output", "x"], "nowhere"),
    ],
)
def test_mistakes_exit_with_2_without_a_traceback(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    result = run(*arguments)

    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.iterdir())


def test_average_of_one_model_with_itself_is_that_model(tmp_path: Path) -> None:
    result = run("average", SHIPPED, SHIPPED.name, "--output", tmp_path / "mean")

    assert result.returncode == 0, result.stderr
    assert_close(load_weights(tmp_path / "mean"), load_weights(SHIPPED))
