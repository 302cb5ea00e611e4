"""The numbers behind the pictures."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from small_attention import SOURCE, TARGET, small_attention

from allyouneed.visualization.attention import KINDS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whole_words", [False, True])
def test_every_row_sums_to_one(kind: str, whole_words: bool) -> None:
    weights = small_attention().map(kind, whole_words=whole_words).weights

    assert_allclose(weights.sum(-1), 1, rtol=1e-5)


def test_rows_are_named_by_what_is_written_and_by_what_is_read() -> None:
    attention = small_attention()

    assert attention.map("encoder").queries == ("A", "fire", "·man", "<b>", ".", "</s>")
    assert attention.map("encoder-decoder").queries == ("Ein", "Feuer", "·wehr", "·mann", "</s>")
    assert attention.map("encoder-decoder").keys == attention.map("encoder").keys
    assert attention.map("decoder").keys == ("<s>", "Ein", "Feuer", "·wehr", "·mann")
    assert (attention.source, attention.target) == ("A fireman <b>.", "Ein Feuerwehrmann")


def test_a_word_gets_the_sum_and_gives_the_mean_of_its_pieces() -> None:
    attention = small_attention()
    by_words = attention.map("encoder-decoder", whole_words=True)

    assert by_words.queries == ("Ein", "Feuerwehrmann", "</s>")
    expected = attention.memory[:, :, 1:4, 1:3].sum(-1).mean(-1)
    assert_allclose(by_words.weights[:, :, 1, 1], expected, rtol=1e-5)


def test_words_of_one_piece_each_change_nothing() -> None:
    attention = small_attention(("▁one", "▁two"), ("▁eins",))

    for kind in KINDS:
        by_pieces, by_words = attention.map(kind), attention.map(kind, whole_words=True)
        assert_allclose(by_words.weights, by_pieces.weights, rtol=1e-6)


def test_a_decoder_of_words_sees_nothing_later() -> None:
    weights = small_attention().map("decoder", whole_words=True).weights

    assert not np.triu(weights[0, 0], 1).any()


def test_a_notebook_gets_the_page_in_a_frame_of_its_own() -> None:
    shown = small_attention((*SOURCE, '"><script>'), TARGET)._repr_html_()

    assert shown.startswith('<iframe srcdoc="')
    assert shown.count("<") == 2  # the frame's own tags; all others are escaped
    assert shown.count('"') == 6  # the quotes of its three attributes
