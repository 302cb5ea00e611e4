"""sacreBLEU's metrics through our thin layer."""

from collections.abc import Callable

import pytest

from allyouneed.errors import DataError
from allyouneed.evaluation.metrics import METRICS, corpus_bleu, score_corpus

REFERENCES = ["Ein Mann fährt ein blaues Rad.", "Zwei Hunde spielen im tiefen Schnee."]
HYPOTHESES = ["Ein Mann fährt ein rotes Rad.", "Zwei Hunde laufen im tiefen Schnee."]


def test_a_perfect_translation_has_the_best_value_of_every_metric() -> None:
    scores = score_corpus(REFERENCES, REFERENCES)

    assert {key: score.value for key, score in scores.items()} == pytest.approx(
        {"bleu": 100, "chrf": 100, "ter": 0}
    )


def test_ter_is_the_share_of_words_to_edit() -> None:
    # Full stops belong to the last words, and case does not count: 2 edits of 12 words.
    assert score_corpus(HYPOTHESES, REFERENCES)["ter"].value == pytest.approx(100 * 2 / 12)


def test_every_signature_names_its_settings() -> None:
    scores = score_corpus(HYPOTHESES, REFERENCES)

    assert "case:mixed|eff:no|tok:13a|smooth:exp" in scores["bleu"].signature
    assert "nc:6|nw:0" in scores["chrf"].signature
    assert "tok:tercom" in scores["ter"].signature


def test_only_the_metrics_asked_for_are_computed() -> None:
    assert list(score_corpus(HYPOTHESES, REFERENCES, ["ter"])) == ["ter"]
    assert list(score_corpus(HYPOTHESES, REFERENCES)) == list(METRICS)


def test_the_bleu_of_validation_is_the_bleu_of_evaluation() -> None:
    full = score_corpus(HYPOTHESES, REFERENCES)["bleu"].value

    assert corpus_bleu(HYPOTHESES, REFERENCES) == full
    assert 0 < full < 100


def test_validation_does_not_warn_about_an_early_models_full_stops(
    caplog: pytest.LogCaptureFixture,
) -> None:
    corpus_bleu(["Hunde ."] * 200, ["Hunde."] * 200)

    assert not caplog.records


@pytest.mark.parametrize("score", [score_corpus, corpus_bleu])
def test_sides_that_do_not_pair_are_refused(score: Callable[..., object]) -> None:
    with pytest.raises(DataError, match="1 translations but 2 references"):
        score(HYPOTHESES[:1], REFERENCES)
    with pytest.raises(DataError, match="nothing to score"):
        score([], [])
