"""Subword dropout: the same text in other pieces, reproducibly."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.text.normalize import normalize
from allyouneed.text.subword_dropout import SubwordDropout
from allyouneed.text.tokenizer import Tokenizer

TEXT = [
    "the lowest newer wider rivers, 1234 slower newest widest lower low new wide",
    "the slow river is wider than the newest one: 98 widths lower!",
    "über den breiten Fluss fließt der neueste, breiteste Strom",
] * 20


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.learn(TEXT, 360, character_coverage=1.0)


@given(text=st.text() | st.sampled_from(TEXT))
def test_leaving_out_nothing_gives_the_pieces_of_sentencepiece(
    tokenizer: Tokenizer, text: str
) -> None:
    plain = SubwordDropout(tokenizer, probability=0.0, seed=1)

    assert plain.encode_batch([text]) == tokenizer.encode_batch([text])


@given(text=st.text() | st.sampled_from(TEXT), seed=st.integers(0, 100))
def test_any_cut_decodes_to_the_text(tokenizer: Tokenizer, text: str, seed: int) -> None:
    (ids,) = SubwordDropout(tokenizer, 0.3, seed).encode_batch([text])

    assert tokenizer.decode(ids) == normalize(text)


def test_seeds_cut_differently_and_each_always_alike(tokenizer: Tokenizer) -> None:
    ways = [SubwordDropout(tokenizer, 0.3, seed) for seed in (1, 2)]
    first, second = (way.encode_batch(TEXT[:3]) for way in ways)

    assert first != second
    assert first == ways[0].encode_batch(TEXT[:3])
    assert first == pickle.loads(pickle.dumps(ways[0])).encode_batch(TEXT[:3])
    assert first[:1] == SubwordDropout(tokenizer, 0.3, 1).encode_batch(TEXT[:1])


def test_leaving_out_more_gives_more_pieces(tokenizer: Tokenizer) -> None:
    n_pieces = [
        sum(map(len, SubwordDropout(tokenizer, probability, 1).encode_batch(TEXT[:3])))
        for probability in (0.0, 0.3, 0.9)
    ]

    assert n_pieces == sorted(set(n_pieces))
