"""The model against the paper's equations in NumPy."""

from dataclasses import replace

import numpy as np
import pytest
import reference
import torch
from tiny_world import CONFIG, SRC, SRC_SENTENCES, TGT, TGT_SENTENCES, random_model

from allyouneed.config import ModelConfig
from allyouneed.model import Transformer

CONFIGS = {
    "base": CONFIG,
    "d_k, d_v and d_model/h all differ": replace(CONFIG, d_k=3, d_v=5),
    "learned positions": replace(CONFIG, positions="learned", max_positions=8),
    "shallow decoder": replace(CONFIG, n_layers=3, n_decoder_layers=1),
}


def reference_passes(model: Transformer) -> list[reference.Pass]:
    weights = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}
    return [
        reference.transformer(weights, model.config.n_heads, src, tgt)
        for src, tgt in zip(SRC_SENTENCES, TGT_SENTENCES, strict=True)
    ]


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=str
)
@torch.no_grad()
def test_logits_are_those_of_the_equations(
    config: ModelConfig, dtype: torch.dtype, tolerance: float
) -> None:
    model = random_model(config, dtype)

    ours = model(SRC, TGT)

    assert ours.dtype == dtype
    for row, expected in zip(ours.numpy(), reference_passes(model), strict=True):
        np.testing.assert_allclose(
            row[: len(expected.logits)], expected.logits, rtol=0, atol=tolerance
        )


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_attention_maps_of_all_kinds_are_those_of_the_equations(config: ModelConfig) -> None:
    model = random_model(config, torch.float64)

    maps = model.attention_maps(SRC, TGT)

    depths = (config.n_layers, config.decoder_layers, config.decoder_layers)
    assert tuple(map(len, maps)) == depths
    for kind in ("encoder", "decoder", "memory"):
        for row, expected in enumerate(reference_passes(model)):
            for ours, weights in zip(getattr(maps, kind), getattr(expected, kind), strict=True):
                _, queries, keys = weights.shape
                of_sentence, of_padding = np.split(ours[row, :, :queries].numpy(), [keys], axis=-1)
                np.testing.assert_allclose(of_sentence, weights, rtol=0, atol=1e-12)
                assert not of_padding.any()
