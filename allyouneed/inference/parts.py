"""Texts in parts that a model takes at once, and the translations of the parts joined again."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

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
    capitals: bool  # of the translation's text, not of its tokens
    hypotheses: list[Hypothesis] = field(default_factory=list)
    alignment: Alignment = field(default_factory=list)

    def n_texts(self, tokenizer: Tokenizer) -> int:
        """How many different ones the hypotheses spell."""
        return len({self.spelled(hypothesis, tokenizer) for hypothesis in self.hypotheses})

    def spelled(self, hypothesis: Hypothesis, tokenizer: Tokenizer) -> str:
        """Normalised, since pieces for bytes can spell line ends and control characters."""
        text = normalize(tokenizer.decode(hypothesis.ids))
        return text.upper() if self.capitals else text

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
) -> Translation:
    """What the parts of a text say of it together.

    The best of each part together are the best, and what the alignment is of, however many others
    are asked for and whatever their score as one text.
    """
    ranks = max((len(part.hypotheses) for part in parts), default=1)
    best, *others = (
        _candidate(parts, rank, tokenizer, strategy.length_penalty) for rank in range(ranks)
    )
    candidates = [best, *sorted(others, key=_rank, reverse=True)]
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


def _candidate(parts: Sequence[Part], rank: int, tokenizer: Tokenizer, alpha: float) -> Candidate:
    """One hypothesis of each part of a text together, scored as if they had been one.

    It is the one of that rank, or the last.
    """
    hypotheses = [part.hypotheses[min(rank, len(part.hypotheses) - 1)] for part in parts]
    ids = [id_ for hypothesis in hypotheses for id_ in hypothesis.ids]
    log_probability = math.fsum(hypothesis.log_probability for hypothesis in hypotheses)
    length = sum(hypothesis.length for hypothesis in hypotheses)
    return Candidate(
        " ".join(part.spelled(it, tokenizer) for part, it in zip(parts, hypotheses, strict=True)),
        tuple(tokenizer.pieces(ids)),
        log_probability / penalty(float(length), alpha),
        log_probability,
        all(hypothesis.finished for hypothesis in hypotheses),
    )


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
