import math

import numpy as np
import pytest
from tiny_translator import tiny_translator

from allyouneed.serving.answers import sentence_answer
from allyouneed.translator import Candidate, Details, Translation

PAIR = Translation(
    "one three.",
    ("▁one", "▁thr", "ee", "."),
    (Candidate("Eins drei.", ("▁Ein", "s", "▁drei", "."), -0.5, -1.0, True),),
)
# From each target token to "one", "thr", "ee", "." and the end mark.
ATTENTION = np.array(
    [
        [0.70, 0.10, 0.10, 0.02, 0.08],
        [0.50, 0.30, 0.10, 0.02, 0.08],
        [0.20, 0.30, 0.40, 0.02, 0.08],
        [0.00, 0.01, 0.01, 0.00, 0.98],
    ],
    dtype=np.float32,
)
DETAILS = Details((math.log(0.5), math.log(0.8), math.log(0.9), math.log(1.0), -0.1), ATTENTION)


def test_a_word_is_as_sure_as_all_its_pieces() -> None:
    [hypothesis] = sentence_answer(PAIR, [DETAILS])["hypotheses"]

    confidences = [(word["text"], word["confidence"]) for word in hypothesis["words"]]
    assert confidences == [("Eins", 0.4), ("drei", 0.9), (".", 1.0)]


def test_attention_to_a_word_is_summed_and_from_it_averaged() -> None:
    [hypothesis] = sentence_answer(PAIR, [DETAILS])["hypotheses"]

    one, three, point = (dict(word["attention"]) for word in hypothesis["words"])
    assert one == pytest.approx({0: 0.6, 1: 0.3})  # what is slight is left out
    assert three == pytest.approx({1: 0.7, 0: 0.2})
    assert point == pytest.approx({1: 0.02})  # but the most is told, however slight


def test_the_most_attended_comes_first() -> None:
    [hypothesis] = sentence_answer(PAIR, [DETAILS])["hypotheses"]

    assert [word["attention"][0][0] for word in hypothesis["words"]] == [0, 1, 1]


def test_tokens_have_their_own_probability_and_source() -> None:
    [hypothesis] = sentence_answer(PAIR, [DETAILS])["hypotheses"]

    assert [token["text"] for token in hypothesis["tokens"]] == ["▁Ein", "s", "▁drei", "."]
    assert [token["source"] for token in hypothesis["tokens"]] == [0, 0, 2, 1]
    assert hypothesis["tokens"][0]["log_probability"] == pytest.approx(math.log(0.5), abs=1e-4)


def test_without_details_there_are_texts_and_scores_only() -> None:
    assert sentence_answer(PAIR) == {
        "source": "one three.",
        "hypotheses": [
            {"text": "Eins drei.", "score": -0.5, "log_probability": -1.0, "finished": True}
        ],
    }


def test_a_model_tells_details_of_every_hypothesis() -> None:
    translator = tiny_translator()
    translations = translator.translate(["one two three", "four", "\u200b"], n_best=2)

    for translation, details in zip(translations, translator.details(translations), strict=True):
        answer = sentence_answer(translation, details)
        assert "".join(it["before"] + it["text"] for it in answer["words"]) == translation.source
        for hypothesis in answer["hypotheses"]:
            words = "".join(it["before"] + it["text"] for it in hypothesis["words"])
            assert words == hypothesis["text"]
