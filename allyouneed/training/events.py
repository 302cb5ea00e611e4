"""What a run tells the world: a few kinds of event, and listeners that write them down.

A progress bar on a terminal is a listener too; it lives with the command line.
"""

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from allyouneed.errors import MissingExtraError


@dataclass(frozen=True, kw_only=True)
class Started:
    """Everything is loaded and the first step is about to be made."""

    name: ClassVar[str] = "start"
    step: int  # steps made before, by a run that this one goes on from
    steps: int
    warmup_steps: int
    peak_rate: float
    n_parameters: int
    n_pairs: int
    device: str
    precision: str


@dataclass(frozen=True, kw_only=True)
class Stepped:
    """Means over the steps since the last such event."""

    name: ClassVar[str] = "step"
    step: int
    epoch: int
    loss: float  # label-smoothed, nats a token
    nll: float
    grad_norm: float
    rate: float
    tokens_per_second: float  # source and target, padding not counted
    time: float  # seconds of training, earlier sessions of the run included

    @property
    def perplexity(self) -> float:
        return perplexity(self.nll)


@dataclass(frozen=True, kw_only=True)
class Validated:
    """Scores on the development set."""

    name: ClassVar[str] = "validation"
    step: int
    loss: float  # nats a token, no smoothing
    bleu: float
    best: bool  # better than every one before
    time: float

    @property
    def perplexity(self) -> float:
        return perplexity(self.loss)


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A checkpoint can be gone on from."""

    name: ClassVar[str] = "checkpoint"
    step: int
    path: str


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """The run was asked to stop; the same command goes on from the checkpoint."""

    name: ClassVar[str] = "stop"
    step: int
    path: str


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The averaged model is written."""

    name: ClassVar[str] = "finish"
    step: int
    reason: str
    path: str
    averaged: int  # checkpoints
    loss: float | None  # on the development set, if there is one
    bleu: float | None
    best_bleu: float | None  # of `best`, where BLEU decides which that is
    time: float


Event = Started | Stepped | Validated | Saved | Stopped | Finished


class Listener(Protocol):
    def report(self, event: Event) -> None: ...


def perplexity(nll: float) -> float:
    return math.exp(nll) if nll < 700 else math.inf


class JsonLog:
    """One JSON object a line, appended to; a resumed run goes on in the same file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def report(self, event: Event) -> None:
        record = {"event": event.name, **dataclasses.asdict(event)}
        if isinstance(event, Stepped | Validated):
            record["perplexity"] = event.perplexity
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


class TensorBoardLog:
    """Scalars for TensorBoard."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtraError("tensorboard", "tensorboard", "training.tensorboard") from None
        self._writer = SummaryWriter(folder)

    def report(self, event: Event) -> None:
        if isinstance(event, Stepped | Validated):
            group = "train" if isinstance(event, Stepped) else "dev"
            values = {**dataclasses.asdict(event), "perplexity": event.perplexity}
            for name in values.keys() - {"step", "best", "time"}:
                self._writer.add_scalar(f"{group}/{name}", values[name], event.step)
            self._writer.flush()
