"""What the pieces of one language become in the other, learned from parallel text.

IBM's first model, by expectation maximisation: every target piece was made by one of the source
pieces of its sentence, by each as often as that piece makes it elsewhere. Order does not count.
A source piece is handled with all of its sentences at once, so that everything is a few array
operations a piece, and only candidates that appear beside it more than by chance are followed.

Shapes: V vocabulary, T target pieces of all sentences.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from allyouneed.data.parallel_ids import ParallelIds
from allyouneed.data.ranges import ranges, starts_of
from allyouneed.errors import DataError
from allyouneed.shortlist import Shortlist
from allyouneed.text.tokenizer import END

_CANDIDATES = 100  # of a source piece
_ROUNDS = 2  # a third one changes nothing
_LEAST_RATE = 0.002  # what comes of a piece more rarely fills the lists and is hardly ever chosen

Places = NDArray[np.int64]


class _Row(NamedTuple):
    """What a source piece becomes, and how often: times a sentence that it appears in."""

    ids: Places
    rate: NDArray[np.float64]

    def over(self, vocab_size: int) -> NDArray[np.float64]:
        rates = np.zeros(vocab_size)
        rates[self.ids] = self.rate
        return rates


def learn_shortlist(text: ParallelIds, vocab_size: int, n_frequent: int, n_best: int) -> Shortlist:
    """The `n_frequent` commonest target pieces, and of the others the `n_best` of each piece."""
    if not len(text.tgt):
        raise DataError("there is no text to learn from; give some that is not blank")
    frequency = np.bincount(text.tgt, minlength=vocab_size)
    frequent = np.argsort(-frequency, kind="stable")[: min(n_frequent, np.count_nonzero(frequency))]
    is_rare = np.ones(vocab_size, dtype=bool)
    is_rare[frequent] = False
    occurrences = _Occurrences(text, is_rare)
    rows = [_candidates(occurrences, piece, frequency) for piece in range(vocab_size)]
    for _ in range(_ROUNDS):
        rows = _reestimated(occurrences, rows)
    best = [_best(row, n_best) for row in rows]
    return Shortlist(np.union1d(frequent, END), np.array([*map(len, best)]), np.concatenate(best))


class _Occurrences:
    """Where the pieces of a text appear."""

    def __init__(self, text: ParallelIds, is_wanted: NDArray[np.bool_]) -> None:
        """Of the target only what `is_wanted`."""
        self.vocab_size, n_sentences = len(is_wanted), len(text.src_lengths)
        wanted = is_wanted[text.tgt]
        self.tgt: Places = text.tgt[wanted].astype(np.int64)
        sentence_of = np.repeat(np.arange(n_sentences), text.tgt_lengths)
        self._sizes = np.bincount(sentence_of[wanted], minlength=n_sentences)
        self._starts = starts_of(self._sizes)
        sentence_of = np.repeat(np.arange(n_sentences), text.src_lengths)
        appearances = np.unique(text.src.astype(np.int64) * n_sentences + sentence_of)
        self._sentences = appearances % n_sentences
        self._bounds = np.searchsorted(appearances, np.arange(self.vocab_size + 1) * n_sentences)

    def n_sentences(self, piece: int) -> int:
        return int(self._bounds[piece + 1] - self._bounds[piece])

    def places(self, piece: int) -> Places:
        """Of all target pieces in the sentences that have this source piece."""
        sentences = self._sentences[self._bounds[piece] : self._bounds[piece + 1]]
        return ranges(self._starts[sentences], self._sizes[sentences])


def _candidates(occurrences: _Occurrences, piece: int, frequency: Places) -> _Row:
    """By Dice's coefficient: what appears with the piece often, and without it rarely."""
    together = np.bincount(occurrences.tgt[occurrences.places(piece)])
    ids = np.flatnonzero(together)
    dice = together[ids] / (occurrences.n_sentences(piece) + frequency[ids])
    best = np.argsort(-dice, kind="stable")[:_CANDIDATES]
    return _Row(ids[best], dice[best])


def _reestimated(occurrences: _Occurrences, rows: Sequence[_Row]) -> list[_Row]:
    """A round: share out every target piece among the source pieces of its sentence, and count."""
    by_all = np.zeros(len(occurrences.tgt))  # (T,): what all these make of it together
    for piece, row in enumerate(rows):
        places = occurrences.places(piece)
        by_all[places] += row.over(occurrences.vocab_size)[occurrences.tgt[places]]
    found = []
    for piece, row in enumerate(rows):
        places = occurrences.places(piece)
        tgt = occurrences.tgt[places]
        by_piece = row.over(occurrences.vocab_size)[tgt]
        # Nobody's candidate stays nobody's.
        share = np.divide(by_piece, by_all[places], out=by_piece, where=by_piece > 0)
        made = np.bincount(tgt, weights=share, minlength=occurrences.vocab_size)[row.ids]
        found.append(_Row(row.ids, made / max(1, occurrences.n_sentences(piece))))
    return found


def _best(row: _Row, n_best: int) -> Places:
    best = np.argsort(-row.rate, kind="stable")[:n_best]
    return row.ids[best[row.rate[best] >= _LEAST_RATE]]
