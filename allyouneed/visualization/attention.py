"""Who attends to whom in a pair of sentences: the numbers behind every picture.

Shapes: L layers, H heads, T queries, S keys.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allyouneed.text.words import labels, spell, words

Weights = NDArray[np.float32]  # (L, H, T, S); each row sums to one

BEGIN, END = "<s>", "</s>"
KINDS = ("encoder", "decoder", "encoder-decoder")  # the three uses of section 3.2.3


def aligning_layer(n_layers: int) -> int:
    """Of so many decoder layers the one whose attention comes nearest to word alignment.

    In deep decoders it is the last but one (Garg et al., 2019), in shallow ones the last.
    """
    return n_layers - (2 if n_layers > 3 else 1)


@dataclass(frozen=True)
class AttentionMap:
    """One kind of attention, with a name for every row and column."""

    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: Weights
    causal: bool  # a query sees no later key

    @property
    def n_layers(self) -> int:
        return self.weights.shape[0]

    @property
    def n_heads(self) -> int:
        return self.weights.shape[1]


@dataclass(frozen=True)
class Attention:
    """Every weight of every head; shows itself in a notebook."""

    source_tokens: tuple[str, ...]  # pieces, without marks
    target_tokens: tuple[str, ...]
    encoder: Weights  # (L, H, S, S): source tokens and the end mark, to the same
    decoder: Weights  # (L, H, T, T): the begin mark and target tokens, to the same so far
    memory: Weights  # (L, H, T, S): target tokens and the end mark, while written, to the source

    @property
    def source(self) -> str:
        return spell(self.source_tokens)

    @property
    def target(self) -> str:
        return spell(self.target_tokens)

    def map(self, kind: str, *, whole_words: bool = False) -> AttentionMap:
        """One of `KINDS`, by subwords or by whole words.

        Attention to a word is the sum over its pieces; attention from it is the mean.
        """
        source = (*self.source_tokens, END)
        read, written = (BEGIN, *self.target_tokens), (*self.target_tokens, END)
        queries, keys, weights = {
            "encoder": (source, source, self.encoder),
            "decoder": (read, read, self.decoder),
            "encoder-decoder": (written, source, self.memory),
        }[kind]
        causal = kind == "decoder"
        if whole_words:
            return _by_words(queries, keys, weights, causal)
        return AttentionMap(tuple(labels(queries)), tuple(labels(keys)), weights, causal)

    def _repr_html_(self) -> str:
        from allyouneed.visualization.page import page

        # A frame keeps the page's style and script from the notebook's, and the other way round.
        return (
            f'<iframe srcdoc="{html.escape(page(self))}" title="Attention" '
            'style="width: 100%; height: 46rem; border: 0"></iframe>'
        )


def _by_words(
    queries: Sequence[str], keys: Sequence[str], weights: Weights, causal: bool
) -> AttentionMap:
    query_words, key_words = words(queries), words(keys)
    summed = np.add.reduceat(weights, [word.start for word in key_words], axis=3)
    totals = np.add.reduceat(summed, [word.start for word in query_words], axis=2)
    means = totals / np.array([len(word) for word in query_words])[:, None]
    return AttentionMap(
        tuple(spell(queries[word.start : word.stop]) for word in query_words),
        tuple(spell(keys[word.start : word.stop]) for word in key_words),
        means.astype(np.float32),
        causal,
    )
