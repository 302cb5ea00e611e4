import contextlib
import time
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from allyouneed.serving.answers import SentenceAnswer
from allyouneed.serving.html_passages import HtmlPassage
from allyouneed.serving.refusals import Refusal
from allyouneed.text.sentences import Document


def split(text: str) -> Document:
    """One sentence, without the space around it."""
    sentence = text.strip()
    if not sentence:
        return Document((), (text,))
    before, after = text.split(sentence, 1)
    return Document((sentence,), (before, after))


def answer(source: str, target: str, links: list[int]) -> SentenceAnswer:
    """A translation word by word; `links` says from which word each comes."""
    words = [(" " if place else "", word) for place, word in enumerate(source.split())]
    target_words = [(" " if place else "", word) for place, word in enumerate(target.split())]
    return {
        "source": source,
        "words": [{"before": before, "text": text} for before, text in words],
        "hypotheses": [
            {
                "text": target,
                "score": 0.0,
                "log_probability": 0.0,
                "finished": True,
                "words": [
                    {"before": before, "text": text, "confidence": 1.0, "attention": [(link, 1.0)]}
                    for (before, text), link in zip(target_words, links, strict=True)
                ],
            }
        ],
    }


def copied(html: str) -> str:
    """Through parser and writer, each word from itself."""
    passage = HtmlPassage(html, split)
    answers = [answer(it, it, list(range(len(it.split())))) for it in passage.sentences]
    return passage.rebuild(answers)


def translated(html: str, target: str, links: list[int]) -> str:
    passage = HtmlPassage(html, split)
    [sentence] = passage.sentences
    return passage.rebuild([answer(sentence, target, links)])


@pytest.mark.parametrize(
    "html",
    [
        "a b",
        "<p>a b</p>",
        "<!DOCTYPE html><ul>\n <li>a</li>\n <li class='x'>b <br> c</li>\n</ul>",
        "<p>a <b>b c</b> d</p>",
        '<p>a <a href="?x=1&amp;y=2">b <i>c</i></a> d</p>',
        "<p>a &lt; b &amp; c</p>",
        "<script>if (a < b && c) { d }</script><p>a</p><style>p > b {}</style>",
        "<p>a</p><pre>  b &lt; <b>c</b>\n</pre><p translate='no'>d <b>e</b></p><p>f</p>",
        "<p><i class='icon'></i>a</p>",
        "<!-- a <b> --><p>b</p><?php c ?>",
        "<img src='a.png' alt='b'/><p>c</p>",
    ],
)
def test_what_is_copied_word_by_word_stays_the_same(html: str) -> None:
    assert copied(html) == html


def test_words_take_the_tags_of_the_words_they_come_from() -> None:
    html = '<p>a <b>red</b> <a href="x">big car</a></p>'

    assert (
        translated(html, "voiture grande rouge une", [3, 2, 1, 0])
        == '<p><a href="x">voiture grande</a> <b>rouge</b> une</p>'
    )


def test_nested_tags_stay_nested() -> None:
    html = "<b>one <i>two</i></b>"

    assert translated(html, "zwei eins", [1, 0]) == "<b><i>zwei</i> eins</b>"


def test_a_tag_whose_words_part_is_written_twice() -> None:
    assert translated("<b>one two</b> three", "x y z", [0, 2, 1]) == "<b>x</b> y <b>z</b>"


@pytest.mark.parametrize(
    ("html", "target", "links", "wanted"),
    [
        ("<b>one , two</b> three", "x , y z", [0, 3, 2, 3], "<b>x , y</b> z"),
        ("<b>one</b> two .", "x y .", [0, 1, 0], "<b>x</b> y ."),
        ("<b>one</b> two !", "! x y", [1, 1, 0], "! x <b>y</b>"),
        ("<b>one !</b> two", "x ! y", [0, 1, 2], "<b>x !</b> y"),
        ("<b>one</b> ! two", "x ! y", [0, 1, 2], "<b>x</b> ! y"),
        ("<b>one <i>two</i></b> .", "x , y .", [0, 2, 1, 1], "<b>x , <i>y .</i></b>"),
        ("<b>one</b> <b>→</b> two", "x → y", [0, 1, 2], "<b>x</b> <b>→</b> y"),
        ("<b>→</b>", "→", [0], "<b>→</b>"),
    ],
)
def test_punctuation_neither_parts_a_tag_nor_opens_it_again(
    html: str, target: str, links: list[int], wanted: str
) -> None:
    assert translated(html, target, links) == wanted


def test_translations_cannot_bring_tags_in() -> None:
    assert translated("<p>a</p>", "<script>", [0]) == "<p>&lt;script&gt;</p>"
    assert translated("<p><b>a</b></p>", "<i>", [0]) == "<p><b>&lt;i&gt;</b></p>"


def test_what_is_code_is_not_translated() -> None:
    html = "<p>a</p><code>b</code><textarea>c</textarea><span translate='no'>d</span>"

    assert HtmlPassage(html, split).sentences == ["a"]


def test_tags_nested_without_end_are_refused() -> None:
    with pytest.raises(Refusal, match="nested"):
        HtmlPassage("<b>a" * 51, split)
    HtmlPassage("<b>a</b>" * 51, split)


def test_words_are_needed_only_where_there_are_inline_tags() -> None:
    assert not HtmlPassage("<p>a</p>", split).needs_words
    assert HtmlPassage("<p>a <b>b</b></p>", split).needs_words


@pytest.mark.parametrize(
    ("html", "wanted"),
    [
        ("a &amp; <b x='y", "a &amp; &lt;b x='y"),
        ("<p>a</p><!-- b &gt;", "<p>a</p>&lt;!-- b &gt;"),
        ("a &am", "a &amp;am"),
        ("<script>a && b </scr", "<script>a && b </scr"),
        ("<pre>a &lt; <b", "<pre>a &lt; &lt;b"),
    ],
)
def test_what_begins_and_does_not_end_is_text(html: str, wanted: str) -> None:
    assert copied(html) == wanted


@pytest.mark.parametrize("piece", ["<a ", '<a b="', "<!--", "</a ", "<?", "&a", "<![CDATA["])
def test_tags_that_never_end_take_no_time(piece: str) -> None:
    begin = time.perf_counter()
    HtmlPassage(piece * (50_000 // len(piece)), split)

    assert time.perf_counter() - begin < 2  # twenty, if the end is looked for from each on


class Balance(HTMLParser):
    """Counts inline tags."""

    depth = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.depth += tag in {"b", "i"}

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag in {"b", "i"}


PIECES = ["<b>", "</b>", "<i>", "</i>", "<p>", "</p>", "<br>", " a ", "b", "&amp;", " "]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_however_wild_it_comes_tags_go_out_closed_and_no_word_is_lost(html: str) -> None:
    found = copied(html)

    balance = Balance()
    balance.feed(found)
    assert balance.depth == 0
    for word in ("a", "&amp;"):
        assert found.count(word) == html.count(word)


@example("<![ ]>")  # which Python's parser cannot read
@given(st.text(alphabet="<>!-[]/ab&;\"'=? ", max_size=40))
def test_no_text_is_too_odd(html: str) -> None:
    with contextlib.suppress(Refusal):
        copied(html)
