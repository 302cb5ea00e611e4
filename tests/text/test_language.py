import pytest

from allyouneed.text.language import language_name, recognise


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("A man is riding a bicycle through the park.", "en"),
        ("Ein Mann fährt mit dem Fahrrad durch den Park.", "de"),
        ("ZWEI HUNDE SPIELEN IM SCHNEE", "de"),
        ("Un homme fait du vélo dans le parc.", "fr"),
    ],
)
def test_whole_sentences_are_recognised(text: str, language: str) -> None:
    assert recognise(text, ["en", "de", "fr"])[0][0] == language


def test_only_candidates_are_named_and_their_probabilities_sum_to_one() -> None:
    found = recognise("Un homme fait du vélo dans le parc.", ["de", "en"])

    assert {language for language, _ in found} == {"de", "en"}
    assert sum(confidence for _, confidence in found) == pytest.approx(1)
    assert found[0][1] >= found[1][1]


@pytest.mark.parametrize("text", ["", "123", "\x00"])
def test_what_says_nothing_leaves_all_alike(text: str) -> None:
    assert recognise(text, ["en", "de"]) == [("de", 0.5), ("en", 0.5)]


def test_languages_that_are_not_known_are_possible_but_not_probable() -> None:
    assert recognise("Ein Hund", ["xx", "de"]) == [("de", 1.0), ("xx", 0.0)]
    assert recognise("Ein Hund", ["xx"]) == [("xx", 0.0)]


def test_codes_without_a_name_stand_for_themselves() -> None:
    assert language_name("de") == "German"
    assert language_name("xx") == "xx"
