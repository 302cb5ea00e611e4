"""Chunks of text pairs -> chunks of ids, filtered, on every core and in order."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from allyouneed.data.filters import PairFilters, TokenizedPair, hash_of, is_too_long
from allyouneed.data.shards import Lengths
from allyouneed.errors import DataError
from allyouneed.text.normalize import normalize
from allyouneed.text.subword_dropout import SubwordDropout
from allyouneed.text.tokenizer import Tokenizer

EXAMPLES_KEPT = 3

Pair = tuple[str, str]


class Chunk(NamedTuple):
    """Some pairs of corpus number `corpus`, as they were read."""

    corpus: int
    pairs: list[Pair]


@dataclass
class Refusals:
    """How many pairs each filter took, and the first few of them."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Pair]] = field(default_factory=dict)

    def add(self, filter_name: str, pair: Pair) -> None:
        self.update(Refusals(Counter({filter_name: 1}), {filter_name: [pair]}))

    def update(self, later: "Refusals") -> None:
        self.counts.update(later.counts)
        for filter_name, pairs in later.examples.items():
            shown = self.examples.setdefault(filter_name, [])
            shown += pairs[: EXAMPLES_KEPT - len(shown)]


class EncodedChunk(NamedTuple):
    """What the filters left of a chunk."""

    corpus: int
    n_read: int
    ids: npt.NDArray[np.uint32]  # source, target, source, target, …
    lengths: Lengths  # of every segmentation of the first pair, of the second, …
    hashes: list[int]  # a pair's tells duplicates, which may lie in another chunk
    refusals: Refusals


class Encoder:
    """Normalise, encode and filter a chunk.

    The filters judge a pair in the tokenizer's own pieces; `other_ways` to cut it stand beside.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        filters: PairFilters,
        other_ways: Sequence[SubwordDropout] = (),
    ) -> None:
        self._ways: list[Tokenizer | SubwordDropout] = [tokenizer, *other_ways]
        self._filters = filters

    def __call__(self, chunk: Chunk) -> EncodedChunk:
        ids: list[int] = []
        lengths: list[tuple[int, int]] = []
        hashes: list[int] = []
        refusals = Refusals()
        for pair, *others in zip(*self._tokenized(chunk.pairs), strict=True):
            if objection := self._filters.objection(pair):
                refusals.add(objection, (pair.src, pair.tgt))
                continue
            for cut in (pair, *others):
                # Other cuts have more pieces, which may be too many.
                kept = pair if is_too_long(cut, self._filters.config.max_tokens) else cut
                ids += kept.src_ids
                ids += kept.tgt_ids
                lengths.append((len(kept.src_ids), len(kept.tgt_ids)))
            hashes.append(hash_of(pair))
        return EncodedChunk(
            chunk.corpus,
            len(chunk.pairs),
            np.array(ids, np.uint32),
            np.array(lengths, np.int32).reshape(-1, 2),
            hashes,
            refusals,
        )

    def _tokenized(self, pairs: list[Pair]) -> list[Iterator[TokenizedPair]]:
        """The pairs in each of the ways to cut them."""
        sources = [normalize(src) for src, _ in pairs]
        targets = [normalize(tgt) for _, tgt in pairs]
        return [
            map(
                TokenizedPair,
                sources,
                targets,
                way.encode_batch(sources),
                way.encode_batch(targets),
            )
            for way in self._ways
        ]


def encode_chunks(
    chunks: Iterable[Chunk], encoder: Encoder, n_workers: int
) -> Generator[EncodedChunk, None, None]:
    """`map(encoder, chunks)` on `n_workers` processes, a few chunks ahead of the consumer."""
    if n_workers == 1:
        yield from map(encoder, chunks)
        return
    executor = ProcessPoolExecutor(
        n_workers,
        multiprocessing.get_context("spawn"),  # a fork would copy locks that other threads hold
        _start_worker,
        (encoder,),
    )
    pending: deque[Future[EncodedChunk]] = deque()
    try:
        for chunk in chunks:
            pending.append(executor.submit(_encode_in_worker, chunk))
            if len(pending) > 2 * n_workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool:
        raise DataError(
            "a worker process was killed, most likely for want of memory; lower data.workers"
        ) from None
    finally:
        executor.shutdown(cancel_futures=True)


_worker_encoder: Encoder  # set once in each worker process, so that chunks travel alone


def _start_worker(encoder: Encoder) -> None:
    global _worker_encoder  # noqa: PLW0603
    _worker_encoder = encoder
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _encode_in_worker(chunk: Chunk) -> EncodedChunk:
    return _worker_encoder(chunk)


def _die_with_parent() -> None:
    """A parent that is killed cannot end its workers, and they would wait for it for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
