"""What the documentation shows is run."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import allyouneed.model

GUIDE = Path(__file__).parents[2] / "docs" / "model.md"
FILES = ["attention", "embedding", "feed_forward", "transformer"]


@pytest.mark.parametrize("file", FILES)
def test_the_examples_in_docstrings_are_true(file: str) -> None:
    results = doctest.testmod(importlib.import_module(f"allyouneed.model.{file}"))

    assert results.attempted > 0
    assert results.failed == 0


def test_the_snippets_of_the_guide_run_in_order() -> None:
    snippets = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}

    for snippet in snippets:
        exec(compile(snippet, str(GUIDE), "exec"), names)

    assert set(allyouneed.model.__all__) <= names.keys()
