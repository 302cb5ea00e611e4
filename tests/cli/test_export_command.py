"""`allyouneed export` from arguments to folders."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from allyouneed.cli.export import export
from allyouneed.errors import CheckpointError, ConfigError, DataError, MissingExtraError
from allyouneed.interop import CTranslate2
from allyouneed.models import PRETRAINED

SHIPPED = "en-de"


@pytest.fixture(autouse=True)
def _captions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ["A man is sleeping on a bench.", "", "Two girls play chess."]
    Path("captions").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def run(*arguments: str, model: str = SHIPPED) -> Result:
    return CliRunner().invoke(export, [model, *arguments], catch_exceptions=False)


@pytest.mark.parametrize("program", ["huggingface", "ctranslate2"])
def test_the_check_counts_lines_for_both_searches(program: str) -> None:
    result = run("--to", program, "--output", "made", "--check", "captions")

    assert result.stdout.splitlines() == [
        "greedy: 2 of 2 lines have the same tokens",
        "beam 4 without length penalty: 2 of 2 lines have the same tokens",
    ]
    assert f"made: {SHIPPED} for {program}" in result.stderr
    assert (Path("made") / "config.json").exists()


def test_without_a_beam_search_there_greedy_search_is_checked_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CTranslate2, "has_beam_search", False)

    result = run("--to", "ctranslate2", "--output", "made", "--check", "captions")

    assert result.stdout == "greedy: 2 of 2 lines have the same tokens\n"


def test_lines_that_differ_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from allyouneed import interop

    def compare(*_: object) -> interop.Agreement:
        return interop.Agreement(tuple(range(30)), tuple(range(4, 16)))

    monkeypatch.setattr(interop, "compare", compare)

    result = run("--to", "ctranslate2", "--output", "made", "--check", "captions")

    assert result.stdout.splitlines()[0] == (
        "greedy: 18 of 30 lines have the same tokens; not line 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, …"
    )


def test_a_model_folder_is_taken_and_quantized() -> None:
    options = ("--to", "ctranslate2", "--output", "made", "--quantization", "int8")
    result = run(*options, model=str(PRETRAINED / SHIPPED))

    assert result.exit_code == 0
    assert result.stdout == ""
    assert (Path("made") / "model.bin").stat().st_size < 30e6


def test_a_folder_that_is_there_stays_as_it_is() -> None:
    Path("made").mkdir()

    with pytest.raises(ConfigError, match="made exists already"):
        run("--to", "huggingface", "--output", "made")

    assert not list(Path("made").iterdir())


def test_mistakes_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    to_made = ("--to", "huggingface", "--output", "made")
    monkeypatch.setitem(sys.modules, "transformers", None)

    assert "goes with --to ctranslate2" in run(*to_made, "--quantization", "int8").stderr
    with pytest.raises(DataError, match="nowhere"):
        run(*to_made, "--check", "nowhere")
    with pytest.raises(CheckpointError, match="no-model"):
        run(*to_made, model="no-model")
    with pytest.raises(MissingExtraError, match="pip install transformers"):
        run(*to_made, "--check", "captions")

    assert not Path("made").exists()


def test_writing_for_transformers_needs_no_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)

    assert run("--to", "huggingface", "--output", "made").exit_code == 0


@pytest.mark.parametrize(("program", "package"), [("ctranslate2",) * 2, ("onnx", "onnxscript")])
def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, program: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(MissingExtraError, match=rf"pip install {package} .*{program}"):
        run("--to", program, "--output", "made")

    assert not Path("made").exists()
