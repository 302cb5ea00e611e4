"""Which shipped model a text asks for."""

import dataclasses
import json
from pathlib import Path

import pytest
from tiny_translator import tiny_translator

from allyouneed.checkpoint import save_model
from allyouneed.errors import CheckpointError
from allyouneed.models import choose_model, find_model, shipped_models


def not_asked() -> str:
    raise AssertionError("the text needs no look")


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Models named by their languages, and one for a narrower purpose."""
    made = tiny_translator()
    for name in ("en-de", "captions-en-de", "de-en", "en-fr"):
        source, target = name.split("-")[-2:]
        manifest = dataclasses.replace(
            made.manifest, source_language=source, target_language=target
        )
        save_model(tmp_path / name, made.model.state_dict(), made.tokenizer, manifest)
    monkeypatch.setattr("allyouneed.models.PRETRAINED", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("source", "target", "name"),
    [("en", "de", "en-de"), ("de", None, "de-en"), (None, "fr", "en-fr"), ("en", "fr", "en-fr")],
)
def test_languages_decide(shipped: Path, source: str, target: str, name: str) -> None:
    assert choose_model(source, target, not_asked) == shipped / name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("The weather will be fine tomorrow.", "en-de"),
        ("Morgen wird das Wetter schön.", "de-en"),
    ],
)
def test_the_language_of_the_text_is_recognised(shipped: Path, text: str, name: str) -> None:
    assert choose_model(None, None, lambda: text) == shipped / name


@pytest.mark.usefixtures("shipped")
def test_english_to_german_is_the_first_where_none_is_named() -> None:
    assert shipped_models() == ["en-de", "captions-en-de", "de-en", "en-fr"]
    assert find_model().name == "en-de"


@pytest.mark.usefixtures("shipped")
def test_what_nobody_translates_is_refused_and_what_is_there_is_named() -> None:
    with pytest.raises(CheckpointError, match=r"no shipped model translates fr to anything") as it:
        choose_model("fr", None, not_asked)

    assert all(name in str(it.value) for name in shipped_models())
    assert "en-fr (en to fr)" in str(it.value)


def test_a_damaged_model_is_named(shipped: Path) -> None:
    (shipped / "en-fr" / "config.json").write_text(json.dumps({"format": 99}), encoding="utf-8")

    with pytest.raises(CheckpointError, match="en-fr"):
        choose_model("en", "de", not_asked)
