"""What `train` shows: a live bar on a terminal, plain lines elsewhere."""

import contextlib
from collections.abc import Iterator
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from allyouneed.training.events import (
    Event,
    Finished,
    Listener,
    Saved,
    Started,
    Stepped,
    Stopped,
    Validated,
)

COLUMNS = (  # what matters least stands last, where a narrow terminal cuts it off
    BarColumn(bar_width=10),
    TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
    TimeRemainingColumn(),
    TextColumn("{task.description}"),
)


class Display(Listener, Protocol):
    """A listener that can also show how far the preparation of the data is."""

    def preparing(self, stage: str, share: float, n_pairs: int) -> None: ...


@contextlib.contextmanager
def make_display(stream: TextIO) -> Iterator[Display]:
    console = Console(file=stream, highlight=False)
    if not console.is_terminal:
        yield PlainLines(stream)
        return
    with Progress(*COLUMNS, console=console) as progress:
        yield LiveBar(progress)


def describe(event: Event) -> str | None:
    """One line for an event; None where there is nothing a person needs to read."""
    match event:
        case Started():
            going_on = f", going on after step {event.step:,}" if event.step else ""
            return (
                f"{event.n_parameters / 1e6:.1f} M parameters, {event.n_pairs:,} pairs, "
                f"{event.device}, {event.precision}{going_on}"
            )
        case Stepped():
            return (
                f"step {event.step:,} · epoch {event.epoch + 1} · loss {event.loss:.3f} · "
                f"perplexity {event.perplexity:.2f} · norm {event.grad_norm:.2f} · "
                f"rate {event.rate:.2e} · {event.tokens_per_second:,.0f} tokens/s"
            )
        case Validated():
            best = " (best)" if event.best else ""
            return (
                f"step {event.step:,} · dev loss {event.loss:.3f} · "
                f"perplexity {event.perplexity:.2f} · BLEU {event.bleu:.2f}{best}"
            )
        case Stopped():
            return f"stopped and saved at step {event.step:,}: {event.path}"
        case Finished():
            dev = "" if event.bleu is None else f", dev BLEU {event.bleu:.2f}"
            return (
                f"{event.reason}; the mean of the last {event.averaged} checkpoints is "
                f"{event.path}{dev}"
            )
        case Saved():
            return None


def _figures(event: Stepped) -> str:
    """The newest figures, short enough to stand beside a bar."""
    return (
        f"loss {event.loss:.3f} ppl {event.perplexity:.1f} rate {event.rate:.1e} "
        f"{event.tokens_per_second / 1000:,.1f}k tok/s norm {event.grad_norm:.2f}"
    )


class PlainLines:
    """For logs: every event a line, with the time left at each report of steps."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._stage = ""

    def preparing(self, stage: str, share: float, n_pairs: int) -> None:
        if stage != self._stage:
            self._stage = stage
            print(stage, file=self._stream, flush=True)

    def report(self, event: Event) -> None:
        if line := describe(event):
            print(line, file=self._stream, flush=True)


class LiveBar:
    """A bar that moves with the steps, the newest figures beside it; the rest scrolls by."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None
        self._stage = ""

    def preparing(self, stage: str, share: float, n_pairs: int) -> None:
        if stage != self._stage:
            self._stage = stage
            self._begin(stage, total=100, completed=0)
        self._move(completed=100 * share)

    def report(self, event: Event) -> None:
        line = describe(event)
        if isinstance(event, Started):
            self._begin("training", total=event.steps, completed=event.step)
        if isinstance(event, Stepped):
            self._move(completed=event.step, description=_figures(event))
        elif line:
            self._progress.console.print(line)

    def _begin(self, description: str, total: int, completed: int) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(description, total=total, completed=completed)

    def _move(self, completed: float, description: str | None = None) -> None:
        assert self._task is not None
        self._progress.update(self._task, completed=completed, description=description)
