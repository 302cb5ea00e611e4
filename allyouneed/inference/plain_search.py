"""Decoding (section 6.1): one loop for beams, greedy search and sampling.

The loop talks to the model through `start`, `step` and the state's `select` only.

Shapes: B sentences still open, K slots a sentence, V vocabulary, P forced tokens.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from allyouneed.inference.hypotheses import Hypothesis, penalty
from allyouneed.inference.limits import Limits
from allyouneed.inference.slots import Slots
from allyouneed.inference.strategies import Strategy
from allyouneed.model.transformer import DecoderState, Transformer
from allyouneed.rows import one_sentence_a_row
from allyouneed.shortlist import Shortlist
from allyouneed.text.tokenizer import BEGIN, END, PAD


class _Open(NamedTuple):
    """The sentences that are still in the batch."""

    number: Tensor  # (B,): their places in what was asked for
    longest: Tensor  # (B,)
    prefix: Tensor  # (B, P): the tokens to begin with, then PAD
    is_offered: Tensor  # (B, V): the tokens there are; (B, 0) where these are all

    def select(self, sentences: Tensor) -> "_Open":
        return _Open(*(tensor.index_select(0, sentences) for tensor in self))


@torch.inference_mode()
def search(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    strategy: Strategy,
    limits: Limits,
    n_best: int = 1,
    prefixes: Sequence[Sequence[int]] | None = None,
    shortlist: Shortlist | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` translations of each source, the best first; all ids without marks.

    `prefixes` are what the translations must begin with. With a shortlist, a sentence's pieces are
    all that there are, to choose from and to share the probability among. Fewer than `n_best` come
    back only where there are no more within the limits.
    """
    if not sources:
        return []
    device = next(model.parameters()).device
    first_slots = torch.tensor(strategy.first_slots(n_best), device=device)
    slots = Slots.before_the_first_step(len(sources), first_slots)
    prefixes = prefixes or [()] * len(sources)
    open_ = _open(model, sources, prefixes, limits, shortlist, device)
    src = one_sentence_a_row([[*source, END] for source in sources], PAD).to(device)
    state = model.start(src, beams=len(first_slots))
    choose = strategy.begin(sources)
    found: list[list[Hypothesis]] = [[] for _ in sources]

    while len(open_.number):
        logits, state = model.step(slots.last.flatten(), state)
        log_probs = _next_log_probs(logits, slots, open_, limits)
        picks = choose(slots, log_probs, open_.number)
        slots, parents = slots.extended(picks, log_probs)

        done = _settled(slots, open_.longest, strategy.length_penalty, n_best)
        done |= slots.n_tokens >= open_.longest
        ready, remaining = done.nonzero().squeeze(1), (~done).nonzero().squeeze(1)
        if len(ready):
            numbers = open_.number[ready].tolist()
            hypotheses = slots.select(ready).hypotheses(strategy.length_penalty)
            for number, best_first in zip(numbers, hypotheses, strict=True):
                found[number] = best_first[:n_best]
            slots, open_ = slots.select(remaining), open_.select(remaining)
        state = _follow(state, parents, remaining)
    return found


def _open(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    prefixes: Sequence[Sequence[int]],
    limits: Limits,
    shortlist: Shortlist | None,
    device: torch.device,
) -> _Open:
    longest = [
        max(limits.longest(len(source)), len(prefix) + 1)
        for source, prefix in zip(sources, prefixes, strict=True)
    ]
    if model.max_length is not None:
        longest = [min(length, model.max_length) for length in longest]
    return _Open(
        torch.arange(len(sources), device=device),
        torch.tensor(longest, device=device),
        one_sentence_a_row(prefixes, PAD).ids.to(device),
        _offered(shortlist, sources, prefixes).to(device),
    )


def _offered(
    shortlist: Shortlist | None,
    sources: Sequence[Sequence[int]],
    prefixes: Sequence[Sequence[int]],
) -> Tensor:
    if shortlist is None:
        return torch.empty(len(sources), 0, dtype=torch.bool)
    is_offered = torch.zeros(len(sources), len(shortlist.counts), dtype=torch.bool)
    is_offered[:, shortlist.always] = True
    for row, source, prefix in zip(is_offered, sources, prefixes, strict=True):
        row[shortlist.choices(source, prefix)] = True
    return is_offered


def _next_log_probs(logits: Tensor, slots: Slots, open_: _Open, limits: Limits) -> Tensor:
    """(B, K, V): log P of each next token, -∞ for what must not come next."""
    logits = logits.float().view(*slots.log_prob.shape, -1)
    if open_.is_offered.size(1):
        logits.masked_fill_(~open_.is_offered.unsqueeze(1), -math.inf)
    log_probs = logits.log_softmax(-1)
    log_probs[..., [PAD, BEGIN]] = -math.inf
    if slots.n_tokens < limits.min_length:
        log_probs[..., END] = -math.inf
    if slots.n_tokens < open_.prefix.size(1):
        forced = open_.prefix[:, slots.n_tokens, None]  # (B, 1)
        other = torch.arange(log_probs.size(-1), device=forced.device) != forced
        log_probs.masked_fill_((other & (forced != PAD)).unsqueeze(1), -math.inf)
    log_probs.masked_fill_(slots.ended.unsqueeze(-1), -math.inf)
    log_probs[..., PAD].masked_fill_(slots.ended, 0)
    return log_probs


def _settled(slots: Slots, longest: Tensor, alpha: float, n_best: int) -> Tensor:
    """(B,): whether no live slot can come before the `n_best` best that have ended."""
    ended = slots.scores(alpha).masked_fill(~slots.ended, -math.inf)
    live = slots.log_prob.masked_fill(~slots.live, -math.inf)
    return ended.topk(n_best).values[:, -1] >= _best_to_come(live.amax(1), longest, alpha)


def _best_to_come(log_prob: Tensor, longest: Tensor, alpha: float) -> Tensor:
    """log P can only fall, and is divided by the most at the greatest length."""
    return log_prob / penalty(longest, alpha)


def _follow(state: DecoderState, parents: Tensor, remaining: Tensor) -> DecoderState:
    """The state of the new hypotheses of the remaining sentences."""
    n_sentences, n_slots = parents.shape
    rows = (parents[remaining] + n_slots * remaining.unsqueeze(1)).flatten()
    if len(remaining) < n_sentences:
        return state.select(rows, remaining)
    if torch.equal(rows, torch.arange(len(rows), device=rows.device)):
        return state  # as in greedy search: nothing moves, so nothing is copied
    return state.select(rows)
