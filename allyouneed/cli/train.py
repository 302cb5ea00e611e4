"""`allyouneed train`."""

import contextlib
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from allyouneed.cli.run_options import overrides_option, run_file_argument

if TYPE_CHECKING:
    from allyouneed.training.events import Event


class StopSwitch:
    """Once training has begun, SIGINT and SIGTERM ask for a stop after the step.

    Before that there is nothing to save, and a second SIGINT stops at once.
    """

    def __init__(self) -> None:
        self.signal: int | None = None

    def report(self, event: "Event") -> None:
        if event.name == "start":
            signal.signal(signal.SIGINT, self._pressed)
            signal.signal(signal.SIGTERM, self._pressed)

    def _pressed(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        signal.signal(signal.SIGINT, signal.default_int_handler)

    @property
    def is_pressed(self) -> bool:
        return self.signal is not None


@click.command()
@run_file_argument
@overrides_option
@click.option("--folder", help="Where everything the run makes is kept: overrides the run file.")
def train(run_file: Path, overrides: tuple[str, ...], folder: str | None) -> None:
    """Train a model as RUN_FILE describes.

    The vocabulary is learned and the text prepared first if that has not been done. A run that
    was interrupted goes on from its last checkpoint when the same command is given again.
    """
    from allyouneed.cli.train_display import Nothing, make_display
    from allyouneed.run_file import load_run
    from allyouneed.training.distributed import joined_ranks
    from allyouneed.training.events import Stopped
    from allyouneed.training.run import train as train_run

    run = load_run(run_file, [*overrides, *([f"folder={folder}"] if folder else [])])
    stop = StopSwitch()
    speaks = os.environ.get("RANK", "0") == "0"  # this and the next are set by torchrun
    attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    with (
        joined_ranks(run.training.device, attempt),
        make_display(sys.stderr) if speaks else contextlib.nullcontext(Nothing()) as display,
    ):

        def stop_after_step() -> bool:
            display.step_made()
            return stop.is_pressed

        outcome = train_run(
            run, [stop, display], stop_after_step, prepare_progress=display.preparing
        )
    if isinstance(outcome, Stopped):
        if speaks:
            click.echo("give the same command again to go on", err=True)
        sys.exit(128 + (stop.signal or signal.SIGTERM))  # another rank may have got the signal
    if not speaks:
        return
    _draw_curves(Path(run.folder))
    click.echo(f'translate with: allyouneed translate --model {outcome.path} "…"', err=True)


def _draw_curves(folder: Path) -> None:
    from allyouneed.errors import MissingExtraError
    from allyouneed.visualization.curves import draw_curves

    picture = folder / "curves.png"
    try:
        draw_curves(folder / "log.jsonl", picture)
    except MissingExtraError as error:
        click.echo(f"no picture of the learning curves: {error}", err=True)
    else:
        click.echo(f"learning curves: {picture}", err=True)
