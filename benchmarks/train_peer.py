"""Hugging Face Marian on the text of a prepared run, for as many minutes as ours had.

The same pairs, vocabulary, sizes and numbers of tokens a batch, compiled, in bfloat16. The rate is
the run's own, with its warm-up and its `rate_scale`, but falls to zero over the last 35 % of the
minutes instead of the run's `cooldown_steps`.

What it writes is a log like those of `allyouneed train`, so that curves can be compared. The clocks
differ, in the peer's favour: its own starts when it has been compiled and stops while it is judged;
ours runs on during validations and checkpoints.
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from sacrebleu import corpus_bleu
from training_peers import Marian, peer_adam, peer_step, wider

from allyouneed.config import RunConfig
from allyouneed.data.batches import Batches, Position
from allyouneed.data.prepare import TOKENIZER_FILE
from allyouneed.data.shards import PreparedData
from allyouneed.errors import ConfigError, DataError, UserError
from allyouneed.evaluation.lines import read_aligned, read_lines
from allyouneed.inference.batches import by_length
from allyouneed.run_file import load_run
from allyouneed.text.tokenizer import BEGIN, END, PAD, Tokenizer
from allyouneed.training.feeding import ahead
from allyouneed.training.optimizer import rate, set_rate

COOLDOWN = 0.35  # of the time
UNTIL_TIME_IS_OVER = 10**9
BATCH_TOKENS = 16_000  # source tokens that are translated at once
EXTRA_TOKENS = 50
LENGTH_PENALTY = 0.48  # grows like the paper's α = 0.6 at 20 tokens


class Stopwatch:
    """Stands at zero until it is started."""

    def __init__(self) -> None:
        self._before = 0.0
        self._started: float | None = None

    @property
    def seconds(self) -> float:
        running = 0.0 if self._started is None else time.perf_counter() - self._started
        return self._before + running

    def start(self) -> None:
        self._started = time.perf_counter()

    def stop(self) -> None:
        self._before, self._started = self.seconds, None


@dataclasses.dataclass(frozen=True)
class Judge:
    """Lets Hugging Face's own search translate a test set, and scores it."""

    tokenizer: Tokenizer
    sources: Sequence[str]
    references: Sequence[str]
    beam_size: int

    def bleu(self, model: Marian) -> float:
        return corpus_bleu(self._translate(model), [self.references]).score

    @torch.no_grad()
    def _translate(self, model: Marian) -> list[str]:
        device, marian = next(model.parameters()).device, cast(Any, model.marian)
        sources = [[*ids, END] for ids in self.tokenizer.encode_batch(self.sources)]
        translations = [""] * len(sources)
        model.eval()
        for places in by_length([len(source) for source in sources], BATCH_TOKENS):
            width = max(len(sources[place]) for place in places)
            ids = torch.tensor([sources[p] + [PAD] * (width - len(sources[p])) for p in places])
            found = marian.generate(
                input_ids=ids.to(device), attention_mask=(ids != PAD).long().to(device),
                num_beams=self.beam_size, length_penalty=LENGTH_PENALTY,
                max_length=width + EXTRA_TOKENS, bad_words_ids=[[PAD], [BEGIN]],
            )  # fmt: skip
            for place, row in zip(places, found.tolist(), strict=True):
                kept = [i for i in row if i not in (PAD, BEGIN, END)]
                translations[place] = self.tokenizer.decode(kept)
        model.train()
        return translations


def train(run: RunConfig, judge: Judge, options: argparse.Namespace) -> None:
    """Until the time is over; judged now and then and at the end."""
    training = dataclasses.replace(
        run.training, batching="padded", steps=UNTIL_TIME_IS_OVER, cooldown_steps=0
    )
    stream = Batches(PreparedData.open(data_of(run)), training).starting_at(Position())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = dataclasses.replace(run.model, vocab_size=len(judge.tokenizer))
    model = Marian(config).to(device).train()
    optimizer = peer_adam(model)
    step = peer_step(model, optimizer, training.label_smoothing, compiled=not options.eager)

    clock, n_tokens = Stopwatch(), 0
    time_to_learn, judge_every = 60 * options.minutes, 60 * options.judge_every
    next_judged = judge_every
    with options.output.open("w", encoding="utf-8") as log:
        for number, (batch, _) in enumerate(ahead(stream), 1):
            seconds = clock.seconds
            cooled = min(1.0, (1 - seconds / time_to_learn) / COOLDOWN)
            set_rate(optimizer, max(0.0, cooled) * rate(number, config.d_model, training))
            loss = step(wider(batch))
            n_tokens += batch.n_src_tokens + batch.n_tgt_tokens
            if number == 1:
                loss.item()  # compiled by now
                clock.start()
            figures = {"step": number, "time": seconds}
            if number % training.log_every == 0:
                figures |= {"loss": loss.item(), "tokens": n_tokens}
                log.write(json.dumps({"event": "step", **figures}) + "\n")
            is_last = seconds > time_to_learn or number == options.steps
            if is_last or seconds > next_judged:
                next_judged += judge_every
                clock.stop()
                bleu = judge.bleu(model)
                clock.start()
                log.write(json.dumps({"event": "validation", **figures, "bleu": bleu}) + "\n")
                print(f"{seconds:.0f} s, step {number}: BLEU {bleu:.2f}", flush=True)
            if is_last:
                break


def data_of(run: RunConfig) -> Path:
    return Path(run.folder) / "data"


def parse_arguments(parser: argparse.ArgumentParser) -> argparse.Namespace:
    parser.add_argument("run", type=Path, help="a run file; its data must have been prepared")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--steps", type=int, help="end after so many, if time is left")
    parser.add_argument("--judge-every", type=float, default=1.0, help="minutes")
    parser.add_argument("--beam-size", type=int, default=4)
    parser.add_argument("--source", type=Path, required=True, help="a test set")
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="the log, a line an event")
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    return parser.parse_args()


def train_peer(options: argparse.Namespace) -> None:
    if options.minutes <= 0:
        raise ConfigError(f"--minutes is {options.minutes}; it must be more than 0")
    if not options.output.parent.is_dir():
        raise DataError(f"{options.output.parent}: no such folder; make it first")
    run = load_run(options.run)
    references = read_lines(options.reference)
    judge = Judge(
        Tokenizer.load(data_of(run) / TOKENIZER_FILE),
        read_aligned(options.source, options.reference, len(references)),
        references,
        options.beam_size,
    )
    train(run, judge, options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    try:
        train_peer(parse_arguments(parser))
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
