"""Multi-head attention (section 3.2).

Shapes: B batch, T queries, S keys, H heads; d_model, d_k, d_v as in the paper.
"""

import contextlib
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> Tensor:
    """softmax(Q K^T / sqrt(d_k)) V, equation 1, in one fused kernel.

    q (B, H, T, d_k), k (B, H, S, d_k), v (B, H, S, d_v) -> (B, H, T, d_v).
    `mask` broadcasts to (B, H, T, S); True may be attended to. A query needs at least one key.

    >>> q, k, v = torch.randn(2, 8, 5, 64), torch.randn(2, 8, 7, 64), torch.randn(2, 8, 7, 32)
    >>> scaled_dot_product_attention(q, k, v).shape
    torch.Size([2, 8, 5, 32])
    """
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def attention_weights(q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
    """The softmax of equation 1 on its own, which the fused kernel never stores: (B, H, T, S)."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-1)


class KeysValues(NamedTuple):
    """What attention reads; a decoder keeps it from step to step."""

    k: Tensor  # (B, H, S, d_k)
    v: Tensor  # (B, H, S, d_v)

    def extended(self, new: "KeysValues") -> "KeysValues":
        return KeysValues(torch.cat((self.k, new.k), dim=2), torch.cat((self.v, new.v), dim=2))

    def select(self, rows: Tensor) -> "KeysValues":
        return KeysValues(self.k.index_select(0, rows), self.v.index_select(0, rows))


class MultiHeadAttention(nn.Module):
    """Equation 1 in H heads, each with projections of its own: figure 2.

    The caller picks among the three uses of section 3.2.3 by what is read and by the mask:

    >>> heads = MultiHeadAttention(d_model=512, n_heads=8, d_k=64, d_v=64)
    >>> x = torch.randn(2, 7, 512)
    >>> heads(x, heads.read(x)).shape
    torch.Size([2, 7, 512])
    """

    def __init__(self, d_model: int, n_heads: int, d_k: int, d_v: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.w_q = nn.Linear(d_model, n_heads * d_k, bias=False)
        self.w_k = nn.Linear(d_model, n_heads * d_k, bias=False)
        self.w_v = nn.Linear(d_model, n_heads * d_v, bias=False)
        self.w_o = nn.Linear(n_heads * d_v, d_model, bias=False)

    def read(self, memory: Tensor) -> KeysValues:
        """Project what will be attended to: memory (B, S, d_model)."""
        return KeysValues(self._heads(self.w_k(memory)), self._heads(self.w_v(memory)))

    def forward(self, x: Tensor, kv: KeysValues, mask: Tensor | None = None) -> Tensor:
        """x (B, T, d_model) -> (B, T, d_model); `mask` broadcasts to (B, H, T, S)."""
        heads = scaled_dot_product_attention(self._heads(self.w_q(x)), kv.k, kv.v, mask)
        return self.w_o(heads.transpose(1, 2).flatten(2))

    def weights(self, x: Tensor, kv: KeysValues, mask: Tensor | None = None) -> Tensor:
        """How much each query of `forward` with the same arguments attends to each key."""
        return attention_weights(self._heads(self.w_q(x)), kv.k, mask)

    def _heads(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, self.n_heads, width // self.n_heads).transpose(1, 2)


@contextlib.contextmanager
def watching(
    modules: Iterable[MultiHeadAttention],
) -> Iterator[dict[nn.Module, Tensor]]:
    """What these heads attend to while they compute, recomputed by the formula: (B, H, T, S)."""
    weights: dict[nn.Module, Tensor] = {}

    def keep(heads: nn.Module, inputs: tuple[Tensor, KeysValues, Tensor], _: Tensor) -> None:
        assert isinstance(heads, MultiHeadAttention)
        weights[heads] = heads.weights(*inputs)

    hooks = [module.register_forward_hook(keep) for module in modules]
    try:
        yield weights
    finally:
        for hook in hooks:
            hook.remove()
