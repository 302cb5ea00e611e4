"""Which tokens come next: what `search` asks at every step.

Shapes: B sentences, K slots a sentence, V vocabulary.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from allyouneed.inference.slots import Slots
from allyouneed.text.tokenizer import PAD

if TYPE_CHECKING:
    from allyouneed.inference.strategies import Sampling

# (slots, log P of every next token (B, K, V), which sentences these are (B,)) -> what the slots
# hold next, as places (B, K) in K·V. All that can follow an ended hypothesis is PAD, at log P = 0.
Choose = Callable[[Slots, Tensor, Tensor], Tensor]


def best_of_sentence(slots: Slots, log_probs: Tensor, _sentences: Tensor) -> Tensor:
    totals = slots.log_prob.unsqueeze(-1) + log_probs
    totals[..., PAD].masked_fill_(slots.ended, math.inf)  # what has ended keeps a slot
    return totals.flatten(1).topk(slots.log_prob.size(1)).indices


def best_of_slot(_slots: Slots, log_probs: Tensor, _sentences: Tensor) -> Tensor:
    return _in_own_slot(log_probs.argmax(-1), log_probs)


class Draw:
    """Tokens by chance; each sentence has dice of its own."""

    def __init__(self, how: "Sampling", sources: Sequence[Sequence[int]]) -> None:
        self._how = how
        self._dice = [_dice(how.seed, source) for source in sources]

    def __call__(self, slots: Slots, log_probs: Tensor, sentences: Tensor) -> Tensor:
        n_slots = slots.log_prob.size(1)
        throws = [
            torch.rand(n_slots, generator=self._dice[sentence], dtype=torch.float64)
            for sentence in sentences.tolist()
        ]
        tokens = self._draw(log_probs, torch.stack(throws).to(log_probs.device))
        return _in_own_slot(tokens, log_probs)

    def _draw(self, log_probs: Tensor, throws: Tensor) -> Tensor:
        """log_probs (B, K, V), throws (B, K) in [0, 1) -> tokens (B, K)."""
        probs, tokens = (log_probs / self._how.temperature).softmax(-1).sort(descending=True)
        if self._how.top_k is not None:
            probs[..., self._how.top_k :] = 0
        if self._how.top_p is not None:
            mass_before = probs.cumsum(-1) - probs
            probs = probs.masked_fill(mass_before >= self._how.top_p, 0)
        mass = probs.cumsum(-1, dtype=torch.float64)
        ranks = (mass <= throws.unsqueeze(-1) * mass[..., -1:]).sum(-1, keepdim=True)
        return tokens.gather(-1, ranks).squeeze(-1)


def _dice(seed: int | None, source: Sequence[int]) -> torch.Generator:
    generator = torch.Generator()
    if seed is None:
        generator.seed()
    else:
        digest = hashlib.blake2b(repr((seed, *source)).encode(), digest_size=8).digest()
        generator.manual_seed(int.from_bytes(digest, "big", signed=True))
    return generator


def _in_own_slot(tokens: Tensor, log_probs: Tensor) -> Tensor:
    """Tokens (B, K), each after its own slot, as places in K·V."""
    _, n_slots, vocab_size = log_probs.shape
    return tokens + vocab_size * torch.arange(n_slots, device=tokens.device)
