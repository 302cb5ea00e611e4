"""Training (section 5): a loop of one screen, and the trainer whose parts it names."""

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from allyouneed.checkpoint import Manifest, average_weights, load_weights, save_model
from allyouneed.config import RunConfig
from allyouneed.data.batches import Batch, Batches, Position
from allyouneed.data.shards import PreparedData
from allyouneed.errors import TrainingError
from allyouneed.inference.engines import native_engine
from allyouneed.model.transformer import Transformer
from allyouneed.models import find_model
from allyouneed.text.tokenizer import Tokenizer
from allyouneed.training.checkpoints import (
    Progress,
    drop_old_checkpoints,
    list_checkpoints,
    restore_checkpoint,
    save_checkpoint,
)
from allyouneed.training.distributed import ALONE, Ranks
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
from allyouneed.training.feeding import ahead
from allyouneed.training.optimizer import make_adam, rate, set_rate
from allyouneed.training.sharding import load_whole, shard, unsharded, whole_on_first
from allyouneed.training.starting import longest_source_of_start
from allyouneed.training.step import StepResult, TrainStep
from allyouneed.training.validation import DevScores, DevSet
from allyouneed.translator import Translator

Positioned = tuple[Batch, Position]


def run_steps(trainer: "Trainer", stop_requested: Callable[[], bool]) -> Finished | Stopped:
    """From where the trainer stands to the end of its run, or until it is asked to stop."""
    config = trainer.run.training
    if config.start_from is not None and trainer.progress.step == 0:
        trainer.validate()  # what it can do already is what the run has to better
    with trainer.batches() as batches:
        while (reason := trainer.reason_to_end()) is None:
            trainer.step([next(batches) for _ in range(config.accumulate)])
            if trainer.is_time_to(config.log_every):
                trainer.log()
            if trainer.is_time_to(config.validate_every):
                trainer.validate()
            if trainer.is_time_to(config.save_every):
                trainer.save()
            if trainer.ranks.any(stop_requested()):
                return trainer.stop()
    return trainer.finish(reason)


class _Unlogged(NamedTuple):
    """What is kept of a step until it is reported."""

    result: StepResult
    n_tokens: int
    pairs: list[int]


class Trainer:
    """A model in training, with what surrounds it: data, optimizer, progress, reports."""

    def __init__(
        self,
        run: RunConfig,
        data: PreparedData,
        tokenizer: Tokenizer,
        dev: DevSet | None,
        device: torch.device,
        listeners: Sequence[Listener],
        ranks: Ranks = ALONE,
    ) -> None:
        self.run = run
        self.ranks = ranks
        self._folder = Path(run.folder)
        self._data, self._tokenizer, self._listeners = data, tokenizer, listeners
        self._dev = dev
        torch.manual_seed(run.training.seed)
        self.model = Transformer(run.model).to(device)
        ranks.seed(run.training.seed)
        if run.training.parallel == "fsdp" and ranks.count > 1:
            shard(self.model)
        self._optimizer = make_adam(self.model, run.training)
        self._train_step = TrainStep(self.model, self._optimizer, run.training, ranks)
        self._batches = Batches(data, run.training, ranks.number, ranks.count)
        self.manifest = Manifest(
            source_language=run.source_language,
            target_language=run.target_language,
            max_source_tokens=max(_longest_source(data), longest_source_of_start(run)),
            model=run.model,
            decoding=run.decoding,
        )
        self.progress = Progress(
            data_fingerprint=data.description.fingerprint,
            plan=self._batches.settings,
            best_by=run.training.best_by,
        )
        self._unlogged: list[_Unlogged] = []
        self._saved: tuple[int, Path] | None = None  # the newest checkpoint and its step
        self._probe_memory(device)
        self._restore()
        self._last_count = time.monotonic()
        self._report(
            Started(
                step=self.progress.step,
                steps=run.training.steps,
                warmup_steps=run.training.warmup_steps,
                peak_rate=rate(
                    min(run.training.warmup_steps, run.training.steps),
                    run.model.d_model,
                    run.training,
                ),
                n_parameters=sum(parameter.numel() for parameter in self.model.parameters()),
                n_pairs=sum(corpus.n_pairs for corpus in data.description.corpora),
                device=str(device),
                precision=self._train_step.precision,
            )
        )

    @contextlib.contextmanager
    def batches(self) -> Iterator[Iterator[Positioned]]:
        """Those that the run has not seen yet."""
        stream = self._batches.starting_at(self.progress.position)
        if self.model.device.type == "cuda":
            stream = ((batch.pinned(), position) for batch, position in stream)
        with contextlib.closing(ahead(stream)) as prepared:
            yield prepared

    def step(self, batches: list[Positioned]) -> None:
        self.progress.step += 1
        self.model.train()
        set_rate(self._optimizer, self._rate())
        members = [batch for batch, _ in batches]
        self._unlogged.append(
            _Unlogged(
                self._train_step(members),
                sum(batch.n_src_tokens + batch.n_tgt_tokens for batch in members),
                [pair for batch in members for pair in batch.pairs],
            )
        )
        self.progress.position = batches[-1][1]

    def is_time_to(self, every: int) -> bool:
        return self.progress.step % every == 0

    def log(self) -> None:
        """Report the steps since the last report: the only place that waits for the device."""
        if not self._unlogged:
            return
        results = torch.stack([torch.stack(step.result) for step in self._unlogged])
        results[:, :2] = self.ranks.sum(results[:, :2])  # of the losses each rank has a part
        rows = results.tolist()
        for number, (loss, _, grad_norm) in enumerate(rows):
            if not (math.isfinite(loss) and math.isfinite(grad_norm)):
                self._refuse(number)
        n_tokens = sum(step.n_tokens for step in self._unlogged)
        loss, nll, grad_norm = (sum(column) / len(rows) for column in zip(*rows, strict=True))
        seconds = self._count_time()
        self._unlogged.clear()
        self._report(
            Stepped(
                step=self.progress.step,
                epoch=self.progress.position.epoch,
                loss=loss,
                nll=nll,
                grad_norm=grad_norm,
                rate=self._rate(),
                tokens_per_second=n_tokens / seconds,
                time=self.progress.seconds,
            )
        )

    def validate(self) -> None:
        """Score the development set; the best model so far is kept in `best`."""
        if self._dev is None:
            return
        self.log()
        scores = self._dev_scores(self._dev)
        score = scores.bleu if self.run.training.best_by == "bleu" else -scores.loss
        progress = self.progress
        best = progress.best_score is None or score > progress.best_score
        if best:
            progress.best_score, progress.validations_since_best = score, 0
            self._save_model("best")
        else:
            progress.validations_since_best += 1
        self._count_time()
        self._report(
            Validated(
                step=progress.step,
                loss=scores.loss,
                bleu=scores.bleu,
                best=best,
                time=progress.seconds,
            )
        )

    def save(self) -> None:
        self.log()  # a loss that is not a number must not reach a checkpoint
        self._count_time()
        path = save_checkpoint(
            self._checkpoints,
            self.model,
            self._optimizer,
            self.progress,
            self._tokenizer,
            self.manifest,
            self.ranks,
        )
        if self.ranks.is_first:
            drop_old_checkpoints(
                self._checkpoints, self.run.training.save_every, self.run.training.keep_checkpoints
            )
        self._count_time()
        self._saved = self.progress.step, path
        self._report(Saved(step=self.progress.step, path=str(path)))

    def reason_to_end(self) -> str | None:
        patience = self.run.training.patience
        if self.progress.step >= self.run.training.steps:
            return "all steps made"
        if patience is not None and self.progress.validations_since_best >= patience:
            return f"no better validation in {patience}"
        return None

    def stop(self) -> Stopped:
        """Leave off so that the run can go on later."""
        stopped = Stopped(step=self.progress.step, path=str(self._newest_checkpoint()))
        self._report(stopped)
        return stopped

    def finish(self, reason: str) -> Finished:
        """Average the last checkpoints (section 6.1) into the run's model folder."""
        self._newest_checkpoint()
        last = self._all_checkpoints()[-self.run.training.average :]
        load_whole(self.model, average_weights(last))
        scores = self._dev_scores(self._dev) if self._dev else None
        self._save_model("model")
        finished = Finished(
            step=self.progress.step,
            reason=reason,
            path=str(self._folder / "model"),
            averaged=len(last),
            loss=scores and scores.loss,
            bleu=scores and scores.bleu,
            best_bleu=self.progress.best_score if self.progress.best_by == "bleu" else None,
            time=self.progress.seconds,
        )
        self._report(finished)
        return finished

    @property
    def _checkpoints(self) -> Path:
        return self._folder / "checkpoints"

    def _restore(self) -> None:
        checkpoints = self._all_checkpoints()
        if not checkpoints:
            if self.run.training.start_from is not None:
                load_whole(self.model, load_weights(find_model(self.run.training.start_from)))
            return
        progress = restore_checkpoint(
            checkpoints[-1], self.model, self._optimizer, self.ranks.number
        )
        if progress.plan != self.progress.plan:
            # The batches are other ones now, so the rest of this epoch cannot be told from the
            # part that was seen: go on with the next.
            progress.plan = self.progress.plan
            progress.position = Position(progress.position.epoch + 1)
        if progress.best_by != self.progress.best_by:
            progress.best_by, progress.best_score = self.progress.best_by, None
            progress.validations_since_best = 0
        self.progress = progress
        self._saved = progress.step, checkpoints[-1]

    def _all_checkpoints(self) -> list[Path]:
        """Those that the first rank sees: a network's file system may show others older ones."""
        return self.ranks.gather(list_checkpoints(self._checkpoints))[0]

    def _newest_checkpoint(self) -> Path:
        """That of the present step, written if it has not been."""
        if self._saved is None or self._saved[0] != self.progress.step:
            self.save()
        assert self._saved is not None
        return self._saved[1]

    def _probe_memory(self, device: torch.device) -> None:
        if device.type == "cuda":  # a CPU has no memory limit of its own that could be tried
            self._train_step.probe(self._batches.largest())

    def _refuse(self, number: int) -> None:
        """The loss of this unlogged step is not a number: keep its text, go no further."""
        path = self._folder / "not-a-number.jsonl"
        if self.ranks.is_first:
            self._write_pairs(self._unlogged[number].pairs, path)
        raise TrainingError(
            f"the loss is no longer a number at step "
            f"{self.progress.step - len(self._unlogged) + 1 + number}; its pairs are in {path}. "
            "The last checkpoint is from before. Try a lower training.rate_scale, more "
            "training.warmup_steps or training.clip_norm: 1.0, and look at the pairs"
        )

    def _write_pairs(self, pairs: list[int], path: Path) -> None:
        with path.open("w", encoding="utf-8") as file:
            for index in pairs:
                source, target = (
                    self._tokenizer.decode(ids.tolist()) for ids in self._data.pair(index)
                )
                record = {"pair": index, "source": source, "target": target}
                file.write(json.dumps(record, ensure_ascii=False) + "\n")

    def _dev_scores(self, dev: DevSet) -> DevScores:
        model = unsharded(self.model).eval()
        engine = native_engine(model, torch.get_num_threads())
        translator = Translator(model, self._tokenizer, self.manifest, engine=engine)
        return dev.score(translator, self.ranks)

    def _save_model(self, name: str) -> None:
        weights = whole_on_first(self.model.state_dict().items(), self.ranks)
        if self.ranks.is_first:
            save_model(self._folder / name, weights, self._tokenizer, self.manifest)
        self.ranks.wait()

    def _rate(self) -> float:
        return rate(self.progress.step, self.run.model.d_model, self.run.training)

    def _count_time(self) -> float:
        """Add the time since the last call to the run's, and hand it back."""
        now = time.monotonic()
        seconds, self._last_count = now - self._last_count, now
        self.progress.seconds += seconds
        return seconds

    def _report(self, event: Event) -> None:
        for listener in self._listeners:
            listener.report(event)


def _longest_source(data: PreparedData) -> int:
    """As long as nearly all sources are: of longer ones a model has learned too little."""
    return 1 + int(np.quantile(data.lengths[:, 0], 0.999))
