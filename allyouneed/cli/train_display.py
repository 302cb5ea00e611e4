"""What `train` shows: a live bar on a terminal, plain lines elsewhere."""

import contextlib
import time
from collections.abc import Iterator
from datetime import timedelta
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

HIGH_RATE = 5e-3  # the paper's own peak is 7e-4
COLUMNS = (  # what matters least stands last, where a narrow terminal cuts it off
    BarColumn(bar_width=10),
    TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
    TimeRemainingColumn(),
    TextColumn("{task.description}", markup=False),
)


class Display(Listener, Protocol):
    """A listener that also shows the preparation of the data, and every single step."""

    def preparing(self, stage: str, share: float, n_pairs: int) -> None: ...

    def step_made(self) -> None: ...


class Nothing:
    """What ranks other than the first show."""

    def report(self, event: Event) -> None:
        pass

    def preparing(self, stage: str, share: float, n_pairs: int) -> None:
        pass

    def step_made(self) -> None:
        pass


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
                f"{event.device}, {event.precision}, rate up to {event.peak_rate:.1e}{going_on}"
                f"{_rate_warning(event)}"
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
            mean = f"mean of the last {event.averaged} checkpoints"
            result = "last checkpoint" if event.averaged == 1 else mean
            return f"{event.reason}; the {result} is {event.path}{dev}{_better_one(event)}"
        case Saved():
            return None


def _rate_warning(event: Started) -> str:
    if event.warmup_steps >= event.steps:
        return "\nthe warm-up outlasts the run, whose rate stays low; lower training.warmup_steps"
    if event.peak_rate > HIGH_RATE:
        return (
            f"\nthe rate will rise to {event.peak_rate:.1e}, from which few models learn; raise "
            "training.warmup_steps or lower training.rate_scale"
        )
    return ""


def _better_one(event: Finished) -> str:
    """The mean of checkpoints from a steep part of the curve is worse than the last of them."""
    if event.bleu is None or event.best_bleu is None or event.best_bleu <= event.bleu:
        return ""
    better = f"\nthe folder best beside it scored {event.best_bleu:.2f}"
    if event.averaged == 1:
        return better
    return (
        f"{better}; a lower training.average, or checkpoints closer together "
        "(training.save_every), may close the gap"
    )


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
        self._started: Started | None = None
        self._start_time = 0.0

    def preparing(self, stage: str, share: float, n_pairs: int) -> None:
        if stage != self._stage:
            self._stage = stage
            print(stage, file=self._stream, flush=True)

    def step_made(self) -> None:
        """Single steps are not worth a line."""

    def report(self, event: Event) -> None:
        if isinstance(event, Started):
            self._started, self._start_time = event, time.monotonic()
        line = describe(event)
        if isinstance(event, Stepped):
            line = f"{line} · {self._time_left(event)} left"
        if line:
            print(line, file=self._stream, flush=True)

    def _time_left(self, event: Stepped) -> timedelta:
        assert self._started is not None
        seconds_a_step = (time.monotonic() - self._start_time) / (event.step - self._started.step)
        return timedelta(seconds=round(seconds_a_step * (self._started.steps - event.step)))


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

    def step_made(self) -> None:
        assert self._task is not None
        self._progress.advance(self._task)

    def report(self, event: Event) -> None:
        line = describe(event)
        if isinstance(event, Started):
            self._begin("training", total=event.steps, completed=event.step)
        if isinstance(event, Stepped):
            self._move(completed=event.step, description=_figures(event))
        elif line:
            self._progress.console.print(line, markup=False)

    def _begin(self, description: str, total: int, completed: int) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(description, total=total, completed=completed)

    def _move(self, completed: float, description: str | None = None) -> None:
        assert self._task is not None
        self._progress.update(self._task, completed=completed, description=description)
