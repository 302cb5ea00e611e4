"""The equations of section 3 in NumPy, float64, written from the paper and not from the code.

One sentence pair at a time, so there is no padding and no mask: a decoder position is shown only
the keys it may see. Weights carry the names of the model's state_dict; nn.Linear stores W^T.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Weights: TypeAlias = Mapping[str, Array]

LAYER_NORM_EPSILON = 1e-5  # the paper is silent


@dataclass
class Pass:
    """What one pass over a pair computes; a weight array is (H, queries, keys), one a layer."""

    logits: Array
    encoder: list[Array] = field(default_factory=list)
    decoder: list[Array] = field(default_factory=list)
    memory: list[Array] = field(default_factory=list)


def positional_encoding(position: int, d_model: int) -> Array:
    encoding = np.zeros(d_model)
    for i in range(d_model // 2):
        encoding[2 * i] = np.sin(position / 10_000 ** (2 * i / d_model))
        encoding[2 * i + 1] = np.cos(position / 10_000 ** (2 * i / d_model))
    return encoding


def softmax(scores: Array) -> Array:
    exponentials = np.exp(scores - scores.max())
    return np.asarray(exponentials / exponentials.sum())


def layer_norm(x: Array, gain: Array, bias: Array) -> Array:
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return np.asarray(gain * (x - mean) / np.sqrt(variance + LAYER_NORM_EPSILON) + bias)


def multi_head(
    w: Weights, n_heads: int, x: Array, memory: Array, causal: bool = False
) -> tuple[Array, Array]:
    """Section 3.2.2: the output, and the weights (H, queries, keys)."""
    weights = np.zeros((n_heads, len(x), len(memory)))
    heads = []
    for head in range(n_heads):
        w_q, w_k, w_v = (
            np.split(w[f"{name}.weight"], n_heads)[head].T for name in ("w_q", "w_k", "w_v")
        )
        q, k, v = x @ w_q, memory @ w_k, memory @ w_v
        for t in range(len(x)):
            seen = t + 1 if causal else len(memory)
            weights[head, t, :seen] = softmax(k[:seen] @ q[t] / np.sqrt(q.shape[1]))
        heads.append(weights[head] @ v)
    return np.concatenate(heads, axis=1) @ w["w_o.weight"].T, weights


def feed_forward(w: Weights, x: Array) -> Array:
    hidden = np.maximum(0, x @ w["w_1.weight"].T + w["w_1.bias"])
    return np.asarray(hidden @ w["w_2.weight"].T + w["w_2.bias"])


def add_norm(w: Weights, x: Array, sublayer_output: Array) -> Array:
    return layer_norm(x + sublayer_output, w["norm.weight"], w["norm.bias"])


def within(w: Weights, prefix: str) -> Weights:
    return {name.removeprefix(prefix): w[name] for name in w if name.startswith(prefix)}


def embed(w: Weights, ids: list[int]) -> Array:
    table = w["embedding.weight"]
    d_model = table.shape[1]
    rows = []
    for position, token in enumerate(ids):
        if "positions.weight" in w:
            place = w["positions.weight"][position]
        else:
            place = positional_encoding(position, d_model)
        rows.append(table[token] * np.sqrt(d_model) + place)
    return np.array(rows)


def transformer(w: Weights, n_heads: int, src: list[int], tgt: list[int]) -> Pass:
    """Figure 1 from bottom to top."""
    result = Pass(logits=np.zeros(0))

    x = embed(w, src)
    for number in range(n_layers(w, "encoder")):
        layer = within(w, f"encoder.layers.{number}.")
        heads, weights = multi_head(within(layer, "self_attention."), n_heads, x, x)
        result.encoder.append(weights)
        x = add_norm(within(layer, "self_attention_norm."), x, heads)
        out = feed_forward(within(layer, "feed_forward."), x)
        x = add_norm(within(layer, "feed_forward_norm."), x, out)
    memory = x

    x = embed(w, tgt)
    for number in range(n_layers(w, "decoder")):
        layer = within(w, f"decoder.layers.{number}.")
        heads, weights = multi_head(within(layer, "self_attention."), n_heads, x, x, causal=True)
        result.decoder.append(weights)
        x = add_norm(within(layer, "self_attention_norm."), x, heads)
        heads, weights = multi_head(within(layer, "memory_attention."), n_heads, x, memory)
        result.memory.append(weights)
        x = add_norm(within(layer, "memory_attention_norm."), x, heads)
        out = feed_forward(within(layer, "feed_forward."), x)
        x = add_norm(within(layer, "feed_forward_norm."), x, out)

    result.logits = x @ w["embedding.weight"].T
    return result


def n_layers(w: Weights, stack: str) -> int:
    return len({name.split(".")[2] for name in w if name.startswith(f"{stack}.layers.")})
