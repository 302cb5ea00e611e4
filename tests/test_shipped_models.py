"""What is in the package translates, and is small."""

import functools

import pytest

from allyouneed.models import PRETRAINED, shipped_models
from allyouneed.translator import Translator

MEGABYTE = 1_000_000
SENTENCES = [
    ("en-de", "Two dogs are playing in the snow.", "Zwei Hunde spielen im Schnee."),
    ("en-de", "Where is the nearest train station?", "Wo ist der nächste Bahnhof?"),
    ("en-de", "I AM SO HAPPY TODAY!", "ICH BIN HEUTE SO GLÜCKLICH!"),
    ("de-en", "Das Haus ist sehr alt.", "The house is very old."),
    ("de-en", "Mein Bruder wohnt in Berlin.", "My brother lives in Berlin."),
]
load = functools.cache(functools.partial(Translator.load, device="cpu"))


@pytest.mark.parametrize(("model", "source", "target"), SENTENCES)
def test_plain_sentences_are_translated_as_a_person_would(
    model: str, source: str, target: str
) -> None:
    assert load(model).translate([source])[0].text == target


def test_the_right_translation_is_the_more_probable() -> None:
    source = "A boy throws a ball."
    right, wrong = load("en-de").score(
        [source] * 2, ["Ein Junge wirft einen Ball.", "Eine Frau kocht eine Suppe."]
    )

    assert right.log_probability > wrong.log_probability


def test_there_is_a_first_model_to_load_without_a_name() -> None:
    manifest = Translator.load(device="cpu").manifest

    assert (manifest.source_language, manifest.target_language) == ("en", "de")


def test_shipped_folders_are_small_and_described() -> None:
    sizes = {
        name: sum(path.stat().st_size for path in (PRETRAINED / name).iterdir())
        for name in shipped_models()
    }

    assert all(size < 22 * MEGABYTE for size in sizes.values())
    assert sum(sizes.values()) < 45 * MEGABYTE
    assert all((PRETRAINED / name / "README.md").exists() for name in sizes)
