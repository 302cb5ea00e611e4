"""What a translator hands back, in text."""

import math
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass
from typing import Any

from allyouneed.visualization.attention import Attention, Weights

Alignment = list[tuple[int, int]]  # (place in the source, place in the target)
Attend = Callable[[Sequence[str], Sequence[str]], Attention]  # source tokens, target tokens


def alignment_of(attention: Weights) -> Alignment:
    """For each target token, in order: (the source token it attended to most, its own place).

    Attention is (T, S + 1), and its last column, the end mark, is no token.
    """
    return [(place, token) for token, place in enumerate(attention[:, :-1].argmax(-1).tolist())]


@dataclass(frozen=True)
class Candidate:
    """One of the translations that were found."""

    text: str
    tokens: tuple[str, ...]
    score: float  # log P / ((5 + |Y|) / 6)^α; more is better
    log_probability: float
    finished: bool  # False: cut at the longest length allowed


@dataclass(frozen=True)
class Translation:
    """What became of one text."""

    source: str
    source_tokens: tuple[str, ...]
    hypotheses: tuple[Candidate, ...]  # the best first
    alignment: Alignment | None = None  # (place in `source_tokens`, place in `tokens`)
    attend: InitVar[Attend | None] = None  # no field: a copy of a translation copies no model

    def __post_init__(self, attend: Attend | None) -> None:
        object.__setattr__(self, "_attend", attend)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_attend"}

    def attention(self, rank: int = 0) -> Attention:
        """What every head attends to in the source and hypothesis `rank`, in one more pass."""
        attend: Attend | None = vars(self).get("_attend")
        if attend is None:
            raise RuntimeError(
                "this translation is apart from its translator; ask translator.attention(source)"
            )
        return attend(self.source_tokens, self.hypotheses[rank].tokens)

    @property
    def text(self) -> str:
        return self.hypotheses[0].text

    @property
    def score(self) -> float:
        return self.hypotheses[0].score

    @property
    def tokens(self) -> tuple[str, ...]:
        return self.hypotheses[0].tokens


@dataclass(frozen=True)
class Score:
    """How probable the model finds a given translation."""

    tokens: tuple[str, ...]  # the end mark comes last
    token_log_probabilities: tuple[float, ...]
    score: float  # as in Candidate

    @property
    def n_tokens(self) -> int:
        return len(self.tokens)

    @property
    def log_probability(self) -> float:
        return math.fsum(self.token_log_probabilities)

    @property
    def perplexity(self) -> float:
        return math.exp(-self.log_probability / self.n_tokens)


@dataclass(frozen=True)
class Details:
    """What the model thought of each token of a hypothesis."""

    token_log_probabilities: tuple[float, ...]  # the end mark's comes last, if it had a place
    attention: Weights  # (T, S + 1): from each token to the source's; the end mark's comes last
