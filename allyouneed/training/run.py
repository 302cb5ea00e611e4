"""A run from its settings to its model folder: data prepared, trained or gone on with, averaged."""

import contextlib
import dataclasses
import fcntl
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from allyouneed.config import RunConfig
from allyouneed.data.prepare import (
    TOKENIZER_FILE,
    PrepareProgress,
    fingerprint_of,
    is_prepared,
    prepare,
)
from allyouneed.data.shards import PreparedData
from allyouneed.device import as_current, pick_device
from allyouneed.errors import TrainingError
from allyouneed.run_file import SETTINGS, save_run
from allyouneed.text.tokenizer import Tokenizer
from allyouneed.training.checkpoints import refuse_other_data
from allyouneed.training.distributed import present_ranks
from allyouneed.training.events import Finished, JsonLog, Listener, Stopped, TensorBoardLog
from allyouneed.training.loop import Trainer, run_steps
from allyouneed.training.starting import with_start
from allyouneed.training.validation import DevSet


def train(
    run: RunConfig,
    listeners: Sequence[Listener] = (),
    stop_requested: Callable[[], bool] = lambda: False,
    prepare_progress: PrepareProgress = lambda stage, share, n_pairs: None,
) -> Finished | Stopped:
    """Make a run, or go on with one that was interrupted.

    `stop_requested` is asked after every step. Of the ranks that have been joined each tells its
    own listeners every event; the first alone writes.
    """
    run = with_start(run)
    ranks = present_ranks()
    folder = Path(run.folder)
    # What may be wrong is looked at before the long work.
    device = pick_device(run.training.device)
    dev = DevSet(run.data.dev) if run.data.dev else None
    refuse_other_data(folder / "checkpoints", fingerprint_of(run))
    logs = _logs(run) if ranks.is_first else []
    with as_current(device), contextlib.ExitStack() as until_the_end:

        def lock_and_prepare() -> None:
            until_the_end.enter_context(only_process_in(folder))
            if not is_prepared(run, folder / "data"):
                prepare(run, folder / "data", progress=prepare_progress)

        ranks.first_does(lock_and_prepare)
        data = PreparedData.open(folder / "data")
        tokenizer = Tokenizer.load(folder / "data" / TOKENIZER_FILE)
        model = dataclasses.replace(run.model, vocab_size=len(tokenizer))
        run_as_made = dataclasses.replace(run, model=model)
        try:
            trainer = Trainer(run_as_made, data, tokenizer, dev, device, [*logs, *listeners], ranks)
            if ranks.is_first:
                save_run(run_as_made, folder / SETTINGS)
            return run_steps(trainer, stop_requested)
        except torch.OutOfMemoryError:
            raise TrainingError(
                f"{device} is out of memory; lower training.batch_tokens (now "
                f"{run.training.batch_tokens}) and raise training.accumulate to keep the tokens a "
                "step the same"
            ) from None


def _logs(run: RunConfig) -> list[Listener]:
    folder = Path(run.folder)
    logs: list[Listener] = [JsonLog(folder / "log.jsonl")]
    if run.training.tensorboard:
        logs.append(TensorBoardLog(folder / "tensorboard"))
    return logs


@contextlib.contextmanager
def only_process_in(folder: Path) -> Iterator[None]:
    """Two runs in one folder would write over each other's checkpoints."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a killed process lets go of it
        except OSError:
            raise TrainingError(
                f"{folder}: another process is training here; wait for it"
            ) from None
        yield
