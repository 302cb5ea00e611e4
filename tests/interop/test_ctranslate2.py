"""Exports for CTranslate2: the same tokens, and the same probabilities."""

import copy
import dataclasses
import json
from pathlib import Path

import ctranslate2
import pytest
import torch
from exportable import CONFIG, model_that_prefers, random_model, shipped_model
from torch import Tensor
from torch.testing import assert_close

from allyouneed.checkpoint import LoadedModel
from allyouneed.config import ModelConfig
from allyouneed.errors import CheckpointError, ConfigError
from allyouneed.inference import Greedy, Limits, search
from allyouneed.interop import CTranslate2, compare, export
from allyouneed.rows import one_sentence_a_row
from allyouneed.text.tokenizer import BEGIN, END, PAD

LEARNED = dataclasses.replace(CONFIG, positions="learned", max_positions=30)
SOURCES = [[7, 8, 9, 10, 11], [300], [12, 299, 13]]
TARGETS = [[20, 21], [22, 23, 24, 25, 26], [301]]


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ctranslate2") / "model"
    export(shipped_model(), CTranslate2(), folder)
    return folder


def sayable_log_probs(ours: LoadedModel) -> list[Tensor]:
    """Of each target's tokens and its end mark, among all that may be said."""
    src = one_sentence_a_row([[*source, END] for source in SOURCES])
    tgt = one_sentence_a_row([[BEGIN, *target] for target in TARGETS])
    logits = ours.model(src, tgt)
    logits[..., [PAD, BEGIN]] = -torch.inf
    return [
        row[: len(target) + 1].gather(1, torch.tensor([[id_] for id_ in (*target, END)]))
        for row, target in zip(logits.log_softmax(-1), TARGETS, strict=True)
    ]


@pytest.mark.parametrize("config", [CONFIG, LEARNED], ids=["sinusoidal", "learned"])
@torch.no_grad()
def test_probabilities_are_ours(tmp_path: Path, config: ModelConfig) -> None:
    ours = random_model(config)
    export(ours, CTranslate2(), tmp_path / "model")
    theirs = ctranslate2.Translator(str(tmp_path / "model"))

    scored = theirs.score_batch(
        [ours.tokenizer.pieces(source) for source in SOURCES],
        [ours.tokenizer.pieces(target) for target in TARGETS],
    )

    for result, expected in zip(scored, sayable_log_probs(ours), strict=True):
        assert_close(torch.tensor(result.log_probs), expected.flatten(), rtol=0, atol=1e-4)


def test_padding_and_begin_marks_are_never_said(tmp_path: Path) -> None:
    ours = model_that_prefers(PAD, BEGIN)
    export(ours, CTranslate2(), tmp_path / "model")

    agreement = compare(ours, CTranslate2().load(tmp_path / "model"), ["one two", "ten"], 1)

    assert len(agreement.compared) == 2
    assert not agreement.different


def test_eight_bits_are_a_quarter_and_leave_our_model_as_it_was(
    shipped: Path, tmp_path: Path
) -> None:
    ours = shipped_model()
    before = copy.deepcopy(ours.model.state_dict())

    export(ours, CTranslate2("int8"), tmp_path / "model")

    sizes = [(folder / "model.bin").stat().st_size for folder in (tmp_path / "model", shipped)]
    assert sizes[0] < 0.3 * sizes[1]
    assert_close(ours.model.state_dict(), before, rtol=0, atol=0)


def test_the_vocabulary_is_in_the_order_of_ids(shipped: Path) -> None:
    vocabulary = json.loads((shipped / "shared_vocabulary.json").read_text(encoding="utf-8"))

    tokenizer = shipped_model().tokenizer
    assert vocabulary == tokenizer.pieces(range(len(tokenizer)))


def test_nothing_may_be_said_there_too(tmp_path: Path) -> None:
    ours = model_that_prefers(END)
    export(ours, CTranslate2(), tmp_path / "model")

    [said] = CTranslate2().load(tmp_path / "model").translate([[7, 8]], beam_size=1, max_length=5)

    assert said == []


def test_there_are_positions_for_the_longest_source_of_the_model(tmp_path: Path) -> None:
    ours = random_model()
    ours = ours._replace(manifest=dataclasses.replace(ours.manifest, max_source_tokens=1100))
    export(ours, CTranslate2(), tmp_path / "model")
    source = [10] * 1024 + [299] * 75  # CTranslate2 would not read on after 1024

    [said] = CTranslate2().load(tmp_path / "model").translate([source], beam_size=1, max_length=9)

    limits = Limits(max_length=9)
    [[whole], [cut]] = search(ours.model, [source, source[:1024]], Greedy(), limits)
    assert whole.ids != cut.ids
    assert tuple(said) == whole.ids


def test_an_unknown_quantization_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"int4 .* Accepted types are: int8"):
        export(random_model(), CTranslate2("int4"), tmp_path / "model")

    assert not list(tmp_path.iterdir())


def test_heads_of_another_width_are_refused(tmp_path: Path) -> None:
    ours = random_model(dataclasses.replace(CONFIG, d_k=8, d_v=8))

    with pytest.raises(CheckpointError, match="CTranslate2 knows only heads"):
        export(ours, CTranslate2(), tmp_path / "model")

    assert not list(tmp_path.iterdir())
