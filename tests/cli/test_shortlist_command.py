"""`allyouneed shortlist`: learned from a text or its prepared ids, kept in the model folder."""

import dataclasses
import errno
import os
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from toy_world import WORDS

from allyouneed.checkpoint import Manifest, load_manifest, save_model
from allyouneed.cli.average import average
from allyouneed.cli.quantize import quantize
from allyouneed.cli.shortlist import shortlist
from allyouneed.cli.translate import translate
from allyouneed.config import CorpusConfig, RunConfig
from allyouneed.data.prepare import prepare
from allyouneed.errors import CheckpointError, ConfigError, DataError
from allyouneed.manifest import SHORTLIST, load_shortlist
from allyouneed.model import Transformer
from allyouneed.text.tokenizer import Tokenizer


@pytest.fixture
def data(toy_run: RunConfig, tmp_path: Path) -> Path:
    in_ways = dataclasses.replace(toy_run.data, segmentations=3)
    prepare(dataclasses.replace(toy_run, data=in_ways), tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def model(toy_run: RunConfig, data: Path, tmp_path: Path) -> Path:
    """One that knows nothing yet, with the vocabulary of the toy text."""
    tokenizer = Tokenizer.load(data / "tokenizer.model")
    manifest = Manifest(
        source_language="en", target_language="de", max_source_tokens=30, model=toy_run.model
    )
    save_model(tmp_path / "model", Transformer(toy_run.model).state_dict(), tokenizer, manifest)
    return tmp_path / "model"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(shortlist, [str(it) for it in arguments], catch_exceptions=False)


def files(text: CorpusConfig) -> list[str]:
    return ["--source", str(text.source), "--target", str(text.target)]


def listed(model: Path, text: str) -> set[int]:
    found = load_shortlist(model, load_manifest(model))
    assert found is not None
    return {*found.choices(Tokenizer.load(model / "tokenizer.model").encode(text), []).tolist()}


def test_words_are_given_what_they_become(model: Path, toy_text: CorpusConfig) -> None:
    shown = run(model, *files(toy_text), "--frequent", 0).stderr

    tokenizer = Tokenizer.load(model / "tokenizer.model")
    for word in WORDS:
        assert {*tokenizer.encode(word.upper())} <= listed(model, word)
    assert "pieces always" in shown
    assert load_manifest(model).shortlist is False


@pytest.mark.parametrize(
    ("number", "mend"),
    [
        (errno.EACCES, "Permission denied; copy the model folder to a place of your own"),
        (errno.EROFS, "Read-only file system; copy the model folder to a place of your own"),
        (errno.ENOSPC, "No space left on device; make room there"),
    ],
)
def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_learned(
    model: Path, toy_text: CorpusConfig, monkeypatch: pytest.MonkeyPatch, number: int, mend: str
) -> None:
    def refuses(**_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuses)
    monkeypatch.setattr(
        "allyouneed.data.lexicon.learn_shortlist", lambda *_: pytest.fail("it was learned")
    )

    with pytest.raises(CheckpointError, match=f"cannot be written: {mend}"):
        run(model, *files(toy_text))


def test_a_folder_that_becomes_full_is_left_as_it_was(
    model: Path, toy_text: CorpusConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("allyouneed.shortlist.Shortlist.save", refuses)

    with pytest.raises(CheckpointError, match="No space left on device; make room there"):
        run(model, *files(toy_text))
    assert not (model / SHORTLIST).exists()
    assert load_manifest(model).shortlist is None


def test_prepared_ids_give_the_list_that_their_text_gives(
    model: Path, data: Path, toy_text: CorpusConfig
) -> None:
    run(model, *files(toy_text))
    of_text = (model / SHORTLIST).read_bytes()
    run(model, "--prepared", data, "--by-default")

    assert (model / SHORTLIST).read_bytes() == of_text
    assert load_manifest(model).shortlist is True


def test_it_goes_along_into_other_folders(model: Path, toy_text: CorpusConfig) -> None:
    run(model, *files(toy_text), "--by-default")
    small, mean = model.with_name("small"), model.with_name("mean")

    CliRunner().invoke(quantize, [str(model), "--output", str(small)], catch_exceptions=False)
    CliRunner().invoke(average, [str(model), "--output", str(mean)], catch_exceptions=False)

    for folder in (small, mean):
        assert (folder / SHORTLIST).read_bytes() == (model / SHORTLIST).read_bytes()
        assert load_manifest(folder).shortlist is True


def test_translate_takes_or_leaves_it(model: Path, toy_text: CorpusConfig) -> None:
    def tokens(*options: str) -> str:
        command = ["--model", str(model), "--device", "cpu", "--json", *options, "ein"]
        return CliRunner().invoke(translate, command, catch_exceptions=False).stdout

    run(model, *files(toy_text), "--frequent", 0, "--best", 1)

    assert tokens() == tokens("--no-shortlist") != tokens("--shortlist")


def test_another_vocabulary_is_refused(model: Path, toy_run: RunConfig, tmp_path: Path) -> None:
    smaller = dataclasses.replace(toy_run, model=dataclasses.replace(toy_run.model, vocab_size=350))
    prepare(smaller, tmp_path / "other")

    with pytest.raises(DataError, match="another tokenizer"):
        run(model, "--prepared", tmp_path / "other")

    assert not (model / SHORTLIST).exists()


def test_bad_input_changes_nothing(model: Path, toy_text: CorpusConfig, tmp_path: Path) -> None:
    before = (model / "config.json").read_bytes()
    (tmp_path / "short").write_text("one line\n", encoding="utf-8")

    with pytest.raises(CheckpointError, match="not a model folder"):
        run(tmp_path / "nowhere", *files(toy_text))
    with pytest.raises(DataError, match="has 200 lines but"):
        run(model, "--source", str(toy_text.source), "--target", tmp_path / "short")
    assert run(model).exit_code == run(model, "--source", "x").exit_code == 2
    assert run(model, *files(toy_text), "--prepared", tmp_path).exit_code == 2

    assert (model / "config.json").read_bytes() == before
    assert not (model / SHORTLIST).exists()


def test_shipped_models_are_not_changed(toy_text: CorpusConfig) -> None:
    with pytest.raises(ConfigError, match="en-de belongs to the package; copy it first"):
        run("en-de", *files(toy_text))


def test_few_pairs_are_warned_of(model: Path, toy_text: CorpusConfig) -> None:
    assert "200 pairs are few to learn from" in run(model, *files(toy_text)).stderr
