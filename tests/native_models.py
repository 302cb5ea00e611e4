"""Models in the shape that the native engine takes, and the engine for them."""

import dataclasses

import numpy as np
import pytest
import torch

from allyouneed.config import ModelConfig
from allyouneed.inference.compilation import NoLibrary, native_library
from allyouneed.inference.fast_engine import FastEngine
from allyouneed.model import Transformer
from allyouneed.text.tokenizer import UNKNOWN
from allyouneed.weights import Weights

# No two sizes alike, and a vocabulary that fills no panel, so that mistaking one for another shows.
CONFIG = ModelConfig(
    vocab_size=101, n_layers=2, n_decoder_layers=3, d_model=32, d_ff=80, n_heads=3, d_k=16, d_v=48
)
# Enough work in a batch that the engine shares it among its threads.
WORTH_SHARING = dataclasses.replace(CONFIG, vocab_size=2001)

needs_compiler = pytest.mark.skipif(
    isinstance(native_library(), NoLibrary), reason="no C++ compiler"
)


def random_model(config: ModelConfig = CONFIG) -> Transformer:
    """Sharp enough that its choices differ."""
    torch.manual_seed(1)
    model = Transformer(config).eval()
    with torch.no_grad():
        model.embedding.weight.mul_(3)
        for name, weight in model.named_parameters():
            if name.endswith("bias"):
                weight.normal_()
    return model


def weights_of(model: Transformer) -> Weights:
    return Weights({name: tensor.numpy() for name, tensor in model.state_dict().items()})


def engine_of(model: Transformer, *, eight_bits: bool = False, threads: int = 2) -> FastEngine:
    return FastEngine(model.config, weights_of(model), eight_bits=eight_bits, threads=threads)


def sources(n: int, longest: int = 40, vocab_size: int = CONFIG.vocab_size) -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [
        rng.integers(UNKNOWN, vocab_size, rng.integers(1, longest + 1)).tolist() for _ in range(n)
    ]
