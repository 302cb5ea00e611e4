"""Heads worth looking at, found by numbers: the remarks of figures 3 to 5 for any sentence.

Shapes: L layers, H heads, T queries, S keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allyouneed.visualization.attention import AttentionMap

# What each score says, as pictures caption it; 1 is the most, but for `far`, which counts tokens.
SCORES = {
    "sharp": "attends to few tokens: 1 − entropy / entropy of even attention",
    "far": "attends far away: mean distance in tokens",
    "previous": "attends to the token before: its share",
    "same": "attends to its own place: its share",
    "next": "attends to the token after: its share",
    "diagonal": "goes along with the sentence: correlation of the two places",
}


@dataclass(frozen=True)
class Head:
    """One head and its scores; layers and heads count from 0."""

    kind: str
    layer: int
    head: int
    scores: Mapping[str, float]


def rank_heads(maps: Mapping[str, AttentionMap], by: str) -> list[Head]:
    """The heads of all these kinds, the highest score first."""
    heads = [
        Head(kind, layer, head, {name: float(score[layer, head]) for name, score in scores.items()})
        for kind, scores in ((kind, measure(map_)) for kind, map_ in maps.items())
        for layer, head in np.ndindex(scores[by].shape)
    ]
    return sorted(heads, key=lambda head: -head.scores[by])


def measure(map_: AttentionMap) -> dict[str, NDArray[np.float64]]:
    """Each of `SCORES` for each head, (L, H).

    A query's own place among the keys of another sentence is where it would stand if the two
    sentences were equally long.
    """
    weights = map_.weights.astype(np.float64)
    n_queries, n_keys = weights.shape[2:]
    own = np.arange(n_queries) * (n_keys - 1) / max(1, n_queries - 1)
    places = np.arange(n_keys)
    return {
        "sharp": _sharpness(weights, map_.causal),
        "far": (weights * abs(own[:, None] - places)).sum(-1).mean(-1),
        "previous": _share(weights, own, -1),
        "same": _share(weights, own, 0),
        "next": _share(weights, own, 1),
        "diagonal": _correlation(weights),
    }


def _sharpness(weights: NDArray[np.float64], causal: bool) -> NDArray[np.float64]:
    n_queries, n_keys = weights.shape[2:]
    n_visible = np.arange(1, n_queries + 1) if causal else np.full(n_queries, n_keys)
    choice = n_visible > 1  # who sees one key only has none
    if not choice.any():
        return np.zeros(weights.shape[:2])
    logs = np.log(weights, where=weights > 0, out=np.zeros_like(weights))
    entropy = -(weights * logs).sum(-1)
    return (1 - entropy[..., choice] / np.log(n_visible[choice])).mean(-1)


def _share(
    weights: NDArray[np.float64], own: NDArray[np.float64], offset: int
) -> NDArray[np.float64]:
    """Mean weight at so many keys from the own place, over the queries that have such a key."""
    places = np.rint(own).astype(int) + offset
    there = np.flatnonzero((places >= 0) & (places < weights.shape[3]))
    if not there.size:
        return np.zeros(weights.shape[:2])
    return weights[:, :, there, places[there]].mean(-1)


def _correlation(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pearson's, of query place and key place, each pair counted by its weight.

    0 where all attend to the same key.
    """
    n_queries, n_keys = weights.shape[2:]
    queries = np.arange(n_queries) - (n_queries - 1) / 2
    keys = np.arange(n_keys)
    joint = weights / n_queries
    key_mean = (joint.sum(2) * keys).sum(-1)[..., None]
    key_variance = (joint.sum(2) * (keys - key_mean) ** 2).sum(-1)
    together = ((joint * queries[:, None]).sum(2) * (keys - key_mean)).sum(-1)
    scale = np.sqrt(key_variance * (queries**2).mean())
    return np.divide(together, scale, where=scale > 1e-9, out=np.zeros_like(scale))
