"""Which tokens come next: small objects that `search` asks at every step.

Shapes: B sentences, K slots a sentence, V vocabulary.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from allyouneed.errors import ConfigError
from allyouneed.inference.hypotheses import Slots
from allyouneed.text.tokenizer import PAD

# (slots, log P of every next token (B, K, V), which sentences these are (B,)) -> what the slots
# hold next, as places (B, K) in K·V. All that can follow an ended hypothesis is PAD, at log P = 0.
Choose = Callable[[Slots, Tensor, Tensor], Tensor]


class Strategy(Protocol):
    """How to search; `search` does the rest."""

    @property
    def length_penalty(self) -> float: ...

    def first_slots(self, n_best: int) -> list[float]:
        """The K slots of a sentence: 0 for one that lives from the start, -∞ for an empty one."""

    def begin(self, sources: Sequence[Sequence[int]]) -> Choose:
        """Make ready to choose for these sentences."""


@dataclass(frozen=True)
class BeamSearch:
    """Section 6.1: keep the `size` best; what has ended keeps its place among them."""

    size: int = 4
    length_penalty: float = 0.6

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(f"a beam of {self.size} holds nothing; 1 or more works")
        _check_length_penalty(self.length_penalty)

    def first_slots(self, n_best: int) -> list[float]:
        if n_best > self.size:
            raise ConfigError(
                f"a beam of {self.size} cannot give the {n_best} best; make it {n_best} or more"
            )
        return [0.0] + [-math.inf] * (self.size - 1)

    def begin(self, _sources: Sequence[Sequence[int]]) -> Choose:
        return _best_of_sentence


@dataclass(frozen=True)
class Greedy:
    """Always the most probable token."""

    length_penalty: float = 0.6  # of the score only

    def __post_init__(self) -> None:
        _check_length_penalty(self.length_penalty)

    def first_slots(self, n_best: int) -> list[float]:
        if n_best > 1:
            raise ConfigError(f"greedy search finds 1 translation, not {n_best}; use a beam")
        return [0.0]

    def begin(self, _sources: Sequence[Sequence[int]]) -> Choose:
        return _best_of_slot


@dataclass(frozen=True)
class Sampling:
    """Draw each token: from the `top_k` most probable, or the fewest whose mass is `top_p`.

    With a seed, a sentence's samples depend on nothing but the sentence and the seed.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    length_penalty: float = 0.6  # of the score only

    def __post_init__(self) -> None:
        _check_length_penalty(self.length_penalty)
        if not 0 < self.temperature < math.inf:
            raise ConfigError(f"temperature is {self.temperature}; it must be more than 0")
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError(f"top_k is {self.top_k}; it must be 1 or more")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p is {self.top_p}; it must be more than 0, at most 1")

    def first_slots(self, n_best: int) -> list[float]:
        return [0.0] * n_best

    def begin(self, sources: Sequence[Sequence[int]]) -> Choose:
        dice = [self._dice(source) for source in sources]

        def choose(slots: Slots, log_probs: Tensor, sentences: Tensor) -> Tensor:
            n_slots = slots.log_prob.size(1)
            throws = [
                torch.rand(n_slots, generator=dice[sentence], dtype=torch.float64)
                for sentence in sentences.tolist()
            ]
            tokens = self._draw(log_probs, torch.stack(throws).to(log_probs.device))
            return _in_own_slot(tokens, log_probs)

        return choose

    def _dice(self, source: Sequence[int]) -> torch.Generator:
        generator = torch.Generator()
        if self.seed is None:
            generator.seed()
        else:
            digest = hashlib.blake2b(repr((self.seed, *source)).encode(), digest_size=8).digest()
            generator.manual_seed(int.from_bytes(digest, "big", signed=True))
        return generator

    def _draw(self, log_probs: Tensor, throws: Tensor) -> Tensor:
        """log_probs (B, K, V), throws (B, K) in [0, 1) -> tokens (B, K)."""
        probs, tokens = (log_probs / self.temperature).softmax(-1).sort(descending=True)
        if self.top_k is not None:
            probs[..., self.top_k :] = 0
        if self.top_p is not None:
            mass_before = probs.cumsum(-1) - probs
            probs = probs.masked_fill(mass_before >= self.top_p, 0)
        mass = probs.cumsum(-1, dtype=torch.float64)
        ranks = (mass <= throws.unsqueeze(-1) * mass[..., -1:]).sum(-1, keepdim=True)
        return tokens.gather(-1, ranks).squeeze(-1)


def _best_of_sentence(slots: Slots, log_probs: Tensor, _sentences: Tensor) -> Tensor:
    totals = slots.log_prob.unsqueeze(-1) + log_probs
    totals[..., PAD].masked_fill_(slots.ended, math.inf)  # what has ended keeps a slot
    return totals.flatten(1).topk(slots.log_prob.size(1)).indices


def _best_of_slot(_slots: Slots, log_probs: Tensor, _sentences: Tensor) -> Tensor:
    return _in_own_slot(log_probs.argmax(-1), log_probs)


def _in_own_slot(tokens: Tensor, log_probs: Tensor) -> Tensor:
    """Tokens (B, K), each after its own slot, as places in K·V."""
    _, n_slots, vocab_size = log_probs.shape
    return tokens + vocab_size * torch.arange(n_slots, device=tokens.device)


def _check_length_penalty(alpha: float) -> None:
    if not 0 <= alpha < math.inf:
        raise ConfigError(f"length_penalty is {alpha}; it must be 0 or more")
