"""Texts as people type them, and what must hold of any good translation of them.

A file of cases is YAML: kinds of text, each with a list of cases, each with the fields of `Case`.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import yaml

from allyouneed.errors import ConfigError, DataError
from allyouneed.run_file import from_tree

if TYPE_CHECKING:
    from allyouneed.translator import Translator

SLACK = 10  # characters that a translation may have more or fewer, so that short ones may differ
REPEATED = 6  # characters that may be said twice in a row, as in "wenn sie sie sieht"
COPIED = 4  # words in a row that are no coincidence
MARKS = ".?!:…,;"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A text, and what its translation must do besides never looping nor losing lines."""

    kind: str
    source: str
    keeps: tuple[str, ...] = ()  # each stands in the translation just as it is
    says: tuple[str, ...] = ()  # of each "Hund|Hündin" one stands there, in any case
    length: tuple[float, ...] = (0.5, 1.7)  # least and most, as multiples of the source's
    ending: Literal["same", "free"] = "same"  # punctuation at the end, or its absence
    copy: bool = False  # whether the text may be left as it is
    unchanged: bool = False  # whether it must be

    def __post_init__(self) -> None:
        if len(self.length) != 2:
            raise ConfigError(f"length is {list(self.length)}; it holds the least and the most")

    @property
    def name(self) -> str:
        return f"{self.kind} | {self.source[:48]}".replace("\n", "⏎")


@dataclass(frozen=True)
class Verdict:
    case: Case
    translation: str
    faults: tuple[str, ...]  # none if the translation passes


def load_cases(path: Path) -> list[Case]:
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DataError(f"{path}: not readable as a file of cases: {error}") from None
    if not isinstance(tree, dict) or not all(isinstance(cases, list) for cases in tree.values()):
        raise DataError(f"{path}: a file of cases holds `kind of text: list of cases`")
    cases = [
        from_tree(Case, _with_kind(case, kind), f"{path}: {kind}, case {number}")
        for kind, listed in tree.items()
        for number, case in enumerate(listed, start=1)
    ]
    names = [case.name for case in cases]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise DataError(f"{path}: begin alike: {', '.join(sorted(doubled))}; make them differ")
    return cases


def _with_kind(case: object, kind: str) -> object:
    return {**case, "kind": kind} if isinstance(case, dict) else case


def judge(translator: "Translator", cases: Sequence[Case]) -> list[Verdict]:
    """Translate as the page and the server do: sentence by sentence, the layout kept."""
    documents = [translator.sentences(case.source) for case in cases]
    sentences = list(itertools.chain.from_iterable(it.sentences for it in documents))
    translated = (translation.text for translation in translator.translate(sentences))
    rebuilt = (
        document.rebuild(list(itertools.islice(translated, len(document.sentences))))
        for document in documents
    )
    return [
        Verdict(case, translation, tuple(faults(case, translation)))
        for case, translation in zip(cases, rebuilt, strict=True)
    ]


def faults(case: Case, translation: str) -> Iterator[str]:
    """What is wrong with the translation of a case."""
    if case.unchanged:
        if translation != case.source:
            yield "is not left as it is"
        return
    for text in case.keeps:
        if text not in translation:
            yield f"loses “{text}”"
    for words in case.says:
        if not any(word.casefold() in translation.casefold() for word in words.split("|")):
            yield f"does not say “{words}”"
    if translation.count("\n") != case.source.count("\n"):
        yield "has more or fewer lines"
    least, most = (share * len(case.source) for share in case.length)
    if len(translation) < least - SLACK or not translation.strip():
        yield f"is too short, {len(translation)} characters for {len(case.source)}"
    if len(translation) > most + SLACK:
        yield f"is too long, {len(translation)} characters for {len(case.source)}"
    if case.ending == "same" and final_mark(translation) != final_mark(case.source):
        yield f"ends in “{final_mark(translation)}”, not in “{final_mark(case.source)}”"
    if repeated(translation) > 2 * repeated(case.source) + REPEATED:
        yield "says the same again and again"
    if not case.copy and _copies(case, translation):
        yield "leaves words untranslated"


def final_mark(text: str) -> str:
    """The first punctuation mark after the last word: quotes, brackets and emoji do not count."""
    after_last_word = re.search(r"\W*$", text.replace("...", "…"))
    assert after_last_word is not None  # it may be empty
    return next((mark for mark in after_last_word[0] if mark in MARKS), "")


def repeated(text: str) -> int:
    """The most characters in a row that only say again what stands right before them."""
    text = f"{' '.join(text.casefold().split())} "
    longest = 0
    for period in range(1, len(text) // 2 + 1):
        run = 0
        for before, after in zip(text, text[period:], strict=False):
            run = run + 1 if before == after else 0
            if run >= max(period, longest):
                longest = run
    return longest


def _copies(case: Case, translation: str) -> bool:
    """Whether a few words in a row of the source stand in its translation."""
    source, target = (_words(text, case.keeps) for text in (case.source, translation))
    n = min(COPIED, len(source))
    return n > 0 and not _runs(source, n).isdisjoint(_runs(target, n))


def _words(text: str, left_out: Iterable[str]) -> list[str]:
    for kept in left_out:
        text = text.replace(kept, " ")
    return re.findall(r"[^\W\d_]+", text.casefold())


def _runs(words: Sequence[str], n: int) -> set[tuple[str, ...]]:
    return {tuple(words[start : start + n]) for start in range(len(words) - n + 1)}
