"""A text as its words, and which of its tokens each is made of."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from allyouneed.text.words import SPACE, spell, words

_CHUNK = re.compile(r"(\s*)(\S+)")


@dataclass(frozen=True)
class Span:
    before: str  # the white space
    text: str
    tokens: range  # places


def word_spans(text: str, tokens: Sequence[str]) -> list[Span]:
    """Words and punctuation; `before` and `text` of all together are `text`.

    What stands between two spaces is one span where its tokens spell it differently, as they do
    where the text was not in normal form.
    """
    chunks = _CHUNK.findall(text)
    starts = [place for place, it in enumerate(tokens) if place == 0 or it.startswith(SPACE)]
    if len(chunks) != len(starts):
        return [Span("", text, range(len(tokens)))] if text else []
    ends = [*starts, len(tokens)][1:]
    return [
        span
        for (before, chunk), start, end in zip(chunks, starts, ends, strict=True)
        for span in _spans_of_chunk(before, chunk, start, tokens[start:end])
    ]


def _spans_of_chunk(before: str, chunk: str, start: int, tokens: Sequence[str]) -> Iterator[Span]:
    ranges = words(tokens)
    spelled = [spell(tokens[word.start : word.stop]) for word in ranges]
    if chunk.isupper():  # text in capitals may have been read, and written, in lower case
        spelled = list(map(str.upper, spelled))
    if "".join(spelled) != chunk:
        yield Span(before, chunk, range(start, start + len(tokens)))
        return
    for word, text in zip(ranges, spelled, strict=True):
        yield Span(before, text, range(start + word.start, start + word.stop))
        before = ""
