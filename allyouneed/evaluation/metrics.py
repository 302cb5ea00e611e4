"""Corpus scores of detokenised text, as sacreBLEU defines them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from allyouneed.errors import DataError

METRICS = {"bleu": "sacreBLEU", "chrf": "chrF2", "ter": "TER"}  # key: the name people know


@dataclass(frozen=True)
class Score:
    """A number and the signature that says exactly how it was computed."""

    name: str
    value: float
    signature: str


Scores = dict[str, Score]


def score_corpus(
    hypotheses: Sequence[str], references: Sequence[str], metrics: Iterable[str] = METRICS
) -> Scores:
    """BLEU over 13a tokens, chrF2 and TER, or those of them that `metrics` names."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    check_aligned(hypotheses, references)
    kinds = {"bleu": BLEU, "chrf": CHRF, "ter": TER}
    scores = {}
    for key in metrics:
        metric = kinds[key]()
        value = metric.corpus_score(hypotheses, [references]).score
        scores[key] = Score(METRICS[key], value, str(metric.get_signature()))
    return scores


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """sacreBLEU's BLEU alone, for validation while training."""
    from sacrebleu.metrics.bleu import BLEU

    check_aligned(hypotheses, references)
    # An early model ends every line in " ."; `force` keeps that from being warned about each time.
    return BLEU(force=True).corpus_score(hypotheses, [references]).score


def check_aligned(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Every metric pairs line n with line n, so both sides need as many, and some."""
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses)} translations but {len(references)} references; "
            "line n of one must belong to line n of the other"
        )
    if not references:
        raise DataError("there is nothing to score: no translations and no references")
