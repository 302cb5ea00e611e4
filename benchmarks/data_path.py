"""Tokens a second at which batches are planned, filled and handed to a training loop.

The pairs are drawn at random with the lengths of news text. The last two lines are what training
sees: batches made by a thread while the loop does nothing, and while it runs Python all the time
(a training loop mostly waits for its device, so it lies between the two).
"""

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from allyouneed.config import TrainingConfig
from allyouneed.data.batches import Batch, Batches, Position, fill
from allyouneed.data.packing import Plan
from allyouneed.data.shards import CorpusDescription, Description, PreparedData
from allyouneed.training.feeding import ahead

VOCAB_SIZE = 37_000


class Measured(NamedTuple):
    """One line of the table."""

    stage: str
    tokens_per_second: float  # source and target, padding not counted


def drawn_pairs(n_pairs: int) -> PreparedData:
    """Log-normal lengths, a median of 23 tokens, up to 256; one corpus."""
    rng = np.random.default_rng(1)
    src = np.exp(rng.normal(3.1, 0.6, n_pairs))
    tgt = src * np.exp(rng.normal(0.02, 0.2, n_pairs))
    lengths = np.clip(np.stack((src, tgt), axis=1), 1, 255).astype(np.int32)
    ids = rng.integers(4, VOCAB_SIZE, lengths.sum(), dtype=np.uint16)
    corpus = CorpusDescription(
        name="drawn", weight=1.0, n_pairs=n_pairs, n_read=n_pairs, filtered={}
    )
    description = Description(vocab_size=VOCAB_SIZE, fingerprint="", corpora=(corpus,))
    return PreparedData(description, [lengths], [ids])


def share_filled(plans: list[Plan], data: PreparedData) -> float:
    room = sum(plan.n_rows * (plan.src_width + plan.tgt_width) for plan in plans)
    return float(sum((data.lengths[plan.pairs] + 1).sum() for plan in plans) / room)


def rate_of(batches: Iterator[Batch], between: Callable[[], None] = lambda: None) -> float:
    next(batches)  # whatever is done once
    start, n_tokens = time.perf_counter(), 0
    for batch in batches:
        n_tokens += batch.n_src_tokens + batch.n_tgt_tokens
        between()
    return n_tokens / (time.perf_counter() - start)


def python_for(seconds: float) -> None:
    """Keep the interpreter busy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def measure(data: PreparedData, config: TrainingConfig) -> tuple[list[Measured], float]:
    """The table, and the share of the cells of all rows that hold tokens."""
    batches = Batches(data, config)
    start = time.perf_counter()
    plans = list(batches.plan_epoch(0))
    planning = (data.lengths + 1).sum() / (time.perf_counter() - start)

    def stream() -> Iterator[Batch]:
        return (batch for batch, _ in itertools.islice(batches.starting_at(Position()), len(plans)))

    table = [
        Measured("planned", float(planning)),
        Measured("filled", rate_of(fill(plan, data) for plan in plans)),
        Measured("planned and filled", rate_of(stream())),
        Measured("by a thread", rate_of(ahead(stream()))),
        Measured(
            "by a thread beside busy Python", rate_of(ahead(stream()), lambda: python_for(0.004))
        ),
    ]
    return table, share_filled(plans, data)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=500_000)
    parser.add_argument("--batch-tokens", type=int, default=25_000)
    parser.add_argument("--row-width", type=int, default=128)
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    config = TrainingConfig(batch_tokens=arguments.batch_tokens, row_width=arguments.row_width)
    table, filled = measure(drawn_pairs(arguments.pairs), config)
    for stage, rate in table:
        print(f"{stage:<32}{rate / 1e6:8.1f} M tokens/s")
    print(f"{'rows filled':<32}{filled:8.3f}")
    if arguments.json:
        figures = {**dict(table), "rows filled": filled}
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
