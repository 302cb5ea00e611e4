"""Text all in capitals, for models that read it in lower case."""

from dataclasses import replace

import pytest
from tiny_translator import MAX_SOURCE_TOKENS, copying_search, tiny_translator, tokenizer

from allyouneed.inference import Hypothesis, Sampling
from allyouneed.serving.answers import sentence_answer
from allyouneed.text.capitals import are_capitals, lowered
from allyouneed.translator import Translator


@pytest.fixture
def lowering(monkeypatch: pytest.MonkeyPatch) -> Translator:
    """A translator whose translations are their sources, as they were read."""
    monkeypatch.setattr("allyouneed.inference.plain_search.search", copying_search)
    translator = tiny_translator()
    decoding = replace(translator.manifest.decoding, lower_capitals=True)
    translator.manifest = replace(translator.manifest, decoding=decoding)
    return translator


@pytest.mark.parametrize("text", ["STOP IT", "ÄÖÜÄÖ", "ONE, 2 AND (THREE)!", "STRASSE"])
def test_what_is_all_in_capitals(text: str) -> None:
    assert are_capitals(text)


@pytest.mark.parametrize(
    "text", ["", "12345 678", "NATO", "NATO 2024", "U.S.A.", "ONE two", "中文中文中文 A"]
)
def test_what_is_not(text: str) -> None:
    assert not are_capitals(text)


@pytest.mark.parametrize(
    ("text", "in_lower_case"),
    [
        ("  ONE TWO. THREE, FOUR!", "  One two. Three, four!"),
        ("NO. GO. (YES) 2 MEN? ÄÖ", "No. Go. (Yes) 2 men? Äö"),
        ("„WER DA? ICH“, SO.  UND", "„Wer da? Ich“, so.  Und"),
        ("DIE U.S. ARMY", "Die u.s. army"),
    ],
)
def test_every_sentence_keeps_its_first_capital(text: str, in_lower_case: str) -> None:
    assert lowered(text) == in_lower_case


def test_a_long_text_is_divided_as_in_lower_case(lowering: Translator) -> None:
    text = "One two three, four five six. “Seven eight man! Nine ten”, one two three four five."

    capitals, printed = lowering.translate([text.upper(), text])

    assert capitals.text == text.upper()
    assert capitals.source_tokens == printed.source_tokens
    assert capitals.score == printed.score  # of as many parts


@pytest.mark.parametrize(
    ("prefix", "as_read"), [("SIX", "Six"), ("ONE MAN", "One man"), ("Six Man", "Six Man")]
)
def test_a_prefix_in_capitals_is_lowered_with_its_text(
    lowering: Translator, prefix: str, as_read: str
) -> None:
    capitals, other = lowering.translate(["ONE TWO THREE", "one two"], prefixes=[prefix] * 2)

    assert capitals.text == f"{prefix} ONE TWO THREE".upper()
    pieces = tokenizer().pieces(tokenizer().encode(as_read))
    assert list(capitals.tokens[: len(pieces)]) == pieces
    assert other.text.startswith(prefix)


def test_it_is_read_in_lower_case_and_its_translation_is_in_capitals(lowering: Translator) -> None:
    [translation] = lowering.translate(["ONE TWO, THREE!"])

    assert translation.text == "ONE TWO, THREE!"
    assert translation.source == "ONE TWO, THREE!"
    as_read = tuple(tokenizer().pieces(tokenizer().encode("One two, three!")))
    assert (translation.source_tokens, translation.tokens) == (as_read, as_read)
    attention = translation.attention()
    assert (attention.source_tokens, attention.target_tokens) == (as_read, as_read)


def test_other_texts_are_left_alone(lowering: Translator) -> None:
    texts = ["ONE", "One TWO three", "", " ", "12345"]

    for translation, text in zip(lowering.translate(texts), texts, strict=True):
        assert translation.text == text.strip()
        pieces = tokenizer().pieces(tokenizer().encode(text))
        assert list(translation.source_tokens) == pieces


def test_a_model_reads_capitals_as_they_are_unless_it_says_otherwise() -> None:
    [translation] = tiny_translator().translate(["ONE TWO"])

    assert list(translation.source_tokens) == tokenizer().pieces(tokenizer().encode("ONE TWO"))
    assert not translation.text.isupper()


def test_the_n_best_are_different_in_capitals_too(
    lowering: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["One man", "one man", "two man"]
    ids = [tuple(tokenizer().encode(text)) for text in texts]
    found = [[Hypothesis(it, -rank, -rank) for rank, it in enumerate(ids, start=1)]]
    monkeypatch.setattr("allyouneed.inference.plain_search.search", lambda *_: found)

    [beam] = lowering.translate(["ONE MAN"], n_best=3)
    [sampled] = lowering.translate(["ONE MAN"], n_best=3, strategy=Sampling())

    assert [it.text for it in beam.hypotheses] == ["ONE MAN", "TWO MAN"]
    assert [it.text for it in sampled.hypotheses] == ["ONE MAN", "ONE MAN", "TWO MAN"]


def test_a_beam_full_of_one_text_in_capitals_is_widened(
    lowering: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [tuple(tokenizer().encode(text)) for text in ("One man", "one man", "two man")]
    found = [Hypothesis(it, -rank, -rank) for rank, it in enumerate(ids, start=1)]
    monkeypatch.setattr(
        "allyouneed.inference.plain_search.search",
        lambda _model, _sources, strategy, *_: [found[: strategy.size]],
    )

    [translation] = lowering.translate(["ONE MAN"], n_best=2)  # in a beam of two

    assert [it.text for it in translation.hypotheses] == ["ONE MAN", "TWO MAN"]


def test_attention_and_scores_are_of_what_was_read(lowering: Translator) -> None:
    [translation] = lowering.translate(["ONE TWO, THREE!"])

    for target in (None, "ONE TWO, THREE!", translation.tokens):
        attention = lowering.attention("ONE TWO, THREE!", target)
        assert attention.source_tokens == translation.source_tokens
        assert attention.target_tokens == translation.tokens
    assert lowering.score(["ONE TWO"], ["FIVE SIX"]) == lowering.score(["One two"], ["Five six"])


def test_a_sentence_is_as_long_as_it_was_read(lowering: Translator) -> None:
    sentence = "ONE TWO THREE FOUR FIVE SIX SEVEN."  # many more tokens than the model takes
    long = f"{sentence[:-1]} {sentence[:-1]} {sentence}"

    assert lowering.sentences(sentence).sentences == (sentence,)
    assert len(lowering.sentences(long).sentences) > 1
    assert lowering.translate_document(f"{sentence}\n\n{long}") == f"{sentence}\n\n{long}"


def test_capitals_in_other_text_fit_as_they_are(
    lowering: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checking_search(*arguments: object) -> list[list[Hypothesis]]:
        assert all(len(ids) < MAX_SOURCE_TOKENS for ids in arguments[1])  # type: ignore[attr-defined]
        return copying_search(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("allyouneed.inference.plain_search.search", checking_search)
    [translation] = lowering.translate(["one two, ONE TWO THREE FOUR, one two three four"])

    assert len(translation.source_tokens) > MAX_SOURCE_TOKENS


def test_words_are_those_of_the_text_and_punctuation_stands_alone(lowering: Translator) -> None:
    [translation] = lowering.translate(["ONE  TWO, THREE!"])
    [details] = lowering.details([translation])

    answer = sentence_answer(translation, details)

    words = ["ONE", "TWO", ",", "THREE", "!"]
    assert [it["text"] for it in answer["words"]] == words
    [hypothesis] = answer["hypotheses"]
    assert [it["text"] for it in hypothesis["words"]] == words
    assert "".join(it["before"] + it["text"] for it in answer["words"]) == translation.source
    assert "".join(it["before"] + it["text"] for it in hypothesis["words"]) == hypothesis["text"]
