"""Texts in parts that a model takes at once, and the translations of the parts joined again."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from allyouneed.inference.hypotheses import Hypothesis, penalty
from allyouneed.inference.strategies import BeamSearch, Strategy
from allyouneed.inference.translations import Alignment, Attend, Candidate, Translation
from allyouneed.text.normalize import normalize
from allyouneed.text.tokenizer import Tokenizer


@dataclass
class Part:
    """As much of text number `text` as the model takes at once, and what became of it."""

    text: int
    ids: list[int]
    prefix: list[int]
    hypotheses: list[Hypothesis] = field(default_factory=list)
    alignment: Alignment = field(default_factory=list)

    def n_texts(self, tokenizer: Tokenizer) -> int:
        """How many different ones the hypotheses spell."""
        return len({_text(hypothesis, tokenizer) for hypothesis in self.hypotheses})

    def add(self, others: Sequence[Hypothesis]) -> None:
        """What a wider beam found, but for better ones than the best, which stays the best.

        So the translation does not depend on how many others are asked for.
        """
        known = {hypothesis.ids for hypothesis in self.hypotheses}
        new = [
            it for it in others if it.ids not in known and _rank(it) <= _rank(self.hypotheses[0])
        ]
        self.hypotheses = sorted([*self.hypotheses, *new], key=_rank, reverse=True)


def joined(
    source: str,
    parts: Sequence[Part],
    tokenizer: Tokenizer,
    strategy: Strategy,
    n_best: int,
    alignments: bool,
    attend: Attend,
    *,
    capitals: bool,
) -> Translation:
    """What the parts of a text say of it together; `capitals` are for its text, not its tokens."""
    ranks = max((len(part.hypotheses) for part in parts), default=1)
    candidates = [
        _candidate(
            [part.hypotheses[min(rank, len(part.hypotheses) - 1)] for part in parts],
            tokenizer,
            strategy.length_penalty,
        )
        for rank in range(ranks)
    ]
    if capitals:
        candidates = [replace(it, text=it.text.upper()) for it in candidates]
    candidates.sort(key=_rank, reverse=True)
    if isinstance(strategy, BeamSearch):
        candidates = _different(candidates)
    source_ids = [id_ for part in parts for id_ in part.ids]
    return Translation(
        source,
        tuple(tokenizer.pieces(source_ids)),
        tuple(candidates[:n_best]),
        _joined_alignment(parts) if alignments else None,
        attend,
    )


def _candidate(hypotheses: Sequence[Hypothesis], tokenizer: Tokenizer, alpha: float) -> Candidate:
    """The parts of one text together, scored as if they had been one."""
    ids = [id_ for hypothesis in hypotheses for id_ in hypothesis.ids]
    log_probability = math.fsum(hypothesis.log_probability for hypothesis in hypotheses)
    length = sum(hypothesis.length for hypothesis in hypotheses)
    return Candidate(
        " ".join(_text(hypothesis, tokenizer) for hypothesis in hypotheses),
        tuple(tokenizer.pieces(ids)),
        log_probability / penalty(float(length), alpha),
        log_probability,
        all(hypothesis.finished for hypothesis in hypotheses),
    )


def _text(hypothesis: Hypothesis, tokenizer: Tokenizer) -> str:
    """Normalised, since pieces that stand for bytes can spell line ends and control characters."""
    return normalize(tokenizer.decode(hypothesis.ids))


def _rank(it: Hypothesis | Candidate) -> tuple[bool, float]:
    return it.finished, it.score


def _different(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The first of each text."""
    first_of: dict[str, Candidate] = {}
    for candidate in candidates:
        first_of.setdefault(candidate.text, candidate)
    return list(first_of.values())


def _joined_alignment(parts: Sequence[Part]) -> Alignment:
    """The alignments of parts as places in the whole text."""
    joined: Alignment = []
    n_source = 0
    for part in parts:
        n_target = len(joined)  # every target token is aligned
        joined += [(n_source + source, n_target + target) for source, target in part.alignment]
        n_source += len(part.ids)
    return joined
