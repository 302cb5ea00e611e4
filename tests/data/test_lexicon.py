"""What pieces become, learned from sentences in which it is known."""

from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from allyouneed.config import CorpusConfig
from allyouneed.data.corpus import Corpus
from allyouneed.data.lexicon import learn_shortlist
from allyouneed.data.parallel_ids import ParallelIds
from allyouneed.errors import DataError
from allyouneed.shortlist import Shortlist
from allyouneed.text.tokenizer import END, Tokenizer

FIRST, N_WORDS = 10, 30
VOCAB_SIZE = FIRST + 2 * N_WORDS + 1
COMMON = VOCAB_SIZE - 1  # a target piece that stands in every sentence, and comes of none


def text_of(pairs: list[tuple[list[int], list[int]]]) -> ParallelIds:
    sources, targets = zip(*pairs, strict=True)
    sides = [np.concatenate(side).astype(np.uint16) for side in (sources, targets)]
    lengths = [np.array([len(ids) for ids in side], np.int32) for side in (sources, targets)]
    return ParallelIds(sides[0], sides[1], lengths[0], lengths[1])


def becomes(source: int) -> int:
    return source + N_WORDS


def made_up_text(n_pairs: int = 2000) -> ParallelIds:
    """Words that become one other word each, in any order."""
    rng = np.random.default_rng(0)
    pairs = []
    for _ in range(n_pairs):
        source = rng.integers(FIRST, FIRST + N_WORDS, rng.integers(1, 9)).tolist()
        target = [becomes(word) for word in source]
        rng.shuffle(target)
        pairs.append((source, [*target, COMMON]))
    return text_of(pairs)


def row(shortlist: Shortlist, piece: int) -> list[int]:
    stops = np.cumsum(shortlist.counts)
    return shortlist.pieces[stops[piece] - shortlist.counts[piece] : stops[piece]].tolist()


def test_the_best_of_a_word_is_what_it_becomes() -> None:
    shortlist = learn_shortlist(made_up_text(), VOCAB_SIZE, n_frequent=1, n_best=3)

    assert shortlist.always.tolist() == [END, COMMON]
    for word in range(FIRST, FIRST + N_WORDS):
        assert row(shortlist, word)[0] == becomes(word)
    assert len(shortlist.counts) == VOCAB_SIZE
    assert shortlist.counts.max() <= 3
    assert not shortlist.counts[FIRST + N_WORDS :].any()


def test_what_another_word_explains_is_not_taken_for_a_words_own() -> None:
    """It stands beside the first word nearly always, but comes of the second, which tells alone."""
    first, second, other = 20, 21, 22
    common, seldom = 50, 51
    pairs = [([first, second], [common, seldom])] * 20
    pairs += [([second], [seldom])] * 5
    pairs += [([other], [common])] * 380

    shortlist = learn_shortlist(text_of(pairs), VOCAB_SIZE, n_frequent=0, n_best=1)

    assert [row(shortlist, word) for word in (first, second)] == [[common], [seldom]]


def test_what_hardly_ever_comes_of_a_word_is_left_out() -> None:
    often, hardly = [([20], [50])] * 999, [([20], [51])]

    shortlist = learn_shortlist(text_of(often + hardly), VOCAB_SIZE, n_frequent=0, n_best=9)

    assert row(shortlist, 20) == [50]


def test_frequent_pieces_take_no_room_in_the_lists() -> None:
    everything = learn_shortlist(made_up_text(), VOCAB_SIZE, n_frequent=VOCAB_SIZE, n_best=5)

    made = range(FIRST + N_WORDS, VOCAB_SIZE)
    assert everything.always.tolist() == [END, *made]  # all that there are in the target
    assert not everything.counts.any()


def test_no_text_is_no_list() -> None:
    with pytest.raises(DataError, match="no text to learn from"):
        learn_shortlist(text_of([([20], [])]), VOCAB_SIZE, n_frequent=5, n_best=5)


def test_a_large_text_is_read_here_and_there(tmp_path: Path) -> None:
    lines = [f"word number {n}" for n in range(95)]
    (tmp_path / "text").write_text("\n".join(lines), encoding="utf-8")
    corpus = Corpus(CorpusConfig(source=str(tmp_path / "text"), target=str(tmp_path / "text")))
    tokenizer = Tokenizer.learn(lines, 290)

    text = ParallelIds.of_text(corpus, tokenizer, most=10)

    expected = tokenizer.encode_batch(lines[::10])
    assert text.src_lengths.tolist() == text.tgt_lengths.tolist() == [*map(len, expected)]
    assert text.src.tolist() == text.tgt.tolist() == [*chain.from_iterable(expected)]
