"""Normalisation: one spelling, applied once or twice."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.text.normalize import normalize

any_text = st.text(st.characters(exclude_categories=())) | st.text(
    "a e\u0301\u200b\u2581\t\u2000\ud83d"
)


@given(any_text)
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    assert normalize(normalize(text)) == normalize(text)


@given(any_text)
def test_the_result_is_one_line_of_composed_text_that_utf8_can_hold(text: str) -> None:
    result = normalize(text)

    assert unicodedata.is_normalized("NFC", result)
    assert result == " ".join(result.split())
    assert "\u2581" not in result
    result.encode("utf-8")


@pytest.mark.parametrize(
    "junk", ["\x00", "\x1b", "\x7f", "\x9f", "\u00ad", "\u200b", "\u2060", "\ufeff"]
)
def test_what_cannot_be_seen_is_removed(junk: str) -> None:
    assert normalize(f"{junk}a{junk}b") == "ab"


@pytest.mark.parametrize("space", ["  ", "\t", "\r\n", "\x0b", "\x1f", "\x85", "\u00a0", "\u2028"])
def test_a_run_of_white_space_becomes_one_space(space: str) -> None:
    assert normalize(f"{space}a{space}b{space}") == "a b"


@pytest.mark.parametrize("text", ["👩‍👧", "❤️", "نمی‌خواهم", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"])
def test_joiners_selectors_and_tags_survive(text: str) -> None:
    assert normalize(text) == text


def test_marks_join_their_letter_across_removed_characters() -> None:
    assert normalize("e\u200b\u0301") == "é"


def test_half_a_character_becomes_the_replacement_character() -> None:
    assert normalize("a\ud83db") == "a\ufffdb"
