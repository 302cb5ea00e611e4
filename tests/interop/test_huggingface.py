"""Exports for transformers: MarianMT with our weights is our model."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from exportable import (
    CONFIG,
    SENTENCES,
    model_that_prefers,
    random_model,
    random_rows,
    shipped_model,
)
from torch import Tensor
from torch.testing import assert_close
from transformers import MarianMTModel, MarianTokenizer

from allyouneed.errors import CheckpointError
from allyouneed.interop import HuggingFace, export
from allyouneed.rows import PADDING, Rows
from allyouneed.text.tokenizer import BEGIN, END, PAD, UNKNOWN


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("huggingface") / "model"
    export(shipped_model(), HuggingFace(), folder)
    return folder


def marian_logits(folder: Path, src: Rows, tgt: Rows) -> Tensor:
    marian = MarianMTModel.from_pretrained(folder)
    logits: Tensor = marian(
        input_ids=src.ids,
        attention_mask=src.sentence != PADDING,
        decoder_input_ids=tgt.ids,
    ).logits
    return logits


@torch.no_grad()
def test_marian_gives_our_logits(tmp_path: Path) -> None:
    ours = random_model()
    src, tgt = random_rows([4, 9, 1], first=7), random_rows([8, 5, 3], BEGIN)
    export(ours, HuggingFace(), tmp_path / "model")

    logits = marian_logits(tmp_path / "model", src, tgt)

    real = tgt.sentence != PADDING
    assert_close(logits[real], ours.model(src, tgt)[real], rtol=0, atol=1e-4)


@torch.no_grad()
def test_what_marian_saves_again_is_still_our_model(tmp_path: Path) -> None:
    ours = random_model()
    src, tgt = random_rows([9], first=7), random_rows([8], first=BEGIN)
    export(ours, HuggingFace(), tmp_path / "model")

    MarianMTModel.from_pretrained(tmp_path / "model").save_pretrained(tmp_path / "again")

    logits = marian_logits(tmp_path / "again", src, tgt)
    assert_close(logits, ours.model(src, tgt), rtol=0, atol=1e-4)


def test_padding_and_begin_marks_are_never_said(tmp_path: Path) -> None:
    export(model_that_prefers(PAD, BEGIN), HuggingFace(), tmp_path / "model")
    marian: Any = MarianMTModel.from_pretrained(tmp_path / "model")
    source = torch.tensor([[7, 8, 9, END]])

    said = marian.generate(source, attention_mask=torch.ones_like(source), num_beams=1)

    assert said[0, 0] == BEGIN
    assert not {PAD, BEGIN} & set(said[0, 1:].tolist())


def test_pieces_and_ids_are_ours(shipped: Path) -> None:
    tokenizer = MarianTokenizer.from_pretrained(shipped)
    ordinary = [
        *SENTENCES,
        "Zwölf Männer (in 3 Booten) grüßen; „schön“, sagt er. 50 % – à bientôt!",
    ]
    spaced = ["  A man   sleeps. ", "A  man sleeps."]
    rare = ["日本 ☃ 🙂", "a_b <tag> & co", "No. 1,234.56", "Well , what ?"]

    for text in [*ordinary, *spaced, *rare]:
        ids = tokenizer(text).input_ids
        assert ids == [*shipped_model().tokenizer.encode(text), END]
        assert tokenizer.decode(ids, skip_special_tokens=True) == " ".join(text.split())
        assert tokenizer(text_target=text).input_ids == ids


def test_special_tokens_have_our_ids(shipped: Path) -> None:
    tokenizer = MarianTokenizer.from_pretrained(shipped)

    assert tokenizer.pad_token_id == PAD
    assert tokenizer.eos_token_id == END
    assert tokenizer.unk_token_id == UNKNOWN
    assert tokenizer.vocab_size == len(shipped_model().tokenizer)


def test_its_own_settings_are_those_of_the_model(shipped: Path) -> None:
    marian = MarianMTModel.from_pretrained(shipped)
    generation, manifest = marian.generation_config, shipped_model().manifest

    assert generation.num_beams == manifest.decoding.beam_size
    assert generation.length_penalty == pytest.approx(0.8 * manifest.decoding.length_penalty)
    assert generation.max_length == manifest.max_source_tokens + 50 + 1
    assert marian.config.forced_eos_token_id is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positions": "learned"}, "sinusoidal positions"),
        ({"d_k": 8}, "d_k = 8, d_v = 4, d_model / n_heads = 4"),
        ({"d_v": 2}, "d_v = 2"),
    ],
)
def test_what_marian_cannot_express_is_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    ours = random_model(dataclasses.replace(CONFIG, **change))  # type: ignore[arg-type]

    with pytest.raises(CheckpointError, match=message):
        export(ours, HuggingFace(), tmp_path / "model")

    assert not list(tmp_path.iterdir())
