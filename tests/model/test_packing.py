"""Packed = padded: the model cannot tell how sentences share rows."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from tiny_world import CONFIG, SRC, SRC_SENTENCES, TGT, TGT_SENTENCES, packed, random_model
from torch import Tensor
from torch.testing import assert_close

from allyouneed.config import ModelConfig
from allyouneed.model import Transformer
from allyouneed.rows import PADDING, Rows

# The first two pairs share a row, the third has its own, the last row is padding only.
PACKED_SRC = packed([SRC_SENTENCES[:2], SRC_SENTENCES[2:], []], width=9)
PACKED_TGT = packed([TGT_SENTENCES[:2], TGT_SENTENCES[2:], []], width=8)
CONFIGS = {
    "sinusoidal": CONFIG,
    "learned": replace(CONFIG, positions="learned", max_positions=8),
}


def real_logits(model: Transformer, src: Rows, tgt: Rows) -> Tensor:
    """In reading order, which is the same however sentences are put in rows."""
    return model(src, tgt)[tgt.sentence != PADDING]


def gradients(model: Transformer, src: Rows, tgt: Rows) -> dict[str, Tensor]:
    loss = F.cross_entropy(real_logits(model, src, tgt), tgt.ids[tgt.sentence != PADDING])
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_packed_sentences_get_the_logits_of_padded_ones(config: ModelConfig) -> None:
    model = random_model(config, torch.float64)

    assert_close(real_logits(model, PACKED_SRC, PACKED_TGT), real_logits(model, SRC, TGT))


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_packed_sentences_give_every_parameter_the_gradient_of_padded_ones(
    config: ModelConfig,
) -> None:
    model = random_model(config, torch.float64)

    assert_close(gradients(model, PACKED_SRC, PACKED_TGT), gradients(model, SRC, TGT))


def test_rows_of_padding_only_are_finite_forward_and_backward() -> None:
    model = random_model()
    nothing_src, nothing_tgt = packed([[], []], width=4), packed([[], []], width=3)

    logits = model(nothing_src, nothing_tgt)
    gradients_of_sum = torch.autograd.grad(logits.sum(), tuple(model.parameters()))

    assert logits.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients_of_sum)
