"""What the native engine makes of given translations is what the plain model makes of them."""

import dataclasses

import numpy as np
import pytest
from native_models import (
    CONFIG,
    WORTH_SHARING,
    engine_of,
    needs_compiler,
    random_model,
    random_shortlist,
    sources,
)

from allyouneed.config import ModelConfig
from allyouneed.inference import BeamSearch, Limits
from allyouneed.inference.engine import Ids
from allyouneed.inference.fast_reading import fast_details
from allyouneed.inference.fast_search import fast_search
from allyouneed.inference.teacher_forcing import details
from allyouneed.inference.translations import Details

pytestmark = needs_compiler

ONE_LAYER = dataclasses.replace(CONFIG, n_decoder_layers=1)
LEARNED = dataclasses.replace(CONFIG, positions="learned", max_positions=50)


def pairs(vocab_size: int) -> tuple[list[Ids], list[Ids]]:
    """Sources with one translation or several, among them nothing at all."""
    texts = sources(30, 40, vocab_size)
    return [texts[number // 3] for number in range(30)], [*texts[1:], []]


def assert_alike(found: list[Details], expected: list[Details]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.token_log_probabilities == pytest.approx(
            theirs.token_log_probabilities, abs=1e-4
        )
        np.testing.assert_allclose(ours.attention, theirs.attention, atol=1e-5)


@pytest.mark.parametrize(
    "config",
    [CONFIG, WORTH_SHARING, ONE_LAYER, LEARNED],
    ids=["base", "shared by threads", "one layer", "learned positions"],
)
def test_it_is_what_the_plain_model_makes_of_them(config: ModelConfig) -> None:
    model = random_model(config)
    texts, translations = pairs(config.vocab_size)

    found = fast_details(engine_of(model), texts, translations)

    assert_alike(found, details(model, texts, translations))


def test_eight_bits_find_the_probability_of_their_own_search() -> None:
    engine = engine_of(random_model(), eight_bits=True)
    texts = sources(8)
    searched = dict(fast_search(engine, texts, BeamSearch(3), Limits(10), 3, [()] * 8, 500))
    hypotheses = [(text, it) for place, text in enumerate(texts) for it in searched[place]]

    found = fast_details(engine, [text for text, _ in hypotheses], [it.ids for _, it in hypotheses])

    for (_, hypothesis), its in zip(hypotheses, found, strict=True):
        n_tokens = hypothesis.length  # without the end mark's, where there was none
        assert sum(its.token_log_probabilities[:n_tokens]) == pytest.approx(
            hypothesis.log_probability, abs=1e-3
        )


def test_a_shortlist_limits_what_is_searched_and_not_what_is_read() -> None:
    model = random_model()
    engine = engine_of(model, shortlist=random_shortlist(CONFIG.vocab_size, n_always=9, most=3))
    texts, translations = pairs(CONFIG.vocab_size)
    list(fast_search(engine, texts[::-1], BeamSearch(3), Limits(10), 1, [()] * 30, 500))

    found = fast_details(engine, texts, translations)

    assert_alike(found, details(model, texts, translations))


def test_what_was_cut_at_the_last_position_has_no_end_mark() -> None:
    model = random_model(dataclasses.replace(LEARNED, max_positions=12))
    texts, cut = [[5, 6, 7], [8, 9]], [sources(1, 40)[0][:12], [10] * 14]

    found = fast_details(engine_of(model), texts, cut)

    assert_alike(found, details(model, texts, cut))
    assert {(len(it.token_log_probabilities), len(it.attention)) for it in found} == {(12, 12)}


def test_more_positions_than_the_model_knows_are_not_read() -> None:
    engine = engine_of(random_model(dataclasses.replace(LEARNED, max_positions=12)))

    with pytest.raises(AssertionError, match="knows 12 positions"):
        fast_details(engine, [[5] * 12], [[6]])


def test_a_search_after_it_is_as_before() -> None:
    engine, texts = engine_of(random_model()), sources(4)

    def searched() -> dict[int, object]:
        return dict(fast_search(engine, texts, BeamSearch(3), Limits(10), 2, [()] * 4, 500))

    before = searched()
    fast_details(engine, texts, texts)

    assert searched() == before
    assert fast_details(engine, [], []) == []
