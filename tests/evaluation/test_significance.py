"""Paired bootstrap resampling."""

import pytest

from allyouneed.errors import DataError
from allyouneed.evaluation.metrics import score_corpus
from allyouneed.evaluation.significance import compare_systems

REFERENCES = [f"Der Hund Nummer {n} spielt heute im tiefen Schnee." for n in range(40)]
# Wrong in every fourth line, in every second, and in every fourth but others.
GOOD = [
    line.replace("spielt", "steht") if n % 4 == 0 else line for n, line in enumerate(REFERENCES)
]
BAD = [line.replace("spielt", "steht") if n % 2 == 0 else line for n, line in enumerate(REFERENCES)]
LIKE = [
    line.replace("spielt", "steht") if n % 4 == 1 else line for n, line in enumerate(REFERENCES)
]


def test_a_clear_difference_is_significant_and_an_even_match_is_not() -> None:
    for comparison in compare_systems(
        [("good", GOOD), ("bad", BAD), ("like", LIKE)], REFERENCES
    ).values():
        baseline, bad, like = comparison.results

        assert baseline.p_value is None
        assert bad.p_value is not None
        assert like.p_value is not None
        assert bad.p_value < 0.05 < like.p_value


def test_a_system_does_not_differ_from_itself() -> None:
    for comparison in compare_systems([("one", GOOD), ("same", GOOD)], REFERENCES).values():
        assert comparison.results[1].p_value == 1


def test_scores_are_those_of_the_whole_test_set_and_means_are_near() -> None:
    comparisons = compare_systems([("good", GOOD), ("bad", BAD)], REFERENCES)

    for key, comparison in comparisons.items():
        for lines, result in zip((GOOD, BAD), comparison.results, strict=True):
            whole = score_corpus(lines, REFERENCES)[key]
            assert (comparison.name, result.score) == (whole.name, whole.value)
            assert abs(result.mean - result.score) < result.interval


def test_the_seed_is_fixed_and_in_the_signature() -> None:
    systems = [("good", GOOD), ("bad", BAD)]
    first = compare_systems(systems, REFERENCES, n_resamples=50)

    assert compare_systems(systems, REFERENCES, n_resamples=50) == first
    assert "bs:50|seed:12345" in first["bleu"].signature


def test_systems_keep_their_names_and_order() -> None:
    (bleu, _) = compare_systems([("b", BAD), ("a", GOOD)], REFERENCES, n_resamples=10).values()

    assert [result.system for result in bleu.results] == ["b", "a"]


def test_a_system_with_missing_lines_is_refused() -> None:
    with pytest.raises(DataError, match="39 translations but 40 references"):
        compare_systems([("good", GOOD), ("short", BAD[1:])], REFERENCES)
