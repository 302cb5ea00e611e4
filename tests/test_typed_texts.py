"""The shipped general models on text as people type it.

What a model is known to get wrong stands in a file beside the cases, with what is wrong about it.
A case that begins to pass must leave that list, and one that begins to fail is a defect. A new
model has its list written by `benchmarks/typed_cases.py NAME --failures FILE`; read it then.
"""

import functools
from pathlib import Path

import pytest
import yaml

from allyouneed.evaluation.typed_cases import Verdict, judge, load_cases
from allyouneed.translator import Translator

CASES = Path(__file__).parents[1] / "benchmarks" / "typed"
GENERAL = ("en-de", "de-en")


@functools.cache
def verdicts(model: str) -> dict[str, Verdict]:
    # The plain engine rounds nearly alike on all processors; eight bits may settle a tie otherwise.
    translator = Translator.load(model, "cpu", engine="plain")
    judged = judge(translator, load_cases(CASES / f"{model}.yaml"))
    return {verdict.case.name: verdict for verdict in judged}


def known_failures(model: str) -> dict[str, str]:
    path = CASES / f"{model}.failures.yaml"
    return yaml.safe_load(path.read_text(encoding="utf-8")) or {} if path.exists() else {}


@pytest.mark.parametrize(
    ("model", "name"),
    [(model, case.name) for model in GENERAL for case in load_cases(CASES / f"{model}.yaml")],
)
def test_what_must_survive_does(model: str, name: str) -> None:
    verdict, known = verdicts(model)[name], known_failures(model).get(name)

    said = f"{verdict.case.source!r} became {verdict.translation!r}; known: {known}"
    assert bool(verdict.faults) == (known is not None), said
    assert (known or "").startswith("; ".join(verdict.faults)), said


@pytest.mark.parametrize("model", GENERAL)
def test_known_failures_are_of_cases_that_are_there_and_say_what_is_wrong(model: str) -> None:
    known = known_failures(model)

    assert known.keys() <= verdicts(model).keys()
    assert all(known.values())
