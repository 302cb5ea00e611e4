"""What every head attends to, asked of a translator."""

import copy
import pickle
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from tiny_translator import MAX_SOURCE_TOKENS, copying_search, tiny_translator

from allyouneed.errors import DataError
from allyouneed.model import Transformer
from allyouneed.rows import one_sentence_a_row
from allyouneed.text.tokenizer import BEGIN, END
from allyouneed.translator import Translator

GUIDE = Path(__file__).parents[2] / "docs" / "attention.md"
SOURCE, TARGET = "one two three", "Four man!"


@pytest.fixture
def copying(monkeypatch: pytest.MonkeyPatch) -> Translator:
    """A translator whose translations are their sources."""
    monkeypatch.setattr("allyouneed.inference.plain_search.search", copying_search)
    return tiny_translator()


def test_weights_are_those_of_a_teacher_forced_pass() -> None:
    translator = tiny_translator(dropout=0.5)
    translator.model.train()  # dropout is off while it looks
    source, target = (translator.tokenizer.encode(text) for text in (SOURCE, TARGET))

    attention = translator.attention(SOURCE, TARGET)

    assert translator.model.training
    src, tgt = one_sentence_a_row([[*source, END]]), one_sentence_a_row([[BEGIN, *target]])
    maps = translator.model.eval().attention_maps(src, tgt)
    for found, expected in zip(
        (attention.encoder, attention.decoder, attention.memory), maps, strict=True
    ):
        assert_allclose(found, torch.cat(expected).numpy())
    assert attention.source_tokens == tuple(translator.tokenizer.pieces(source))
    assert attention.target_tokens == tuple(translator.tokenizer.pieces(target))


def test_weights_are_those_of_the_formula() -> None:
    translator = tiny_translator()
    ids = [*translator.tokenizer.encode(SOURCE), END]
    weights = {name: it.double().numpy() for name, it in translator.model.state_dict().items()}
    position, place = np.meshgrid(np.arange(len(ids)), np.arange(8), indexing="ij")
    angle = position / 10_000 ** (place // 2 * 2 / 8)
    positions = np.where(place % 2, np.cos(angle), np.sin(angle))
    x = weights["embedding.weight"][ids] * np.sqrt(8) + positions

    found = translator.attention(SOURCE, TARGET).encoder[0]

    for head in range(2):
        q, k = (x @ weights[f"encoder.layers.0.self_attention.w_{name}.weight"].T for name in "qk")
        columns = slice(4 * head, 4 * head + 4)
        scores = np.exp(q[:, columns] @ k[:, columns].T / np.sqrt(4))
        assert_allclose(found[head], scores / scores.sum(-1, keepdims=True), rtol=1e-4)


def test_a_translation_shows_the_tokens_that_were_found(copying: Translator) -> None:
    [translation] = copying.translate([SOURCE], n_best=2)

    for rank, hypothesis in enumerate(translation.hypotheses):
        attention = translation.attention(rank)
        assert attention.source_tokens == translation.source_tokens
        assert attention.target_tokens == hypothesis.tokens
    assert copying.attention(SOURCE).target_tokens == translation.tokens


def test_translating_computes_no_maps(copying: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Transformer, "attention_maps", fail)
    [translation] = copying.translate([SOURCE])

    with pytest.raises(AssertionError):
        translation.attention()


def test_copies_of_a_translation_hold_no_model(copying: Translator) -> None:
    [translation] = copying.translate([SOURCE])

    alone = pickle.loads(pickle.dumps(translation))
    assert alone == translation == copy.deepcopy(translation)
    assert set(asdict(translation)) == {"source", "source_tokens", "hypotheses", "alignment"}
    for apart in (alone, replace(translation, alignment=[])):
        with pytest.raises(RuntimeError, match="apart from its translator"):
            apart.attention()


def test_what_cannot_be_looked_at_says_why(copying: Translator) -> None:
    with pytest.raises(DataError, match="blank"):
        copying.attention("  ")
    long = "one " * (MAX_SOURCE_TOKENS + 1)
    with pytest.raises(DataError, match=f"takes {MAX_SOURCE_TOKENS - 1} at once"):
        copying.attention(long)
    with pytest.raises(DataError, match=f"takes {MAX_SOURCE_TOKENS - 1} at once"):
        copying.attention(long, TARGET)


def test_a_translation_beyond_the_known_positions_is_refused() -> None:
    known = tiny_translator()
    config = replace(known.manifest.model, positions="learned", max_positions=6)
    translator = Translator(Transformer(config), known.tokenizer, known.manifest)

    assert translator.attention("one", "one two three four five").decoder.shape[-1] == 6
    with pytest.raises(DataError, match="knows 6 positions"):
        translator.attention("one", "one two three four five six")


def test_an_empty_translation_is_one_step(copying: Translator) -> None:
    attention = copying.attention(SOURCE, "")

    assert attention.map("encoder-decoder").queries == ("</s>",)
    assert attention.map("decoder").queries == ("<s>",)


def test_the_snippet_of_the_guide_runs() -> None:
    [snippet] = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)

    names: dict[str, Any] = {}
    exec(compile(snippet, str(GUIDE), "exec"), names)

    translation, attention = names["translation"], names["attention"]
    n_source, n_target = len(translation.source_tokens) + 1, len(translation.tokens) + 1
    assert attention.encoder.shape == (6, 6, n_source, n_source)  # of the shipped model
    assert attention.memory.shape == (2, 6, n_target, n_source)
    assert names["by_words"].weights.shape[-2:] == (
        len(names["by_words"].queries),
        len(names["by_words"].keys),
    )
