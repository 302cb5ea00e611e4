"""Attention of nobody in particular, for tests of pictures."""

import numpy as np

from allyouneed.visualization.attention import Attention, Weights

SOURCE = ("▁A", "▁fire", "man", "▁<b>", ".")
TARGET = ("▁Ein", "▁Feuer", "wehr", "mann")


def random_weights(
    n_queries: int, n_keys: int, *, causal: bool = False, layers: int = 2, heads: int = 3
) -> Weights:
    scores = np.random.default_rng(0).normal(0, 2, (layers, heads, n_queries, n_keys))
    weights = np.exp(scores)
    if causal:
        weights *= np.tri(n_queries, n_keys)
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def small_attention(
    source: tuple[str, ...] = SOURCE, target: tuple[str, ...] = TARGET, heads: int = 3
) -> Attention:
    n_source, n_target = len(source) + 1, len(target) + 1
    return Attention(
        source,
        target,
        random_weights(n_source, n_source, layers=3, heads=heads),  # deeper than the decoder
        random_weights(n_target, n_target, causal=True, heads=heads),
        random_weights(n_target, n_source, heads=heads),
    )
