"""The batch format, and the one rule of who may see whom."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from allyouneed.rows import PADDING, Rows, one_sentence_a_row, visible, visible_so_far

SENTENCES = st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=6), min_size=1, max_size=4)

# One row: a sentence of two tokens, one of three, and padding.
PACKED = Rows(
    ids=torch.tensor([[5, 6, 7, 8, 9, 0]]),
    sentence=torch.tensor([[0, 0, 1, 1, 1, PADDING]]),
    position=torch.tensor([[0, 1, 0, 1, 2, 0]]),
)


def drawn(mask: Tensor) -> list[str]:
    """A line a query: x where it may see the key."""
    return ["".join(".x"[int(key)] for key in query) for query in mask[0, 0]]


def test_a_token_sees_its_own_sentence() -> None:
    assert drawn(visible(PACKED, PACKED)) == [
        "xx....",
        "xx....",
        "..xxx.",
        "..xxx.",
        "..xxx.",
        "xxxxxx",  # padding: nobody reads what it makes of that
    ]


def test_a_target_token_sees_its_own_sentence_and_nothing_later() -> None:
    assert drawn(visible_so_far(PACKED)) == [
        "x.....",
        "xx....",
        "..x...",
        "..xx..",
        "..xxx.",
        "xxxxxx",
    ]


def test_a_target_token_sees_the_source_of_its_own_sentence() -> None:
    targets = Rows(
        ids=torch.tensor([[5, 6, 7]]),
        sentence=torch.tensor([[0, 1, PADDING]]),
        position=torch.tensor([[0, 0, 0]]),
    )

    assert drawn(visible(targets, PACKED)) == ["xx....", "..xxx.", "xxxxxx"]


@settings(deadline=None)
@given(sentences=SENTENCES)
def test_a_padded_batch_holds_each_sentence_from_the_left(sentences: list[list[int]]) -> None:
    rows = one_sentence_a_row(sentences, pad_id=100)

    assert rows.ids.size(1) == max(map(len, sentences))
    for ids, sentence, position, tokens in zip(*rows, sentences, strict=True):
        real = sentence != PADDING
        assert ids[real].tolist() == tokens
        assert position[real].tolist() == list(range(len(tokens)))
        assert (ids[~real] == 100).all()
        assert (sentence[real] == 0).all()


@settings(deadline=None)
@given(src=SENTENCES, tgt=SENTENCES)
def test_every_query_may_see_something(src: list[list[int]], tgt: list[list[int]]) -> None:
    """A softmax over nothing would be not-a-number."""
    pairs = list(zip(src, tgt, strict=False))
    sources = one_sentence_a_row([source for source, _ in pairs])
    targets = one_sentence_a_row([target for _, target in pairs])

    for mask in (visible(sources, sources), visible(targets, sources), visible_so_far(targets)):
        assert mask.any(dim=-1).all()


def test_rows_move_to_a_device_together() -> None:
    moved = PACKED.to("meta")

    assert isinstance(moved, Rows)
    assert {tensor.device.type for tensor in moved} == {"meta"}
