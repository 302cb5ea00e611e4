"""Documents to sentences and back, and sentences that are too long to parts that are not."""

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from allyouneed.errors import DataError, UserError

# What may stand before the first word of a line: quotation and list marks, headings.
_LEAD = re.compile(r"\s*(?:(?:[-*+•‣◦–—>|]|#{1,6}|\(?(?:\d{1,3}|[a-z])[.)])\s+)*")

# A paragraph is taken to be wrapped by hand at a width from here to there, in characters.
_NARROWEST, _WIDEST = 50, 120

# Where a text may be split that is too long: after sentences, else clauses, words, characters.
_SENTENCES = re.compile(r"""(?<=\w\w[.!?…]\s)(?=["'«»“„‘(]?[A-ZÀ-ÞΑ-ЯЁ\d])|(?<=[。！？])""")
_CLAUSES = re.compile(r"(?<=[,;:–—)\]]\s)|(?<=[、，；：])")
_WORDS = re.compile(r"(?<=\s)")
_CHARACTERS = re.compile("")


class TooManySentencesError(DataError):
    """A text has more sentences than were allowed; how many more has not been found out."""


@dataclass(frozen=True)
class Document:
    """A text as its sentences and all that stands between them."""

    sentences: tuple[str, ...]
    layout: tuple[str, ...]  # before the first sentence, between two, after the last

    @classmethod
    def parse(cls, text: str, language: str, most: float = math.inf) -> "Document":
        """`language` is the code of the text's language, such as "en"; `most` are sentences."""
        sentences: list[str] = []
        layout = [""]
        for paragraph in _paragraphs(text):
            for lead, sentence, tail in _sentences(paragraph, language):
                layout[-1] += lead
                if sentence:
                    sentences.append(sentence)
                    layout.append("")
                    _check(sentences, most)
                layout[-1] += tail
        return cls(tuple(sentences), tuple(layout))

    def divided(self, fits: Callable[[str], bool], most: float = math.inf) -> "Document":
        """With the parts of a sentence that does not fit as sentences of their own."""
        sentences: list[str] = []
        layout = [self.layout[0]]
        for sentence, after in zip(self.sentences, self.layout[1:], strict=True):
            for part in split_to_fit(sentence, fits):
                before, stripped, behind = _stripped(part)
                layout[-1] += before
                if stripped:
                    sentences.append(stripped)
                    layout.append(behind)
                    _check(sentences, most)
            layout[-1] += after
        return Document(tuple(sentences), tuple(layout))

    def rebuild(self, translations: Sequence[str]) -> str:
        """The document with a translation in each sentence's place."""
        pairs = zip(self.layout, (*translations, ""), strict=True)
        return "".join(between + sentence for between, sentence in pairs)


def _check(sentences: Sequence[str], most: float) -> None:
    if len(sentences) > most:
        raise TooManySentencesError(f"the text has more than {most} sentences; send it in parts")


def _paragraphs(text: str) -> Iterator[str]:
    """Lines with their ends; those that were wrapped by hand are together again."""
    run: list[str] = []
    for line in text.splitlines(keepends=True):
        if run and not line.strip():
            yield from _unwrapped(run)
            run = []
        run.append(line)
    yield from _unwrapped(run)


def _unwrapped(lines: Sequence[str]) -> Iterator[str]:
    width = max((len(line.rstrip()) for line in lines), default=0)
    paragraph = ""
    for line in lines:
        if paragraph and not _continues(paragraph, line, width):
            yield paragraph
            paragraph = ""
        paragraph += line
    yield paragraph


def _continues(paragraph: str, line: str, width: int) -> bool:
    """Whether `line` was begun only because its first word had no room on the line before."""
    if not _NARROWEST <= width <= _WIDEST or not line.strip() or _lead(line).strip():
        return False
    room = width - len(paragraph.splitlines()[-1].rstrip())
    return room < 1 + len(line.split(maxsplit=1)[0])


def _sentences(paragraph: str, language: str) -> Iterator[tuple[str, str, str]]:
    """(layout before, sentence, layout after); the sentence is empty where no word stands."""
    lead = _lead(paragraph)
    for chunk in split_sentences(paragraph[len(lead) :], language) or [""]:
        before, sentence, after = _stripped(chunk)
        if any(map(str.isalnum, sentence)):
            yield lead + before, sentence, after
        else:
            yield lead + chunk, "", ""
        lead = ""


def _stripped(chunk: str) -> tuple[str, str, str]:
    """(white space before, text, white space after); all of a blank chunk stands before."""
    rest = chunk.lstrip()
    text = rest.rstrip()
    return chunk[: len(chunk) - len(rest)], text, rest[len(text) :]


def _lead(line: str) -> str:
    match = _LEAD.match(line)
    return match[0] if match else ""


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of a paragraph, each with the white space after it; nothing is lost."""
    try:
        import sentencex
    except ImportError:
        raise UserError(
            "splitting text into sentences needs sentencex, which a whole install has; "
            "install it with: pip install sentencex"
        ) from None
    chunks: list[str] = sentencex.segment(language, text)
    return chunks if "".join(chunks) == text else [text]


def split_to_fit(text: str, fits: Callable[[str], bool]) -> list[str]:
    """`text` in parts that fit; together they are `text` again. One character always fits.

    Here sentences are found by a simple rule, not by a package: a model translates a long line
    the same wherever it runs.
    """
    if fits(text):
        return [text]
    parts = []
    for sentence in _units(text, _SENTENCES):  # a model knows single sentences best
        parts += _split(sentence, fits, (_CLAUSES, _WORDS, _CHARACTERS))
    return parts


def _split(text: str, fits: Callable[[str], bool], places: Sequence[re.Pattern[str]]) -> list[str]:
    if not places or fits(text):
        return [text]
    units = _units(text, places[0])
    parts = []
    begin = 0
    while begin < len(units):
        end = begin + _how_many_fit(units, begin, fits)
        parts += _split("".join(units[begin:end]), fits, places[1:])
        begin = end
    return parts


def _units(text: str, places: re.Pattern[str]) -> list[str]:
    return [unit for unit in places.split(text) if unit]


def _how_many_fit(units: Sequence[str], begin: int, fits: Callable[[str], bool]) -> int:
    """The most units from `begin` on that fit together; 1 if not even the first does."""

    def too_many(count: int) -> bool:
        return not fits("".join(units[begin : begin + count]))

    count, n_units = 1, len(units) - begin
    while count < n_units and not too_many(2 * count):
        count *= 2
    more = range(count + 1, min(2 * count, n_units) + 1)
    return count + bisect_left(more, True, key=too_many)
