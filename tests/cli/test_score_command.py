"""`allyouneed score` from arguments to output."""

import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tiny_translator import tiny_translator

from allyouneed.cli.score import score
from allyouneed.errors import DataError
from allyouneed.translator import Score, Translator

SOURCES, TARGETS = ["one two", "three", "four"], ["five", "six seven eight", ""]


@pytest.fixture(autouse=True)
def expected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Score]:
    """Two files in the current folder, and what the model makes of them."""
    translator = tiny_translator()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Translator, "load", lambda *_, **__: translator)
    Path("src").write_text("".join(f"{line}\n" for line in SOURCES), encoding="utf-8")
    Path("tgt").write_text("".join(f"{line}\n" for line in TARGETS), encoding="utf-8")
    return translator.score(SOURCES, TARGETS)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(
        score, ["--source", "src", "--target", "tgt", *arguments], catch_exceptions=False
    )


def test_a_log_probability_a_line_and_a_summary_beside_them(expected: list[Score]) -> None:
    result = run()

    assert result.stdout.splitlines() == [f"{it.log_probability:.4f}" for it in expected]
    n_tokens = sum(it.n_tokens for it in expected)
    perplexity = math.exp(-sum(it.log_probability for it in expected) / n_tokens)
    assert f"3 pairs, {n_tokens} tokens" in result.stderr
    assert f"perplexity {perplexity:.3f}" in result.stderr


def test_tokens_stand_beside_the_sum(expected: list[Score]) -> None:
    for line, it in zip(run("--tokens").stdout.splitlines(), expected, strict=True):
        words = line.split("\t")[1].split(" ")
        assert tuple(words[::2]) == it.tokens
        assert words[1::2] == [f"{value:.4f}" for value in it.token_log_probabilities]


def test_json_holds_the_score_and_the_perplexity(expected: list[Score]) -> None:
    found = json.loads(run("--json").stdout.splitlines()[1])

    assert found["score"] == expected[1].score
    assert found["perplexity"] == expected[1].perplexity
    assert found["tokens"] == list(expected[1].tokens)


def test_files_of_unequal_length_are_refused() -> None:
    Path("tgt").write_text("one\n", encoding="utf-8")

    with pytest.raises(DataError, match="src has 3 lines but tgt has 1"):
        run()
