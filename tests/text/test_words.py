"""Pieces as a person reads them."""

import pytest
from tiny_translator import tokenizer

from allyouneed.text.words import labels, spell, words


def spelled(pieces: list[str]) -> list[str]:
    return [spell(pieces[word.start : word.stop]) for word in words(pieces)]


def test_every_piece_is_in_one_word_in_its_order() -> None:
    pieces = ["<s>", "▁Verk", "äufer", ",", "▁", "<0xC3>", "<0xA9>", "!", "?", "</s>"]

    assert [place for word in words(pieces) for place in word] == list(range(len(pieces)))


def test_closing_punctuation_and_marks_stand_alone_and_inner_punctuation_does_not() -> None:
    pieces = ["<s>", "▁don", "'", "t", "▁(", "stop", ")", ".", "▁-", "</s>"]

    assert spelled(pieces) == ["<s>", "don't", "(stop", ").", "-", "</s>"]


def test_a_mark_ends_the_word_before_it_and_begins_one_after_it() -> None:
    assert spelled(["<s>", "go", "on", "</s>"]) == ["<s>", "goon", "</s>"]


def test_characters_in_bytes_come_out_as_characters() -> None:
    assert spelled(["▁na", "<0xC3>", "<0xAF>", "ve", "▁", "<0xE2>", "<0x98>", "<0x83>"]) == [
        "naïve",
        "☃",
    ]


@pytest.mark.parametrize(
    ("piece", "label"),
    [("▁man", "man"), ("äufer", "·äufer"), (".", "."), ("<0x3C>", "<"), ("<0x0A>", "<0x0A>"),
     ("<0xE2>", "<0xE2>"), ("▁", "▁"), ("</s>", "</s>")],
)  # fmt: skip
def test_a_label_is_short_and_printable(piece: str, label: str) -> None:
    assert labels([piece]) == [label]


def test_the_words_of_an_encoded_text_are_its_words() -> None:
    pieces = tokenizer().pieces(tokenizer().encode("Nine one, zwölf 你好."))

    assert spelled(pieces) == ["Nine", "one", ",", "zwölf", "你好", "."]


def test_pieces_give_back_the_ids_they_came_from() -> None:
    ids = tokenizer().encode("Nine one, zwölf 你好.")

    assert tokenizer().ids(tokenizer().pieces(ids)) == ids
