"""What is in the package translates, and is small."""

from pathlib import Path

import pytest

from allyouneed.models import PRETRAINED, shipped_models
from allyouneed.translator import Translator

MEBIBYTE = 2**20


@pytest.fixture(scope="module")
def captions() -> Translator:
    return Translator.load("multi30k-en-de", device="cpu")


@pytest.mark.parametrize(
    ("english", "german"),
    [
        ("A man is riding a bicycle.", "Ein Mann fährt Fahrrad."),
        ("Two dogs are playing in the snow.", "Zwei Hunde spielen im Schnee."),
        ("A woman is reading a book.", "Eine Frau liest ein Buch."),
    ],
)
def test_plain_captions_are_translated_as_a_person_would(
    captions: Translator, english: str, german: str
) -> None:
    assert captions.translate([english])[0].text == german


def test_colours_and_numbers_survive(captions: Translator) -> None:
    [translation] = captions.translate(["Three girls in red shirts play on a green field."])

    for word in ("Drei Mädchen", "roten", "grünen"):
        assert word in translation.text


def test_the_right_translation_is_the_more_probable(captions: Translator) -> None:
    source = "A boy throws a ball."
    right, wrong = captions.score(
        [source] * 2, ["Ein Junge wirft einen Ball.", "Eine Frau kocht eine Suppe."]
    )

    assert right.log_probability > wrong.log_probability


def test_there_is_a_first_model_to_load_without_a_name() -> None:
    assert Translator.load(device="cpu").manifest.target_language == "de"


def test_shipped_folders_are_small_and_described() -> None:
    for name in shipped_models():
        folder: Path = PRETRAINED / name
        assert sum(path.stat().st_size for path in folder.iterdir()) < 12 * MEBIBYTE
        assert (folder / "README.md").exists()
