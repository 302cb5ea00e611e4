"""Filters: each takes what it says, in the order the documentation gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.config import FilterConfig
from allyouneed.data.filters import (
    PairFilters,
    TokenizedPair,
    foreign_share,
    hash_of,
    scripts_of,
)

ALL_OFF = FilterConfig(max_ratio=None, copies=False, max_foreign_letters=None)


def pair(src: str, tgt: str, n_src: int = 1, n_tgt: int = 1) -> TokenizedPair:
    return TokenizedPair(src, tgt, [9] * n_src, [9] * n_tgt)


def objection(pair: TokenizedPair, config: FilterConfig = FilterConfig()) -> str | None:  # noqa: B008 - frozen
    return PairFilters(config, "en", "de").objection(pair)


def test_a_good_pair_meets_no_objection() -> None:
    assert objection(pair("The street is long.", "Die Straße ist lang.")) is None


@pytest.mark.parametrize(("src", "tgt"), [("", "b"), ("a", ""), ("", "")])
def test_a_pair_with_an_empty_side_is_empty(src: str, tgt: str) -> None:
    assert objection(pair(src, tgt), ALL_OFF) == "empty"


@pytest.mark.parametrize(("n_src", "n_tgt"), [(9, 1), (1, 9)])
def test_the_end_mark_counts_toward_the_longest_side(n_src: int, n_tgt: int) -> None:
    long_pair = pair("word", "Wort", n_src, n_tgt)

    assert objection(long_pair, FilterConfig(max_tokens=9)) == "too long"
    assert objection(long_pair, FilterConfig(max_tokens=10)) is None


def test_the_longer_side_may_be_just_max_ratio_times_the_shorter() -> None:
    limit, off = FilterConfig(max_ratio=2), FilterConfig(max_ratio=None)

    assert objection(pair("abc", "d" * 6), limit) is None
    assert objection(pair("abc", "d" * 7), limit) == "length ratio"
    assert objection(pair("d" * 7, "abc"), limit) == "length ratio"
    assert objection(pair("abc", "d" * 7), off) is None


def test_a_target_that_repeats_its_source_is_a_copy() -> None:
    assert objection(pair("Berlin", "Berlin")) == "copy"
    assert objection(pair("Berlin", "Berlin"), FilterConfig(copies=False)) is None


@pytest.mark.parametrize(("src", "tgt"), [("Привет", "Hallo"), ("Hello", "Привет")])
def test_either_side_may_be_in_the_wrong_script(src: str, tgt: str) -> None:
    assert objection(pair(src, tgt)) == "wrong script"
    assert objection(pair(src, tgt), FilterConfig(max_foreign_letters=None)) is None


def test_filters_speak_in_the_documented_order() -> None:
    worst = pair("ж" * 3, "ж" * 30, 300, 300)

    assert objection(worst._replace(src="")) == "empty"
    assert objection(worst) == "too long"
    assert objection(worst, FilterConfig(max_tokens=999)) == "length ratio"
    assert objection(worst._replace(tgt=worst.src), FilterConfig(max_tokens=999)) == "copy"


def test_only_letters_count_toward_the_foreign_share() -> None:
    latin = scripts_of("en")

    assert foreign_share("ab жж 12 !? 😀 \u0301", latin) == 2 / 4
    assert foreign_share("123 😀", latin) == 0
    assert foreign_share("жж", None) == 0


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de-AT", "Füße"),
        ("pt_BR", "ação"),
        ("ru", "съешь"),
        ("el", "Ψυχή"),
        ("ja", "スーパーで何々を"),
        ("zh", "汉字"),
        ("ko", "한국어"),
        ("ar", "اللغة"),
        ("hi", "हिन्दी"),
        ("sr", "srpski српски"),
    ],
)
def test_text_is_at_home_in_its_own_language(language: str, text: str) -> None:
    assert foreign_share(text, scripts_of(language)) == 0
    assert foreign_share("ꓐꓑ", scripts_of(language)) == 1  # Lisu, which none of these is written in


def test_an_unknown_language_turns_the_script_filter_off() -> None:
    assert scripts_of("tlh") is None


@given(st.lists(st.tuples(st.text("ab "), st.text("ab ")), min_size=2, max_size=2, unique=True))
def test_different_pairs_have_different_hashes(pairs: list[tuple[str, str]]) -> None:
    first, second = (hash_of(pair(*texts)) for texts in pairs)

    assert first != second
    assert 0 <= first < 2**64
