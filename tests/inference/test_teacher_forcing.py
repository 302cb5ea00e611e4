import math

import numpy as np
import pytest
import torch
from tiny_models import random_transformer

from allyouneed.inference.batches import by_length
from allyouneed.inference.teacher_forcing import alignment_weights, details, token_log_probs
from allyouneed.inference.translations import alignment_of
from allyouneed.rows import one_sentence_a_row
from allyouneed.text.tokenizer import BEGIN, END

SOURCES = [[3, 4, 5], [5], [4, 4, 3, 5]]
TARGETS: list[tuple[int, ...]] = [(4,), (3, 3, 5), ()]


def test_log_probabilities_are_those_of_the_softmax_after_each_token() -> None:
    model = random_transformer()

    for source, target in zip(SOURCES, TARGETS, strict=True):
        logits = model(one_sentence_a_row([[*source, END]]), one_sentence_a_row([[BEGIN, *target]]))
        log_probs = logits[0].log_softmax(-1).tolist()
        expected = [log_probs[i][id_] for i, id_ in enumerate((*target, END))]
        [found] = token_log_probs(model, [source], [target])
        assert all(math.isclose(a, b, rel_tol=1e-4) for a, b in zip(found, expected, strict=True))


def test_pairs_beside_a_pair_change_nothing() -> None:
    model = random_transformer()
    alone = [
        token_log_probs(model, [source], [target])[0]
        for source, target in zip(SOURCES, TARGETS, strict=True)
    ]

    together = token_log_probs(model, SOURCES, TARGETS)

    assert list(map(len, together)) == [2, 4, 1]
    for row, expected in zip(together, alone, strict=True):
        torch.testing.assert_close(torch.tensor(row), torch.tensor(expected))


@pytest.mark.parametrize(("n_layers", "aligning"), [(1, 0), (2, 1), (3, 2), (4, 2), (6, 4)])
def test_alignment_follows_the_mean_attention_of_one_layer(n_layers: int, aligning: int) -> None:
    model = random_transformer(n_decoder_layers=n_layers)
    sources, targets = [[3, 4, 5, 5, 4, 3], [4, 5, 3]], [(4, 4, 3, 5, 3), (5, 3, 4)]

    for source, target, attention in zip(
        sources, targets, alignment_weights(model, sources, targets), strict=True
    ):
        src = one_sentence_a_row([[*source, END]])
        maps = model.attention_maps(src, one_sentence_a_row([[BEGIN, *target]]))
        weights = maps.memory[aligning].mean(1)[0, : len(target), : len(source)]
        best = weights.argmax(-1).tolist()
        assert alignment_of(attention) == [(source, target) for target, source in enumerate(best)]


def test_details_are_log_probabilities_and_attention_of_one_pass() -> None:
    model = random_transformer()

    found = details(model, SOURCES, TARGETS)

    assert [list(it.token_log_probabilities) for it in found] == token_log_probs(
        model, SOURCES, TARGETS
    )
    for it, expected in zip(found, alignment_weights(model, SOURCES, TARGETS), strict=True):
        np.testing.assert_array_equal(it.attention, expected)


def test_batches_hold_every_place_once_within_the_budget() -> None:
    lengths = [50, 16, 90, 300, 20, 90, 16, 40]

    batches = by_length(lengths, budget=200)

    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[place] for place in batch) <= 200
    assert batches[:2] == [[3], [2, 5]]


def test_short_sentences_do_not_come_in_crowds() -> None:
    assert max(map(len, by_length([1] * 100, budget=160))) == 10
