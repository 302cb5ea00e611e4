"""`allyouneed evaluate` from arguments to output."""

import gzip
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from allyouneed.cli.evaluate import evaluate
from allyouneed.config import DecodingConfig
from allyouneed.errors import ConfigError, DataError, MissingExtraError
from allyouneed.inference.strategies import BeamSearch

REFERENCE = ["Ein Mann fährt ein blaues Rad.", "Zwei Hunde spielen im tiefen Schnee."]
WORSE = ["Ein Mann fährt ein rotes Rad.", "Zwei Hunde spielen im tiefen Schnee."]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder holds ref.de, two files of translations and their source."""
    monkeypatch.chdir(tmp_path)
    for name, lines in (("ref.de", REFERENCE), ("same.de", REFERENCE), ("worse.de", WORSE)):
        Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    Path("src.en").write_text("one\ntwo\n", encoding="utf-8")


def run(*arguments: str) -> Result:
    """What the user's mistakes raise is for `main` to show; here it comes through."""
    return CliRunner().invoke(
        evaluate, ["--reference", "ref.de", *arguments], catch_exceptions=False
    )


def run_json(*arguments: str) -> Any:
    result = run("--json", *arguments)
    assert result.exit_code == 0
    return json.loads(result.stdout)


def test_the_default_shows_every_score_with_its_signature() -> None:
    output = run("same.de").output

    for name, value in (("sacreBLEU", 100), ("chrF2", 100), ("TER", 0), ("paper BLEU", 100)):
        rows = [line for line in output.split("\n") if line.strip().startswith(name)]
        assert len(rows) == 2
        assert rows[0].endswith(f"{value}.00  ")
        assert rows[1].startswith(f"{name}: nrefs:1|")
    assert "bootstrap" not in output


def test_json_is_the_whole_of_the_output() -> None:
    report = run_json("worse.de")

    assert report["reference"] == "ref.de"
    assert list(report["systems"]) == ["worse.de"]
    assert list(report["systems"]["worse.de"]) == ["bleu", "chrf", "ter", "paper"]
    assert 0 < report["systems"]["worse.de"]["bleu"]["value"] < 100
    assert report["comparisons"] == {}


def test_further_files_are_compared_with_the_first() -> None:
    report = run_json("same.de", "worse.de")

    assert list(report["comparisons"]) == ["bleu", "chrf"]
    first, second = report["comparisons"]["bleu"]["results"]
    assert (first["system"], first["p_value"]) == ("same.de", None)
    assert second["system"] == "worse.de"
    assert 0 < second["p_value"] <= 1
    assert "paired bootstrap" in run("same.de", "worse.de").output
    assert list(run_json("same.de", "worse.de", "--metrics", "chrf")["comparisons"]) == ["chrf"]


def test_options_of_a_model_are_not_ignored_without_one() -> None:
    assert run("same.de", "--beam-size", "2").exit_code == 2


def test_only_the_chosen_metrics_are_shown() -> None:
    report = run_json("worse.de", "--metrics", "chrf,ter")

    assert list(report["systems"]["worse.de"]) == ["chrf", "ter"]


def test_german_compounds_are_split_but_no_other_languages() -> None:
    for arguments, form in (
        ((), "case:mixed|eff:no|punct:replaced|tok:moses-de"),
        (("--language", "fr"), "tok:moses-fr"),
        (("--lowercase",), "case:lc"),
    ):
        signature = run_json("worse.de", *arguments)["systems"]["worse.de"]["paper"]["signature"]
        assert form in signature
        assert ("compounds:split" in signature) == (arguments == ())


def test_a_reference_without_a_language_in_its_name_needs_one() -> None:
    Path("ref.de").rename("ref.txt")
    for arguments, refused in (((), False), (("--metrics", "paper"), True)):
        command = ["--reference", "ref.txt", "same.de", *arguments]
        result = CliRunner().invoke(evaluate, command)
        assert isinstance(result.exception, ConfigError) == refused
        if not refused:
            assert "give --language" in result.output


def test_a_compressed_reference_still_names_its_language() -> None:
    Path("ref.de.gz").write_bytes(gzip.compress(Path("ref.de").read_bytes()))
    result = CliRunner().invoke(evaluate, ["--reference", "ref.de.gz", "same.de"])

    assert "tok:moses-de" in result.output


def test_without_sacremoses_the_rest_is_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)

    assert list(run_json("same.de")["systems"]["same.de"]) == ["bleu", "chrf", "ter"]
    assert "pip install sacremoses" in run("same.de").output
    with pytest.raises(MissingExtraError):
        run("same.de", "--metrics", "paper")


def test_names_that_look_like_markup_are_shown_as_they_are() -> None:
    Path("same.de").rename("[bold].de")

    assert "[bold].de" in run("[bold].de", "--metrics", "bleu").output


def test_unusable_files_are_named() -> None:
    Path("short.de").write_text("eins\n", encoding="utf-8")
    Path("latin.de").write_bytes("eins\nfür\n".encode("latin-1"))
    for name, problem in (
        ("short.de", "short.de has 1 lines but ref.de has 2"),
        ("latin.de", "latin.de, line 2"),
        ("absent.de", "absent.de: cannot be read"),
    ):
        with pytest.raises(DataError, match=problem):
            run("same.de", name)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--model", "m"),
        ("--source", "src.en"),
        ("same.de", "--model", "m", "--source", "src.en"),
        ("same.de", "--metrics", "blue"),
    ],
)
def test_arguments_that_do_not_go_together_exit_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


class FakeTranslator:
    """Stands where the real one is imported from; knows two sentences."""

    target_language = "fr"
    manifest = types.SimpleNamespace(decoding=DecodingConfig(beam_size=7, length_penalty=0.7))
    calls: list[object]

    @classmethod
    def load(cls, model: str, device: str) -> "FakeTranslator":
        cls.calls = [(model, device)]
        return cls()

    def translate(
        self, texts: list[str], strategy: BeamSearch, progress: Callable[[int], None]
    ) -> list[types.SimpleNamespace]:
        self.calls.append(strategy)
        progress(len(texts))
        known = dict(zip(("one", "two"), REFERENCE, strict=True))
        return [types.SimpleNamespace(text=known[text]) for text in texts]


@pytest.fixture
def translator(monkeypatch: pytest.MonkeyPatch) -> type[FakeTranslator]:
    monkeypatch.setattr("allyouneed.translator.Translator", FakeTranslator)
    return FakeTranslator


TRANSLATE = ("--model", "m", "--source", "src.en")


def test_a_model_is_scored_by_what_it_translates(translator: type[FakeTranslator]) -> None:
    report = run_json(*TRANSLATE, "--device", "cpu")

    assert report["systems"]["m"]["bleu"]["value"] == pytest.approx(100)
    assert "tok:moses-fr" in report["systems"]["m"]["paper"]["signature"]  # the model's language
    assert translator.calls == [("m", "cpu"), BeamSearch(7, 0.7)]


def test_flags_change_how_the_model_searches(translator: type[FakeTranslator]) -> None:
    run(*TRANSLATE, "--beam-size", "3")
    assert translator.calls[1] == BeamSearch(3, 0.7)

    run(*TRANSLATE, "--length-penalty", "0")
    assert translator.calls[1] == BeamSearch(7, 0.0)


@pytest.mark.usefixtures("translator")
def test_translations_are_kept_where_asked() -> None:
    run(*TRANSLATE, "--output", "hyp.de")

    assert Path("hyp.de").read_bytes() == Path("ref.de").read_bytes()


def test_an_output_that_cannot_be_written_is_refused_before_translating(
    translator: type[FakeTranslator],
) -> None:
    translator.calls = []
    with pytest.raises(DataError, match="there is no folder"):
        run(*TRANSLATE, "--output", "absent/hyp.de")

    assert translator.calls == []
