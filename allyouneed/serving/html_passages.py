"""HTML to the texts between its tags, and back with translations in their places.

Text between block-level tags is one block, translated as a text. Inside a block a translated word
gets the inline tags (emphasis, links, …) of the source word that it attended to most.
"""

import html
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser

from allyouneed.serving.answers import SentenceAnswer
from allyouneed.serving.refusals import bad_request
from allyouneed.text.sentences import Document

_INLINE = {
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i", "ins",
    "label", "mark", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "tt",
    "u", "var",
}  # fmt: skip
_VERBATIM = {
    "code", "kbd", "math", "pre", "samp", "script", "style", "svg", "template", "textarea",
}  # fmt: skip
_RAW = {"script", "style"}  # where `&` and `<` stand for themselves
_VOID = {
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
    "wbr",
}  # fmt: skip
_DEEPEST = 50  # inline tags in inline tags


@dataclass(frozen=True, eq=False)
class _Tag:
    """One place in the page: another tag that looks the same is not equal to it."""

    name: str
    opening: str  # as it stands in the page


_Tags = tuple[_Tag, ...]  # those a word stands in, the outermost first


@dataclass
class _Block:
    """Text, and in which inline tags each character stands."""

    text: str = ""
    tags: list[_Tags] = field(default_factory=list)
    document: Document = field(default_factory=lambda: Document((), ("",)))

    def add(self, text: str, tags: _Tags) -> None:
        self.text += text
        self.tags += [tags] * len(text)

    def rebuild(self, answers: Sequence[SentenceAnswer], rank: int) -> str:
        writer = _Writer()
        place = 0
        for between, answer in zip(self.document.layout, (*answers, None), strict=True):
            writer.write(between, ())
            place += len(between)
            if answer is not None:
                hypothesis = answer["hypotheses"][min(rank, len(answer["hypotheses"]) - 1)]
                if not any(self.tags):
                    writer.write(hypothesis["text"], ())
                else:
                    tags = list(self._tags_of_words(place, answer))
                    words = hypothesis["words"]
                    nearest = [tags[word["attention"][0][0]] for word in words]
                    texts = [word["text"] for word in words]
                    for word, its in zip(words, _steadied(texts, nearest), strict=True):
                        writer.write(word["text"], its, before=word["before"])
                place += len(answer["source"])
        writer.close(())
        return writer.html

    def _tags_of_words(self, place: int, answer: SentenceAnswer) -> Iterator[_Tags]:
        for word in answer["words"]:
            place += len(word["before"])
            yield self.tags[place]
            place += len(word["text"])


def _steadied(texts: Sequence[str], tags: Sequence[_Tags]) -> Iterator[_Tags]:
    """Punctuation, whose attention says little, neither leaves the tags around it nor reopens any.

    It keeps those that no word has, as in a link around an arrow.
    """
    are_words = [any(map(str.isalnum, text)) for text in texts]
    of_words = list(itertools.compress(tags, are_words))
    known = set(itertools.chain.from_iterable(of_words))
    n_words = 0  # so far
    for own, is_word in zip(tags, are_words, strict=True):
        if is_word or not known.issuperset(own):
            yield own
        else:
            before = of_words[n_words - 1] if n_words else ()
            after = of_words[n_words] if n_words < len(of_words) else ()
            pairs = (before, after), (own, before), (own, after)
            yield max((_common(*pair) for pair in pairs), key=len)
        n_words += is_word


def _common(some: _Tags, others: _Tags) -> _Tags:
    """The outermost tags of both."""
    pairs = zip(some, others, strict=False)
    return tuple(one for one, _ in itertools.takewhile(lambda pair: pair[0] is pair[1], pairs))


@dataclass
class _Writer:
    """Opens and closes tags as they change from word to word."""

    html: str = ""
    open: _Tags = ()

    def write(self, text: str, tags: _Tags, before: str = "") -> None:
        kept = self.close(tags)
        self.html += before + "".join(tag.opening for tag in tags[kept:])
        self.html += html.escape(text, quote=False)
        self.open = tags

    def close(self, tags: _Tags) -> int:
        """Close what is not in `tags`, and say how many stay open."""
        kept = len(_common(tags, self.open))
        self.html += "".join(f"</{tag.name}>" for tag in reversed(self.open[kept:]))
        self.open = self.open[:kept]
        return kept


class _Parser(HTMLParser):
    """Collects markup as strings and what is to be translated as blocks."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str | _Block] = [_Block()]
        self._n_characters = 0
        self._tags: list[tuple[_Tag, int]] = []  # open, and how many characters stood before each
        self._verbatim: list[str] = []  # open elements whose content stays as it is

    @property
    def _block(self) -> _Block:
        last = self.parts[-1]
        if isinstance(last, str):
            last = _Block()
            self.parts.append(last)
        return last

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        opening = self.get_starttag_text() or ""
        if self._verbatim or tag in _VERBATIM or ("translate", "no") in attrs:
            self.parts.append(opening)
            if tag not in _VOID:
                self._verbatim.append(tag)
        elif tag in _INLINE:
            if len(self._tags) == _DEEPEST:
                raise bad_request(f"inline tags are nested more than {_DEEPEST} deep")
            self._tags.append((_Tag(tag, opening), self._n_characters))
        else:
            self.parts.append(opening)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        if self._verbatim:
            self.parts.append(f"</{tag}>")
            if tag in self._verbatim:
                while self._verbatim.pop() != tag:
                    pass
        elif tag in _INLINE:
            self._close_inline(tag)
        else:
            self.parts.append(f"</{tag}>")

    def _close_inline(self, name: str) -> None:
        for place in reversed(range(len(self._tags))):
            tag, n_before = self._tags[place]
            if tag.name == name:
                del self._tags[place]
                if n_before == self._n_characters:  # around nothing, as icons and anchors are
                    self.parts.append(f"{tag.opening}</{name}>")
                return

    def handle_data(self, data: str) -> None:
        if not self._verbatim:
            self._block.add(data, tuple(tag for tag, _ in self._tags))
            self._n_characters += len(data)
        elif self._verbatim[-1] in _RAW:
            self.parts.append(data)
        else:
            self.parts.append(html.escape(data, quote=False))

    def handle_comment(self, data: str) -> None:
        self.parts.append(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self.parts.append(f"<!{decl}>")

    def unknown_decl(self, data: str) -> None:
        self.parts.append(f"<![{data}]>")

    def handle_pi(self, data: str) -> None:
        self.parts.append(f"<?{data}>")

    def finish(self) -> None:
        """Take what is left, in which a tag or the like begins and does not end, as text.

        `close` would look for its end again from every `<` on: minutes for a hostile text.
        """
        rest, self.rawdata = self.rawdata, ""
        if rest:
            is_raw = bool(self._verbatim) and self._verbatim[-1] in _RAW
            self.handle_data(rest if is_raw else html.unescape(rest))


class HtmlPassage:
    """A page or a piece of one, as sentences that can be put back."""

    def __init__(self, text: str, split: Callable[[str], Document]) -> None:
        parser = _Parser()
        try:
            parser.feed(text)
            parser.finish()
        except AssertionError:  # what HTMLParser says of declarations that it does not know
            raise bad_request("the HTML cannot be read; is it whole?") from None
        self._parts = parser.parts
        for block in self._blocks:
            block.document = split(block.text)

    @property
    def _blocks(self) -> Iterator[_Block]:
        return (part for part in self._parts if isinstance(part, _Block))

    @property
    def sentences(self) -> list[str]:
        return [sentence for block in self._blocks for sentence in block.document.sentences]

    @property
    def needs_words(self) -> bool:
        """Whether rebuilding needs to know which word comes from which."""
        return any(any(block.tags) for block in self._blocks)

    def rebuild(self, answers: Sequence[SentenceAnswer], rank: int = 0) -> str:
        remaining = iter(answers)
        return "".join(
            part
            if isinstance(part, str)
            else part.rebuild([next(remaining) for _ in part.document.sentences], rank)
            for part in self._parts
        )
