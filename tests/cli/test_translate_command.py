"""`allyouneed translate` from arguments to output."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tiny_translator import copying_search, tiny_translator

from allyouneed.checkpoint import save_model
from allyouneed.cli.live_input import windows_of_lines
from allyouneed.cli.translate import threads_from_environment, translate
from allyouneed.errors import ConfigError, DataError
from allyouneed.translator import Translation, Translator

COMMAND = [sys.executable, "-c", "from allyouneed.cli.main import main; main()", "translate"]


@pytest.fixture
def copying(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Translator:
    """The command runs where its output may go, and its translations are their sources."""
    translator = tiny_translator()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Translator, "load", lambda *_, **__: translator)
    monkeypatch.setattr("allyouneed.inference.plain_search.search", copying_search)
    return translator


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    made = tiny_translator()
    save_model(tmp_path / "model", made.model.state_dict(), made.tokenizer, made.manifest)
    return tmp_path / "model"


def run(*arguments: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(translate, arguments, input=stdin, catch_exceptions=False)


@pytest.mark.usefixtures("copying")
def test_arguments_are_translated_one_a_line() -> None:
    assert run("one two", "", "three").stdout == "one two\n\nthree\n"


@pytest.mark.usefixtures("copying")
def test_several_sentences_of_an_argument_are_translated_apart(
    copying: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    translate_texts = copying.translate

    def remember(texts: list[str], **options: Any) -> list[Translation]:
        asked.extend(texts)
        return translate_texts(texts, **options)

    monkeypatch.setattr(copying, "translate", remember)

    assert run("One two. Three four.\n\nFive.").stdout == "One two. Three four.\n\nFive.\n"
    assert asked == ["One two.", "Three four.", "Five."]


@pytest.mark.usefixtures("copying")
def test_standard_input_ends_lines_at_newlines_only() -> None:
    lines = "one\r\n\ntwo\u2028three\x0cfour\nfive"

    assert run(stdin=lines.encode()).stdout == "one\n\ntwo three four\nfive\n"


@pytest.mark.usefixtures("copying")
def test_files_are_translated_in_order_into_a_file() -> None:
    Path("a.txt").write_text("one\ntwo three four\n", encoding="utf-8")
    Path("b.txt").write_text("five\n", encoding="utf-8")

    result = run("--input", "a.txt", "--input", "b.txt", "--output", "out.txt")

    assert result.stdout == ""
    assert Path("out.txt").read_text(encoding="utf-8") == "one\ntwo three four\nfive\n"
    assert sorted(path.name for path in Path().iterdir()) == ["a.txt", "b.txt", "out.txt"]


@pytest.mark.usefixtures("copying")
def test_bad_utf8_is_refused_by_line_and_leaves_no_output() -> None:
    Path("bad.txt").write_bytes(b"one\nt\xffo\n")

    with pytest.raises(DataError, match=r"bad\.txt, line 2: byte 2"):
        run("--input", "bad.txt", "--output", "out.txt")
    with pytest.raises(DataError, match="standard input, line 3: byte 2"):
        run(stdin=b"one\n\nt\xffo\n")
    with pytest.raises(DataError, match=r"bad\.txt, line 2"):
        run("--document", "--input", "bad.txt")
    assert [path.name for path in Path().iterdir()] == ["bad.txt"]


@pytest.mark.usefixtures("copying")
def test_an_output_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(DataError, match=r"nowhere/out\.txt: cannot be written"):
        run("one", "--output", "nowhere/out.txt")


@pytest.mark.usefixtures("copying")
def test_a_device_is_written_to_and_not_replaced() -> None:
    run("one", "--output", os.devnull)

    assert not Path(os.devnull).is_file()


@pytest.mark.usefixtures("copying")
def test_json_holds_all_there_is_to_know() -> None:
    first, second = run("--json", "--alignments", stdin=b"one\ntwo\n").stdout.splitlines()

    found = json.loads(first)
    assert (found["source"], found["text"]) == ("one", "one")
    assert found["tokens"] == found["source_tokens"]
    assert found["score"] == found["hypotheses"][0]["score"] < 0
    assert len(found["alignment"]) == len(found["tokens"])
    assert json.loads(second)["text"] == "two"


@pytest.mark.usefixtures("copying")
def test_columns_stand_beside_the_text() -> None:
    lines = run("one", "two", "--n-best", "2", "--scores", "--alignments").stdout.splitlines()

    rows = [line.split("\t") for line in lines]
    assert [row[0] for row in rows] == ["1", "1", "2", "2"]
    assert all(float(row[1]) < 0 for row in rows)
    assert [row[2] for row in rows] == ["one", "one one", "two", "two two"]
    assert [len(row) for row in rows] == [4, 3, 4, 3]  # only the best is aligned


@pytest.mark.usefixtures("copying")
def test_a_document_comes_back_in_its_layout() -> None:
    text = "# One\r\n\r\n  * Two. Three!\n"

    assert run("--document", stdin=text.encode()).stdout_bytes.decode() == text


@pytest.mark.usefixtures("copying")
def test_a_prefix_begins_every_line() -> None:
    assert run("one", "two", "--prefix", "nine").stdout == "nine one\nnine two\n"


@pytest.mark.usefixtures("copying")
@pytest.mark.parametrize(
    "arguments",
    [
        ["--seed", "1"],
        ["--greedy", "--sample"],
        ["--beam-size", "2", "--greedy"],
        ["--document", "--json"],
        ["--document", "--prefix", "nine"],
        ["--input", "a.txt", "and a text"],
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments: list[str]) -> None:
    result = CliRunner().invoke(translate, arguments)

    assert result.exit_code == 2
    assert "Usage" in result.stderr


def test_search_options_reach_the_search(model_folder: Path) -> None:
    def said(*options: str) -> str:
        return run("one two", "six", "--model", str(model_folder), *options).stdout

    assert said("--sample", "--top-k", "1") == said("--greedy") == said("--beam-size", "1")
    assert said("--sample", "--seed", "1") == said("--sample", "--seed", "1") != said("--greedy")
    assert len(json.loads(said("--json", "--max-length", "2").splitlines()[0])["tokens"]) <= 2
    with pytest.raises(ConfigError, match="beam of 2"):
        said("--n-best", "3")


def test_a_window_is_handed_on_when_the_writer_pauses() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as writer:
        windows = windows_of_lines(stream, size=2)
        writer.write(b"one\ntw")
        assert next(windows) == ["one"]  # though the writer has not closed
        writer.write(b"o\nthree\nfour\nfive\n")
        assert [*next(windows), *next(windows)] == ["two", "three", "four", "five"]
        writer.close()
        assert list(windows) == []


def test_a_line_without_a_newline_at_the_end_counts() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        os.write(writing, b"one\ntwo")
        os.close(writing)
        assert [line for window in windows_of_lines(stream, 9) for line in window] == ["one", "two"]


@pytest.fixture
def waiting(model_folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command itself, which has answered one line and waits for the next."""
    arguments = ["--model", str(model_folder), "--output", str(model_folder.parent / "out.txt")]
    with subprocess.Popen(
        [*COMMAND, *arguments], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        unfinished = model_folder.parent / ".out.txt.unfinished"
        deadline = time.monotonic() + 60
        assert process.stdin is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        while process.poll() is None and not (unfinished.exists() and unfinished.stat().st_size):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield process
        process.kill()


def test_an_interrupt_says_how_far_it_came_and_leaves_nothing(
    waiting: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    waiting.send_signal(signal.SIGINT)

    _, stderr = waiting.communicate()

    assert waiting.returncode == 130
    assert b"stopped after 1 lines" in stderr
    assert b"Traceback" not in stderr
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_reader_who_leaves_is_no_error_to_report(model_folder: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "--engine", "plain", "--model", str(model_folder), "one", "two"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, stderr = process.communicate()

    assert stderr == b""


@pytest.mark.parametrize(
    ("value", "threads"), [("3", 3), ("4,2", 4), ("", None), ("many", None), ("0", None)]
)
def test_threads_are_those_of_openmp(
    value: str, threads: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", value)

    assert threads_from_environment() == threads


@pytest.mark.usefixtures("copying")
def test_an_output_that_would_not_be_compressed_is_not_named_so() -> None:
    result = run("one", "--output", "out.de.gz")

    assert result.exit_code == 2
    assert "name it without .gz" in result.output
    assert not Path("out.de.gz").exists()


def test_the_model_is_chosen_by_the_languages(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Input that was looked at to recognise its language is translated all the same."""
    other = model_folder.parent / "other"
    shutil.copytree(model_folder, other)
    config = json.loads((other / "config.json").read_text(encoding="utf-8"))
    config |= {"source_language": "de", "target_language": "en"}
    (other / "config.json").write_text(json.dumps(config), encoding="utf-8")
    monkeypatch.setattr("allyouneed.models.PRETRAINED", model_folder.parent)
    loaded: list[str] = []
    load = Translator.load

    def watched(folder: Path | str, *arguments: Any, **options: Any) -> Translator:
        loaded.append(Path(folder).name)
        return load(folder, *arguments, **options)

    monkeypatch.setattr(Translator, "load", watched)
    german = "Das ist ein Haus.\nUnd das ist ein Hund, der läuft.\n".encode()

    assert run("--to", "en", "ein Haus").exit_code == 0
    assert len(run(stdin=german).stdout.splitlines()) == 2
    assert len(run("--document", stdin=german).stdout.splitlines()) == 2
    assert loaded == ["other"] * 3

    refused = run("--model", str(other), "--to", "de", "ein Haus")
    assert refused.exit_code == 2
    assert "translates de to en" in refused.output


def test_why_the_plain_model_translates_is_said_once_and_not_among_translations(
    model_folder: Path,
) -> None:
    command = [*COMMAND, "--device", "cpu", "--model", str(model_folder), "one", "two"]

    shown = subprocess.run(command, check=True, capture_output=True, text=True)

    assert len(shown.stdout.splitlines()) == 2
    [why] = shown.stderr.splitlines()
    assert "widths (8, 16, 4, 4) are not all multiples of 16" in why


@pytest.mark.parametrize("engine", ["auto", "plain"])
@pytest.mark.parametrize("value", [math.nan, 1e38])
def test_weights_that_compute_nothing_are_refused(
    tmp_path: Path, engine: str, value: float
) -> None:
    made = Translator.load(engine="plain", device="cpu")
    weights = made.model.state_dict()
    weights["decoder.layers.0.feed_forward.w_2.weight"][:] = value
    save_model(tmp_path / "broken", weights, made.tokenizer, made.manifest)
    command = [*COMMAND, "--device", "cpu", "--engine", engine, "--model", "broken"]

    shown = subprocess.run(
        [*command, "A dog."], check=False, capture_output=True, text=True, cwd=tmp_path
    )

    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr.startswith("error: ")
    assert "take an earlier checkpoint" in shown.stderr
