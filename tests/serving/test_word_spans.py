import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_translator import tokenizer

from allyouneed.serving.word_spans import word_spans


def tokens_of(text: str) -> list[str]:
    return tokenizer().pieces(tokenizer().encode(text))


def test_words_and_punctuation_stand_alone_with_the_space_before_them() -> None:
    spans = word_spans("One  two,\nthree!", tokens_of("One  two,\nthree!"))

    assert [(span.before, span.text) for span in spans] == [
        ("", "One"),
        ("  ", "two"),
        ("", ","),
        ("\n", "three"),
        ("", "!"),
    ]


def test_the_tokens_of_a_word_spell_it() -> None:
    tokens = tokens_of("seven even, mantwo")

    for span in word_spans("seven even, mantwo", tokens):
        assert "".join(tokens[place] for place in span.tokens).strip("▁") == span.text


@pytest.mark.parametrize("text", ["one tẃo three", "one two\u00ad three", "one \u200b two"])
def test_what_normalisation_changed_is_kept_as_it_was_written(text: str) -> None:
    spans = word_spans(text, tokens_of(text))

    assert "".join(span.before + span.text for span in spans) == text


def test_words_in_capitals_may_have_tokens_in_lower_case() -> None:
    spans = word_spans("DIE STRASSE, NR. 5", ["▁Die", "▁stra", "ße", ",", "▁Nr", ".", "▁5"])

    assert [span.text for span in spans] == ["DIE", "STRASSE", ",", "NR", ".", "5"]


@given(st.text())
def test_all_of_the_text_and_every_token_is_in_one_span(text: str) -> None:
    text = text.strip()
    tokens = tokens_of(text)

    spans = word_spans(text, tokens)

    assert "".join(span.before + span.text for span in spans) == text
    if text:
        places = itertools.chain.from_iterable(span.tokens for span in spans)
        assert list(places) == list(range(len(tokens)))
