"""The tokenizer: nothing is lost, ids are fixed, refusals say what to do."""

import io
import pickle
import re
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.errors import DataError
from allyouneed.text.normalize import normalize
from allyouneed.text.tokenizer import BEGIN, END, PAD, UNKNOWN, Tokenizer

SENTENCES = ["the cat sat on the mat", "ein Hund läuft über die Straße", "in 1984 the cats ran"] * 5
TOKENIZER = Tokenizer.learn(SENTENCES, 310)


@given(
    st.text(st.characters(exclude_categories=())) | st.text("the cat <s>\u2581\ufffd▅⁇0x4\ud800")
)
def test_decoding_gives_back_the_normalised_text(text: str) -> None:
    ids = TOKENIZER.encode(text)

    assert TOKENIZER.decode(ids) == normalize(text)
    assert not {PAD, BEGIN, END, UNKNOWN} & set(ids)


@pytest.mark.parametrize(
    "text", ["👩‍👩‍👧 ❤️", "\x00\ufeff", "a\ud800b", "</s><pad><unk>", "<0x41>", "漢字", "\u2581"]
)
def test_odd_characters_survive_too(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == normalize(text)


def test_the_first_ids_are_pad_begin_end_and_unknown() -> None:
    assert TOKENIZER.pieces([PAD, BEGIN, END, UNKNOWN]) == ["<pad>", "<s>", "</s>", "<unk>"]
    assert (PAD, BEGIN, END, UNKNOWN) == (0, 1, 2, 3)


def test_marks_leave_no_trace_in_decoded_text() -> None:
    ids = TOKENIZER.encode("the cat")

    assert TOKENIZER.decode([BEGIN, *ids, END, PAD, PAD]) == "the cat"


def test_a_batch_is_encoded_like_its_sentences() -> None:
    texts = ["the cat", "", "die  Straße"]

    assert TOKENIZER.encode_batch(texts) == [TOKENIZER.encode(text) for text in texts]
    assert TOKENIZER.encode_batch([]) == []


def test_pieces_spell_the_text() -> None:
    pieces = TOKENIZER.pieces(TOKENIZER.encode("the cat sat"))

    assert "".join(pieces) == "▁the▁cat▁sat"


def test_digits_are_pieces_of_their_own() -> None:
    assert TOKENIZER.pieces(TOKENIZER.encode("1984"))[-4:] == ["1", "9", "8", "4"]


def test_the_same_text_gives_the_same_vocabulary_of_the_size_asked_for() -> None:
    again = Tokenizer.learn(iter(SENTENCES), 310)

    assert again.serialized == TOKENIZER.serialized
    assert len(again) == 310


def test_counted_words_teach_the_same_pieces_as_sentences() -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=model,
        model_type="bpe",
        vocab_size=310,
        character_coverage=0.9999,
        byte_fallback=True,
        split_digits=True,
        normalization_rule_name="identity",
        pad_id=PAD,
        bos_id=BEGIN,
        eos_id=END,
        unk_id=UNKNOWN,
        minloglevel=2,
    )
    by_sentences = Tokenizer.from_bytes(model.getvalue())

    assert by_sentences.pieces(range(310)) == TOKENIZER.pieces(range(310))


def test_rare_characters_are_spelled_in_bytes_when_coverage_is_low() -> None:
    sentences = ["aaaa bbbb abab baba " * 50, "ж"]

    covering = Tokenizer.learn(sentences, 270, character_coverage=1.0)
    sparing = Tokenizer.learn(sentences, 270, character_coverage=0.99)

    assert "ж" in covering.pieces(covering.encode("ж"))
    assert sparing.pieces(sparing.encode("ж"))[-2:] == ["<0xD0>", "<0xB6>"]


def test_a_saved_or_pickled_tokenizer_is_the_same(tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path / "tokenizer.model")

    for copy in (
        Tokenizer.load(tmp_path / "tokenizer.model"),
        pickle.loads(pickle.dumps(TOKENIZER)),
    ):
        assert copy.encode("the cats ran") == TOKENIZER.encode("the cats ran")


def test_a_vocabulary_too_large_names_the_largest_that_works() -> None:
    with pytest.raises(DataError, match=r"too small for 9000 .* (\d+) or less") as caught:
        Tokenizer.learn(SENTENCES, 9000)

    largest = int(re.findall(r"(\d+) or less", str(caught.value))[0])
    assert len(Tokenizer.learn(SENTENCES, largest)) == largest


def test_a_vocabulary_too_small_names_the_smallest_that_works() -> None:
    with pytest.raises(DataError, match=r"set model.vocab_size to \d+ or more") as caught:
        Tokenizer.learn(SENTENCES, 100)

    smallest = int(re.findall(r"(\d+) or more", str(caught.value))[0])
    assert len(Tokenizer.learn(SENTENCES, smallest)) == smallest


@pytest.mark.parametrize("sentences", [[], ["", " "]])
def test_no_text_gives_no_vocabulary(sentences: list[str]) -> None:
    with pytest.raises(DataError, match="no text to learn"):
        Tokenizer.learn(sentences, 300)


def test_a_missing_damaged_or_foreign_model_is_refused(tmp_path: Path) -> None:
    damaged, foreign = tmp_path / "damaged.model", tmp_path / "foreign.model"
    damaged.write_bytes(TOKENIZER.serialized[:100])
    foreign.write_bytes(foreign_model())

    with pytest.raises(DataError, match=r"missing\.model: no tokenizer"):
        Tokenizer.load(tmp_path / "missing.model")
    with pytest.raises(DataError, match=r"damaged\.model: not a SentencePiece model"):
        Tokenizer.load(damaged)
    with pytest.raises(
        DataError, match=r"foreign\.model: pad, begin, end and unknown have the ids"
    ):
        Tokenizer.load(foreign)


def foreign_model() -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=model, vocab_size=30, minloglevel=2
    )
    return model.getvalue()
