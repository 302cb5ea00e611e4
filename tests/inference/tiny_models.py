"""Models small enough to enumerate all that they can say."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from allyouneed.config import ModelConfig
from allyouneed.inference import Hypothesis, penalty
from allyouneed.model import Transformer
from allyouneed.rows import Rows
from allyouneed.text.tokenizer import END, UNKNOWN

WORDS = range(UNKNOWN, 6)  # what the tiny vocabulary of six can say, besides ending


def random_transformer(
    seed: int = 0, vocab_size: int = 6, n_decoder_layers: int = 2
) -> Transformer:
    """Sharp enough that its choices differ, in float64 so that rounding decides nothing."""
    torch.manual_seed(seed)
    config = ModelConfig(
        vocab_size=vocab_size,
        n_layers=2,
        n_decoder_layers=n_decoder_layers,
        d_model=8,
        d_ff=16,
        n_heads=2,
        d_k=4,
        d_v=4,
    )
    model = Transformer(config).double().eval()
    with torch.no_grad():
        model.embedding.weight.mul_(2)
    return model


class _NoState(NamedTuple):
    def select(self, _hypotheses: Tensor, _sentences: Tensor | None = None) -> "_NoState":
        return self


class _Chain(nn.Module):
    """The logits of a token depend on the one before it alone, whatever the source."""

    max_length = None

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits, requires_grad=False)
        self.n_steps = 0

    def start(self, _src: Rows, beams: int = 1) -> _NoState:
        return _NoState()

    def step(self, ids: Tensor, state: _NoState) -> tuple[Tensor, _NoState]:
        self.n_steps += 1
        return self.logits[ids], state


def chain(logits: Tensor) -> Transformer:
    """A model whose logits after token i are row i of `logits` (V, V)."""
    return cast(Transformer, _Chain(logits))


def sentences_up_to(longest: int) -> Iterator[tuple[int, ...]]:
    """All that can be said in `longest` tokens with the end mark."""
    for length in range(longest):
        yield from itertools.product(WORDS, repeat=length)


def scored(ids: tuple[int, ...], log_probability: float, alpha: float) -> Hypothesis:
    return Hypothesis(ids, log_probability / penalty(len(ids) + 1.0, alpha), log_probability)


def chain_log_probability(logits: Tensor, ids: tuple[int, ...]) -> float:
    log_probs = logits.log_softmax(-1)
    steps = itertools.pairwise((1, *ids, END))
    return float(sum(log_probs[before, after] for before, after in steps))
