"""Every demand on the translation of a typed text is met by a good one and not by a bad one."""

from pathlib import Path
from typing import Any

import pytest
import tiny_translator

from allyouneed.errors import ConfigError, DataError
from allyouneed.evaluation.typed_cases import (
    Case,
    faults,
    final_mark,
    judge,
    load_cases,
    repeated,
)

FOLDER = Path(__file__).parents[2] / "benchmarks" / "typed"
UNRELATED = {
    "en-de": "Die Delegation reiste daraufhin unverrichteter Dinge wieder ab.",
    "de-en": "Whereupon the delegation departed again, having achieved nothing.",
}
# Kinds whose n-th cases in both files translate each other.
MIRRORED = {
    "capitals", "lower case", "no punctuation", "numbers", "dates and times", "units", "names",
    "addresses", "emoji", "quotes and brackets", "lists", "short", "long", "odd",
}  # fmt: skip


def found(source: str, translation: str, **demands: Any) -> list[str]:
    return list(faults(Case(kind="a kind", source=source, **demands), translation))


@pytest.mark.parametrize(
    ("source", "demands", "good", "bad", "fault"),
    [
        ("I am 42.", {"keeps": ("42",)}, "Ich bin 42.", "Ich bin 24.", "loses “42”"),
        ("dog", {"says": ("Hund|Köter",)}, "HUND", "Katze", "does not say “Hund|Köter”"),
        ("dog", {"says": ("Hund|Köter",)}, "Köter", "dog", "does not say"),
        ("dog", {}, "Hund", "Hund mit einem Hund", "too long, 19 characters for 3"),
        ("dog", {}, "Hund", " ", "too short"),
        ("A long sentence about dogs.", {}, "Ein Satz von Hunden.", "X.", "too short"),
        ("x" * 50, {"length": (1.0, 1.1)}, "y" * 40, "y" * 39, "too short, 39"),
        ("x" * 50, {"length": (1.0, 1.1)}, "y" * 65, "y" * 66, "too long, 66"),
        ("Who is it?", {}, "Wer ist da?", "Wer ist da.", "ends in “.”, not in “?”"),
        ("Table of Contents", {}, "Inhalt", "Inhalt.", "ends in “.”, not in “”"),
        ("who is it", {"ending": "free"}, "Wer ist da?", "", "too short"),
        ("It is big.", {}, "Sie ist groß.", "Sie ist groß und groß und groß.", "again and again"),
        ("very very good", {}, "sehr sehr gut", "gut gut gut gut gut gut", "again and again"),
        ("a\nb", {}, "c\nd", "c d", "more or fewer lines"),
        ("Good day", {}, "Guten Tag", "good day", "untranslated"),
        ("Hotel", {"copy": True}, "Hotel", "Hotel.", "ends in"),
        ("We saw the old man there.", {}, "Wir sahen ihn da.", "Saw the old man.", "untranslated"),
        ("by Ann Lee Ray Fox", {"keeps": ("Ann Lee Ray Fox",)},
         "von Ann Lee Ray Fox", "by Ann Lee Ray Fox", "untranslated"),
        ("?!", {"unchanged": True}, "?!", "?", "not left as it is"),
    ],
)  # fmt: skip
def test_a_demand_is_met_by_the_good_and_not_by_the_bad(
    source: str, demands: dict[str, Any], good: str, bad: str, fault: str
) -> None:
    assert found(source, good, **demands) == []
    assert any(fault in it for it in found(source, bad, **demands))


def test_what_is_left_as_it_is_need_not_be_anything_else() -> None:
    assert found("", "", unchanged=True) == []


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("Yes.", "."), ("Yes", ""), ("What?!", "?"), ("Wait...", "…"), ("Wait…", "…"),
        ("“Go!” 😀", "!"), ("(Really?)", "?"), ("5 €", ""), ("3.5", ""), ("", ""),
        ("Dear Sir,", ","),
    ],
)  # fmt: skip
def test_the_final_mark_is_found_behind_quotes_and_emoji(text: str, mark: str) -> None:
    assert final_mark(text) == mark


@pytest.mark.parametrize(
    ("text", "n_characters"),
    [
        ("every word is new", 0),
        ("the the end", 4),  # the second word, and a space
        ("on the road on the road", 12),
        ("On the road, on the road,\non the road", 24),
        ("Rattattattat", 8),
        ("no", 0),
    ],
)
def test_what_is_repeated_is_counted(text: str, n_characters: int) -> None:
    assert repeated(text) == n_characters


@pytest.mark.parametrize("languages", UNRELATED)
def test_no_case_accepts_silence_or_what_has_nothing_to_do_with_it(languages: str) -> None:
    cases = [case for case in load_cases(FOLDER / f"{languages}.yaml") if not case.unchanged]

    assert [case.name for case in cases if not any(faults(case, ""))] == []
    assert [case.name for case in cases if not any(faults(case, UNRELATED[languages]))] == []


@pytest.mark.parametrize("kind", sorted(MIRRORED))
def test_cases_accept_what_a_person_would_say(kind: str) -> None:
    english, german = (
        [case for case in load_cases(FOLDER / f"{languages}.yaml") if case.kind == kind]
        for languages in ("en-de", "de-en")
    )

    for one, other in zip(english, german, strict=True):
        assert list(faults(one, other.source)) == []
        assert list(faults(other, one.source)) == []


def test_texts_are_judged_with_their_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allyouneed.inference.plain_search.search", tiny_translator.copying_search)
    list_ = Case(kind="lists", source="- one\n- two", copy=True)
    sentences = Case(kind="long", source="Six men. Ten men.", keeps=("seven",), copy=True)

    first, blank, second = judge(
        tiny_translator.tiny_translator(), [list_, Case(kind="odd", source=" "), sentences]
    )

    assert (first.case, first.translation, first.faults) == (list_, "- one\n- two", ())
    assert blank.translation == " "
    assert (second.translation, second.faults) == ("Six men. Ten men.", ("loses “seven”",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("greetings:\n  - {source: a, keep: [b]}", "greetings, case 1: keep is not a setting"),
        ("greetings:\n  - {source: a, length: [1]}", "length is \\[1.0\\]; it holds the least"),
        ("greetings:\n  - hello", "case 1: the file must hold keys"),
        ("- hello", "holds `kind of text: list of cases`"),
        ("greetings: [", "not readable as a file of cases"),
        ("greetings:\n  - {source: a}\n  - {source: a}", "begin alike: greetings \\| a"),
    ],
)
def test_a_file_of_cases_that_cannot_be_used_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "cases.yaml").write_text(text, encoding="utf-8")

    with pytest.raises((ConfigError, DataError), match=message):
        load_cases(tmp_path / "cases.yaml")


def test_a_file_of_cases_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.yaml: not readable"):
        load_cases(tmp_path / "absent.yaml")
