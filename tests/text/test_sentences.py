import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from allyouneed.errors import UserError
from allyouneed.text.sentences import Document, TooManySentencesError, split_to_fit

LAYOUT = " \t\n\r\f\v\x85\u2028\u3000-*>#.!?,;:1)aA"
TEXT = st.one_of(st.text(), st.text(LAYOUT), st.text(LAYOUT + "bcde Ü。"))


@settings(deadline=None)
@given(TEXT)
@example("One.\r\nTwo.\r\n\r\n\fThree.")
def test_sentences_put_back_give_the_text(text: str) -> None:
    document = Document.parse(text, "en")

    assert document.rebuild(document.sentences) == text
    assert all(sentence == sentence.strip() != "" for sentence in document.sentences)


def test_layout_stays_while_sentences_change() -> None:
    text = "# A title\n\n  * One man. Two men?\r\n  2) A dog.\n\n---\n\tThe end."

    document = Document.parse(text, "en")

    assert document.sentences == ("A title", "One man.", "Two men?", "A dog.", "The end.")
    assert document.rebuild(["T", "1", "2", "D", "E"]) == ("# T\n\n  * 1 2\r\n  2) D\n\n---\n\tE")


def test_lines_wrapped_by_hand_are_one_sentence() -> None:
    wrapped = (
        "The quick brown fox, which nobody had seen since early\n"
        "morning, jumped over the lazy dog and was not seen by\n"
        "anyone again."
    )

    assert Document.parse(wrapped, "en").sentences == (wrapped,)


def test_short_lines_and_list_items_are_sentences_of_their_own() -> None:
    poem = "Roses are red\nViolets are blue"
    items = (
        "- a first item that is about as long as the ones after it\n"
        "- a second item that is about as long as the one before it"
    )

    assert len(Document.parse(poem, "en").sentences) == 2
    assert len(Document.parse(items, "en").sentences) == 2


def test_abbreviations_end_no_sentence() -> None:
    assert Document.parse("Dr. Smith met Mr. Jones. They left.", "en").sentences == (
        "Dr. Smith met Mr. Jones.",
        "They left.",
    )


def test_a_missing_splitter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencex", None)

    with pytest.raises(UserError, match="pip install sentencex"):
        Document.parse("A dog.", "en")


@settings(deadline=None)
@given(text=TEXT, limit=st.integers(1, 12))
def test_parts_fit_and_lose_nothing(text: str, limit: int) -> None:
    parts = split_to_fit(text, lambda part: len(part) <= limit)

    assert "".join(parts) == text
    assert all(len(part) <= limit for part in parts)


@pytest.mark.parametrize(
    ("limit", "parts"),
    [
        (99, ["It rains, and so on. Nobody knows why."]),
        (25, ["It rains, and so on. ", "Nobody knows why."]),
        (15, ["It rains, ", "and so on. ", "Nobody knows ", "why."]),
        (5, ["It ", "rains", ", ", "and ", "so ", "on. ", "Nobod", "y ", "knows", " ", "why."]),
    ],
)
def test_parts_end_at_the_best_place_there_is(limit: int, parts: list[str]) -> None:
    text = "It rains, and so on. Nobody knows why."

    assert split_to_fit(text, lambda part: len(part) <= limit) == parts


def test_long_text_is_asked_about_in_short_pieces() -> None:
    asked = 0

    def fits(part: str) -> bool:
        nonlocal asked
        asked += len(part)
        return len(part) <= 50

    split_to_fit("x" * 20_000, fits)

    assert asked < 100 * 20_000


def test_a_sentence_that_does_not_fit_becomes_several_and_nothing_is_lost() -> None:
    document = Document.parse("  One.\n\nTwo three,\tfour  five. Six.\n", "en")

    divided = document.divided(lambda text: len(text) <= 8)

    assert divided.sentences == ("One.", "Two", "three,", "four", "five.", "Six.")
    assert divided.rebuild(divided.sentences) == document.rebuild(document.sentences)
    assert all(sentence == sentence.strip() for sentence in divided.sentences)


def test_sentences_that_fit_stay_as_they_are() -> None:
    document = Document.parse("One two. Three.", "en")

    assert document.divided(lambda _: True) == document


def test_no_more_is_split_than_is_allowed() -> None:
    text = "One. Two. Three."
    assert Document.parse(text, "en", 3).divided(lambda _: True, 3) == Document.parse(text, "en")
    with pytest.raises(TooManySentencesError, match="more than 2"):
        Document.parse(text, "en", 2)
    with pytest.raises(TooManySentencesError, match="more than 3"):
        Document.parse(text, "en", 3).divided(lambda part: len(part) < 4, 3)
