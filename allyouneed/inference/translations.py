"""What a translator hands back, in text."""

import math
from dataclasses import dataclass

from allyouneed.inference.teacher_forcing import Alignment


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
    alignment: Alignment | None = None  # (place in `tokens`, place in `source_tokens`)

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
