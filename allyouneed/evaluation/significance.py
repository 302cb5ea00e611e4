"""Is one system better than another, or was it luck? Paired bootstrap resampling (Koehn 2004)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from allyouneed.evaluation.metrics import METRICS, check_aligned

System = tuple[str, Sequence[str]]  # a name and its translations


@dataclass(frozen=True)
class SystemResult:
    """One system under one metric, over resamples of the test set."""

    system: str
    score: float  # on the whole test set
    mean: float  # over the resamples
    interval: float  # half the width of what holds the middle 95 % of the resamples
    p_value: float | None  # of the difference to the baseline; the baseline itself has none


@dataclass(frozen=True)
class Comparison:
    """The systems under one metric; the first is the baseline."""

    name: str
    signature: str  # holds the seed and the number of resamples
    results: tuple[SystemResult, ...]


COMPARED = ("bleu", "chrf")


def compare_systems(
    systems: Sequence[System],
    references: Sequence[str],
    n_resamples: int = 1000,
    metrics: Sequence[str] = COMPARED,
) -> dict[str, Comparison]:
    """Test every further system against the first, under sacreBLEU's BLEU, chrF2 or both."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.significance import PairedTest

    for _, hypotheses in systems:
        check_aligned(hypotheses, references)
    scorers = {"bleu": BLEU(force=True), "chrf": CHRF()}
    chosen = {key: scorers[key] for key in metrics}
    test = PairedTest(list(systems), chosen, [references], test_type="bs", n_samples=n_resamples)
    signatures, columns = test()
    return {
        # sacreBLEU renames the metrics by their settings, but keeps their order.
        key: Comparison(METRICS[key], str(signature), _results(columns["System"], columns[column]))
        for key, (column, signature) in zip(chosen, signatures.items(), strict=True)
    }


def _results(names: Sequence[Any], results: Sequence[Any]) -> tuple[SystemResult, ...]:
    baseline = results[0]
    return tuple(
        SystemResult(
            name,
            result.score,
            float(result.mean),
            float(result.ci),
            # sacreBLEU counts strictly larger differences, so it would call none significant.
            1.0 if result is not baseline and result.score == baseline.score else result.p_value,
        )
        for name, result in zip(names, results, strict=True)
    )
