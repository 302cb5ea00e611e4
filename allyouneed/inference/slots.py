"""Translations in the making, as `search` follows them.

Shapes: B sentences, K slots a sentence, T tokens so far with the begin mark, V vocabulary.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from allyouneed.inference.hypotheses import Hypothesis, penalty
from allyouneed.text.tokenizer import BEGIN, END, PAD


class Slots(NamedTuple):
    """The K hypotheses that each of B sentences is followed in.

    A slot is empty (log P is -∞), live, or ended; what has ended is continued by padding.
    """

    ids: Tensor  # (B, K, T)
    log_prob: Tensor  # (B, K)

    @classmethod
    def before_the_first_step(cls, n_sentences: int, log_prob: Tensor) -> "Slots":
        """`log_prob` (K,): 0 for a slot that lives from the start, -∞ for an empty one."""
        return cls(
            torch.full((n_sentences, len(log_prob), 1), BEGIN, device=log_prob.device),
            log_prob.expand(n_sentences, -1),
        )

    @property
    def last(self) -> Tensor:
        return self.ids[..., -1]

    @property
    def n_tokens(self) -> int:
        return self.ids.size(-1) - 1

    @property
    def ended(self) -> Tensor:
        return self.log_prob.isfinite() & ((self.last == END) | (self.last == PAD))

    @property
    def live(self) -> Tensor:
        return self.log_prob.isfinite() & ~self.ended

    def scores(self, alpha: float) -> Tensor:
        lengths = (self.ids != PAD).sum(-1) - 1
        return self.log_prob / penalty(lengths, alpha)

    def extended(self, picks: Tensor, log_probs: Tensor) -> tuple["Slots", Tensor]:
        """One more token each: `picks` (B, K) point into the K·V of `log_probs` (B, K, V).

        Also gives the slot (B, K) that each new hypothesis continues.
        """
        vocab_size = log_probs.size(-1)
        parents, tokens = picks // vocab_size, picks % vocab_size
        earlier = self.ids.gather(1, parents.unsqueeze(-1).expand_as(self.ids))
        gained = log_probs.flatten(1).gather(1, picks)
        slots = Slots(
            torch.cat((earlier, tokens.unsqueeze(-1)), dim=-1),
            self.log_prob.gather(1, parents) + gained,
        )
        return slots, parents

    def select(self, sentences: Tensor) -> "Slots":
        return Slots(*(tensor.index_select(0, sentences) for tensor in self))

    def hypotheses(self, alpha: float) -> list[list[Hypothesis]]:
        """What the slots of each sentence hold: the finished before the cut, then by score."""
        columns = self.ids.tolist(), self.log_prob.tolist(), self.scores(alpha).tolist()
        return [_best_first(*sentence) for sentence in zip(*columns, strict=True)]


def _best_first(
    ids: list[list[int]], log_probs: list[float], scores: list[float]
) -> list[Hypothesis]:
    slots = zip(ids, log_probs, scores, strict=True)
    filled = [_hypothesis(*slot) for slot in slots if slot[1] > -math.inf]
    return sorted(filled, key=lambda it: (it.finished, it.score), reverse=True)


def _hypothesis(ids: list[int], log_probability: float, score: float) -> Hypothesis:
    finished = END in ids
    end = ids.index(END) if finished else len(ids)
    return Hypothesis(tuple(ids[1:end]), score, log_probability, finished)
