"""Each score is 1, or most, for the head it is named after."""

import numpy as np
import pytest
from numpy.typing import NDArray
from small_attention import small_attention

from allyouneed.visualization.attention import KINDS, AttentionMap
from allyouneed.visualization.heads import SCORES, measure, rank_heads

N = 6
PATTERNS: dict[str, NDArray[np.float64]] = {
    "previous": np.eye(N)[[0, *range(N - 1)]],
    "same": np.eye(N),
    "next": np.eye(N)[[*range(1, N), N - 1]],
    "first": np.eye(N)[[0] * N],
    "even": np.full((N, N), 1 / N),
    "backwards": np.eye(N)[::-1],
}


def map_of(*heads: NDArray[np.float64], causal: bool = False) -> AttentionMap:
    """One layer of these heads."""
    weights = np.stack(heads)[None].astype(np.float32)
    queries, keys = (tuple(map(str, range(size))) for size in weights.shape[2:])
    return AttentionMap(queries, keys, weights, causal)


def scores(name: str) -> dict[str, float]:
    return {score: float(it[0, 0]) for score, it in measure(map_of(PATTERNS[name])).items()}


@pytest.mark.parametrize("name", ["previous", "same", "next"])
def test_a_positional_head_has_the_whole_share_of_its_place(name: str) -> None:
    found = scores(name)

    assert found[name] == pytest.approx(1)
    assert all(found[other] < 0.5 for other in {"previous", "same", "next"} - {name})


def test_one_key_is_sharp_and_all_keys_alike_are_not() -> None:
    assert scores("same")["sharp"] == pytest.approx(1)
    assert scores("even")["sharp"] == pytest.approx(0, abs=1e-6)


def test_even_attention_to_all_that_is_visible_is_not_sharp() -> None:
    even = np.tri(N) / np.tri(N).sum(1, keepdims=True)

    assert measure(map_of(even, causal=True))["sharp"][0, 0] == pytest.approx(0, abs=1e-6)
    assert measure(map_of(even))["sharp"][0, 0] > 0.1


def test_distance_counts_tokens() -> None:
    assert scores("same")["far"] == 0
    assert scores("first")["far"] == pytest.approx(np.arange(N).mean())


def test_diagonal_is_a_correlation() -> None:
    assert scores("same")["diagonal"] == pytest.approx(1)
    assert scores("backwards")["diagonal"] == pytest.approx(-1)
    assert scores("first")["diagonal"] == 0
    assert scores("even")["diagonal"] == pytest.approx(0, abs=1e-6)


def test_places_of_sentences_of_other_lengths_are_scaled() -> None:
    found = measure(map_of(np.eye(7)[::2]))  # four queries at keys 0, 2, 4 and 6

    assert found["same"][0, 0] == pytest.approx(1)
    assert found["far"][0, 0] == pytest.approx(0)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1)])
def test_the_shortest_sentences_have_scores(shape: tuple[int, int]) -> None:
    found = measure(map_of(np.full(shape, 1 / shape[1])))

    assert all(np.isfinite(score).all() for score in found.values())


@pytest.mark.parametrize("by", SCORES)
def test_a_ranking_holds_every_head_once_and_the_most_first(by: str) -> None:
    attention = small_attention()
    ranked = rank_heads({kind: attention.map(kind) for kind in KINDS}, by)

    assert (
        len({(head.kind, head.layer, head.head) for head in ranked})
        == len(ranked)
        == (3 + 2 + 2) * 3
    )
    values = [head.scores[by] for head in ranked]
    assert values == sorted(values, reverse=True)
    assert set(ranked[0].scores) == set(SCORES)
