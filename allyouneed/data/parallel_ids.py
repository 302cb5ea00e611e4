"""Parallel text as ids, from files or from a prepared folder."""

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allyouneed.data.corpus import Corpus
from allyouneed.data.shards import PreparedData, dtype_for
from allyouneed.errors import DataError
from allyouneed.text.tokenizer import Tokenizer

_ENCODED_AT_ONCE = 10_000  # pairs


class ParallelIds(NamedTuple):
    """All sentences of either side end to end, and how long each is."""

    src: NDArray[np.unsignedinteger[Any]]
    tgt: NDArray[np.unsignedinteger[Any]]
    src_lengths: NDArray[np.int32]
    tgt_lengths: NDArray[np.int32]

    @classmethod
    def of_text(cls, corpus: Corpus, tokenizer: Tokenizer, most: int) -> "ParallelIds":
        """At most so many pairs, from all over the corpus."""
        step = _step(sum(1 for _ in corpus), most)
        pairs = itertools.islice(corpus, 0, None, step)
        ids: list[list[NDArray[Any]]] = [[], []]
        lengths: list[list[int]] = [[], []]
        while chunk := list(itertools.islice(pairs, _ENCODED_AT_ONCE)):
            for side, texts in enumerate(zip(*chunk, strict=True)):
                encoded = tokenizer.encode_batch(texts)
                flat = list(itertools.chain.from_iterable(encoded))
                ids[side].append(np.array(flat, dtype_for(len(tokenizer))))
                lengths[side] += map(len, encoded)
        src, tgt = map(np.concatenate, ids)
        return cls(src, tgt, *(np.array(side, np.int32) for side in lengths))

    @classmethod
    def of_prepared(cls, data: PreparedData, most: int) -> "ParallelIds":
        """At most so many pairs, from all over the data, each as a translator would cut it."""
        if not len(data):
            raise DataError("the prepared data is empty; prepare it anew")
        ways = data.description.segmentations  # of a pair, the first without dropout
        indices = np.arange(0, len(data), ways * _step(len(data) // ways, most))
        return cls(*data.texts(indices), *data.lengths[indices].T)


def _step(n_pairs: int, most: int) -> int:
    return -(-n_pairs // most)
