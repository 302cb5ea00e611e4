import dataclasses

import pytest
from tiny_translator import tiny_translator

from allyouneed.serving.catalogue import Catalogue
from allyouneed.serving.refusals import Refusal
from allyouneed.translator import Translator

GERMAN = "Ein Mann fährt mit dem Fahrrad durch den Park."
ENGLISH = "A man is riding a bicycle through the park."


def translator(source: str, target: str) -> Translator:
    made = tiny_translator()
    made.manifest = dataclasses.replace(
        made.manifest, source_language=source, target_language=target
    )
    return made


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    pairs = {"to-de": ("en", "de"), "to-en": ("de", "en"), "to-fr": ("en", "fr"), "2": ("en", "de")}
    return Catalogue({name: translator(*pair) for name, pair in pairs.items()})


def test_languages_sources_and_targets(catalogue: Catalogue) -> None:
    assert catalogue.languages() == ["en", "de", "fr"]
    assert catalogue.targets("en") == ["de", "fr"]
    assert catalogue.targets("fr") == []
    assert catalogue.sources("de") == ["en"]
    assert catalogue.sources() == ["en", "de"]


@pytest.mark.parametrize("code", ["en", "EN", "en-US", "en_GB", "En-us"])
def test_regions_and_capitals_mean_the_loaded_language(catalogue: Catalogue, code: str) -> None:
    assert catalogue.resolve(code) == "en"


@pytest.mark.parametrize("code", ["", "eng", "xx", "auto", "-en", "e" * 10_000])
def test_other_languages_are_refused_in_few_words(catalogue: Catalogue, code: str) -> None:
    with pytest.raises(Refusal, match="not supported") as refusal:
        catalogue.resolve(code)

    assert refusal.value.status == 400
    assert len(refusal.value.message) < 200


@pytest.mark.parametrize(
    ("model", "source", "target", "text", "expected"),
    [
        (None, None, None, ENGLISH, "to-de"),
        ("2", None, None, ENGLISH, "2"),
        ("to-fr", "de", "en", ENGLISH, "to-fr"),
        (None, "en", "fr", ENGLISH, "to-fr"),
        (None, "de", None, ENGLISH, "to-en"),
        (None, None, "en", ENGLISH, "to-en"),
        (None, "auto", None, GERMAN, "to-en"),
        (None, "auto", None, ENGLISH, "to-de"),
        (None, "auto", "fr", GERMAN, "to-fr"),
    ],
)
def test_the_model_that_is_meant(
    catalogue: Catalogue,
    model: str | None,
    source: str | None,
    target: str | None,
    text: str,
    expected: str,
) -> None:
    assert catalogue.choose(text, model, source, target).name == expected


def test_what_was_recognised_is_told(catalogue: Catalogue) -> None:
    recognised = catalogue.choose(GERMAN, None, "auto", None).recognised

    assert recognised is not None
    assert recognised.language == "de"
    assert 90 < recognised.confidence <= 100
    assert catalogue.choose(GERMAN, None, "de", None).recognised is None


def test_pairs_and_names_that_are_not_there_are_refused(catalogue: Catalogue) -> None:
    with pytest.raises(Refusal, match=r"German \(de\) is not available .* French \(fr\)"):
        catalogue.between("fr", "de")
    with pytest.raises(Refusal, match="no model translates from de to fr"):
        catalogue.choose(GERMAN, None, "de", "fr")
    with pytest.raises(Refusal, match="no model is called x"):
        catalogue.choose(GERMAN, "x", None, None)
