"""`allyouneed attention` from arguments to files."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tiny_translator import copying_search, tiny_translator

from allyouneed.cli.attention import attention
from allyouneed.errors import ConfigError, DataError
from allyouneed.translator import Translator

SENTENCE = "one two, three"


@pytest.fixture(autouse=True)
def copying(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The command runs where its output may go, and translations are their sources."""
    translator = tiny_translator()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Translator, "load", lambda *_, **__: translator)
    monkeypatch.setattr("allyouneed.inference.plain_search.search", copying_search)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(attention, [SENTENCE, *arguments], catch_exceptions=False)


def files() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


def test_a_page_is_written_and_named() -> None:
    result = run()

    assert files() == ["attention.html"]
    assert "attention.html" in result.stderr
    assert f"{SENTENCE} → {SENTENCE}" in result.stderr
    assert Path("attention.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("arguments", "name", "beginning"),
    [
        (["--format", "svg"], "attention.svg", b"<svg"),
        (["--format", "png"], "attention.png", b"\x89PNG"),
        (["--output", "a.svg"], "a.svg", b"<svg"),
        (["--output", "a.PNG"], "a.PNG", b"\x89PNG"),
        (["--output", "a.htm"], "a.htm", b"<!DOCTYPE"),
        (["--output", "a.txt"], "a.txt", b"Encoder-decoder attention"),
        (["--output", "a.picture", "--format", "svg"], "a.picture", b"<svg"),
    ],
)
def test_the_format_comes_from_its_option_or_the_name(
    arguments: list[str], name: str, beginning: bytes
) -> None:
    run(*arguments)

    assert files() == [name]
    assert Path(name).read_bytes().startswith(beginning)


def test_text_goes_to_the_terminal() -> None:
    result = run("--format", "text", "--kind", "encoder", "--layer", "2", "--heads", "2")

    assert result.stdout.startswith("Encoder attention, layer 2, head 2\n")
    assert "█" in result.stdout
    assert files() == []


def test_a_given_translation_is_looked_at() -> None:
    assert f"{SENTENCE} → nine ten" in run("--target", "nine ten").stderr


@pytest.mark.parametrize(("sentence", "model"), [("the man", "en-de"), ("der Mann", "de-en")])
def test_the_model_is_that_for_the_language_of_the_sentence(
    monkeypatch: pytest.MonkeyPatch, sentence: str, model: str
) -> None:
    loaded: list[Path] = []

    def load(folder: Path, _device: str) -> Translator:
        loaded.append(folder)
        return tiny_translator()

    monkeypatch.setattr(Translator, "load", load)
    CliRunner().invoke(attention, [sentence, "--format", "text"], catch_exceptions=False)

    assert [folder.name for folder in loaded] == [model]


def test_words_are_joined() -> None:
    subwords = run("--format", "text", "--target", "ninety").stdout
    words = run("--format", "text", "--target", "ninety", "--words").stdout

    assert "·" in subwords
    assert "·" not in words
    assert "ninety │" in words


@pytest.mark.parametrize("form", ["html", "svg", "png", "text"])
@pytest.mark.parametrize("view", [["--view", "grid"], ["--view", "heatmap"], ["--rank", "far"]])
def test_every_view_has_every_format(form: str, view: list[str]) -> None:
    result = run("--format", form, *view)

    assert result.exit_code == 0
    assert (files() == [f"attention.{form}"]) == (form != "text")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rank", "far", "--view", "grid"], "either --view or --rank"),
        (["--format", "text", "--view", "lines"], "no lines"),
        (["--format", "svg", "--view", "grid", "--heads", "1"], "all layers and heads"),
        (["--output", "a.pdf"], "say with --format"),
        (["--heads", "one"], "numbers with commas"),
        (["--kind", "sideways"], "sideways"),
    ],
)
def test_options_that_make_no_sense_are_refused(arguments: list[str], message: str) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert message in result.stderr
    assert files() == []


@pytest.mark.parametrize("form", ["html", "svg", "text"])
@pytest.mark.parametrize("arguments", [["--layer", "3"], ["--layer", "0"], ["--heads", "1,3"]])
def test_layers_and_heads_that_are_not_there_are_refused(form: str, arguments: list[str]) -> None:
    with pytest.raises(ConfigError, match="counted from 1"):
        run("--format", form, *arguments)
    assert files() == []


def test_a_file_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(DataError, match="cannot be written"):
        run("--output", "absent/a.html")
    assert files() == []
