"""A run from its settings to its model folder: data prepared, trained or gone on with, averaged."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from allyouneed.config import RunConfig
from allyouneed.data.prepare import TOKENIZER_FILE, is_prepared, prepare
from allyouneed.data.prepare import Progress as PrepareProgress
from allyouneed.data.shards import PreparedData
from allyouneed.device import pick_device
from allyouneed.run_file import save_run
from allyouneed.text.tokenizer import Tokenizer
from allyouneed.training.events import Finished, JsonLog, Listener, Stopped, TensorBoardLog
from allyouneed.training.loop import Trainer, run_steps


def train(
    run: RunConfig,
    listeners: Sequence[Listener] = (),
    stop_requested: Callable[[], bool] = lambda: False,
    prepare_progress: PrepareProgress = lambda stage, share, n_pairs: None,
) -> Finished | Stopped:
    """Make a run, or go on with one that was interrupted."""
    device = pick_device(run.training.device)  # before the long work, which a mistake would waste
    folder = Path(run.folder)
    prepared = folder / "data"
    if not is_prepared(run, prepared):
        prepare(run, prepared, progress=prepare_progress)
    tokenizer = Tokenizer.load(prepared / TOKENIZER_FILE)
    run = dataclasses.replace(run, model=dataclasses.replace(run.model, vocab_size=len(tokenizer)))
    save_run(run, folder / "run.yaml")
    logs: list[Listener] = [JsonLog(folder / "log.jsonl")]
    if run.training.tensorboard:
        logs.append(TensorBoardLog(folder / "tensorboard"))
    trainer = Trainer(
        run,
        PreparedData.open(prepared),
        tokenizer,
        device,
        [*logs, *listeners],
    )
    return run_steps(trainer, stop_requested)
