"""Equation 1 for rows so narrow that all scores of a head fit into one tile.

Queries, keys and values are read where the stacked projections left them, and masks are made
from the numbers of the sentences: nothing is copied, transposed or stored in between.

Shapes: B rows of W tokens, N = B·W, H heads of d_k (values: d_v).
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from allyouneed.rows import Rows, visible, visible_so_far

WIDEST = 128  # row whose keys are taken at once
QUERIES = 64  # taken at once
WARPS = 4
LOG2_E = tl.constexpr(1.4426950408889634)
NEVER = tl.constexpr(-1e30)  # a score; finite, so that who sees nobody is no not-a-number


class Heads(NamedTuple):
    """How the columns of projections divide."""

    number: int
    d_k: int
    d_v: int


class Projected(NamedTuple):
    """Columns of stacked projections: (N, H·d), a row's stride apart."""

    q: Tensor
    k: Tensor
    v: Tensor


@triton.jit
def _tile(base, row, start, width, stride, head, BLOCK: tl.constexpr, SIZE: tl.constexpr):
    """Pointers to (BLOCK, SIZE): tokens of a row from `start` on, in one head; which exist."""
    token = start + tl.arange(0, BLOCK)[:, None]
    column = tl.arange(0, SIZE)[None, :]
    first = base + row.to(tl.int64) * width * stride + head * SIZE
    return first + token * stride + column, token < width


@triton.jit
def _seen(
    row, start, q_sentence, k_sentence, width_q, width_k,
    CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """(BLOCK_Q, BLOCK_K): `rows.visible`, or `visible_so_far` if causal, but for padding.

    Padding as a query sees padding, if there is any; nobody reads what it makes of that.
    """
    query, key = start + tl.arange(0, BLOCK_Q), tl.arange(0, BLOCK_K)
    own = tl.load(q_sentence + row * width_q + query, query < width_q, -2).to(tl.int32)
    other = tl.load(k_sentence + row * width_k + key, key < width_k, -3).to(tl.int32)
    seen = own[:, None] == other[None, :]
    if CAUSAL:
        seen = seen & (query[:, None] >= key[None, :])
    return seen


@triton.jit
def _attend(
    q, k, v, out, normaliser, q_sentence, k_sentence, q_stride, k_stride, v_stride,
    width_q, width_k, scale,
    CAUSAL: tl.constexpr, HEADS: tl.constexpr, D_K: tl.constexpr, D_V: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The normaliser is log2 of the sum of 2^score, for scores that are scaled by log2(e) too."""
    # Rows stand in the one dimension of a grid that may be larger than 65,535.
    head, row = tl.program_id(0) % HEADS, tl.program_id(0) // HEADS
    start = tl.program_id(1) * BLOCK_Q
    q_at, query_exists = _tile(q, row, start, width_q, q_stride, head, BLOCK_Q, D_K)
    k_at, key_exists = _tile(k, row, 0, width_k, k_stride, head, BLOCK_K, D_K)
    v_at, key_exists = _tile(v, row, 0, width_k, v_stride, head, BLOCK_K, D_V)
    queries, keys = tl.load(q_at, query_exists, 0.0), tl.load(k_at, key_exists, 0.0)
    values = tl.load(v_at, key_exists, 0.0)
    seen = _seen(row, start, q_sentence, k_sentence, width_q, width_k, CAUSAL, BLOCK_Q, BLOCK_K)
    scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * (scale * LOG2_E)
    scores = tl.where(seen, scores, NEVER)
    highest = tl.max(scores, axis=1)
    weights = tl.exp2(scores - highest[:, None])
    total = tl.sum(weights, axis=1)
    found = tl.dot(weights.to(values.dtype), values, input_precision="ieee") / total[:, None]
    out_at, query_exists = _tile(out, row, start, width_q, HEADS * D_V, head, BLOCK_Q, D_V)
    tl.store(out_at, found, query_exists)
    query = start + tl.arange(0, BLOCK_Q)
    normaliser_at = normaliser + (row * HEADS + head) * width_q + query
    tl.store(normaliser_at, highest + tl.log2(total), query < width_q)


@triton.jit
def _attend_backward(
    q, k, v, out, d_out, normaliser, q_sentence, k_sentence, dq, dk, dv,
    q_stride, k_stride, v_stride, dq_stride, dk_stride, dv_stride, width_q, width_k, scale,
    CAUSAL: tl.constexpr, HEADS: tl.constexpr, D_K: tl.constexpr, D_V: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    head, row = tl.program_id(0) % HEADS, tl.program_id(0) // HEADS
    k_at, key_exists = _tile(k, row, 0, width_k, k_stride, head, BLOCK_K, D_K)
    v_at, key_exists = _tile(v, row, 0, width_k, v_stride, head, BLOCK_K, D_V)
    keys, values = tl.load(k_at, key_exists, 0.0), tl.load(v_at, key_exists, 0.0)
    d_keys = tl.zeros((BLOCK_K, D_K), tl.float32)
    d_values = tl.zeros((BLOCK_K, D_V), tl.float32)
    for start in range(0, width_q, BLOCK_Q):
        q_at, query_exists = _tile(q, row, start, width_q, q_stride, head, BLOCK_Q, D_K)
        out_at, query_exists = _tile(out, row, start, width_q, HEADS * D_V, head, BLOCK_Q, D_V)
        d_out_at, query_exists = _tile(d_out, row, start, width_q, HEADS * D_V, head, BLOCK_Q, D_V)
        queries = tl.load(q_at, query_exists, 0.0)
        gradient = tl.load(d_out_at, query_exists, 0.0)
        found = tl.load(out_at, query_exists, 0.0)
        along = tl.sum(found.to(tl.float32) * gradient.to(tl.float32), axis=1)
        query = start + tl.arange(0, BLOCK_Q)
        normaliser_at = normaliser + (row * HEADS + head) * width_q + query
        seen = _seen(row, start, q_sentence, k_sentence, width_q, width_k, CAUSAL, BLOCK_Q, BLOCK_K)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * (scale * LOG2_E)
        scores = tl.where(seen, scores, NEVER)
        weights = tl.exp2(scores - tl.load(normaliser_at, query < width_q, 0.0)[:, None])
        d_values += tl.dot(tl.trans(weights.to(gradient.dtype)), gradient, input_precision="ieee")
        d_weights = tl.dot(gradient, tl.trans(values), input_precision="ieee")
        d_scores = (weights * (d_weights - along[:, None])).to(queries.dtype)
        dq_at, query_exists = _tile(dq, row, start, width_q, dq_stride, head, BLOCK_Q, D_K)
        tl.store(dq_at, tl.dot(d_scores, keys, input_precision="ieee") * scale, query_exists)
        d_keys += tl.dot(tl.trans(d_scores), queries, input_precision="ieee")
    dk_at, key_exists = _tile(dk, row, 0, width_k, dk_stride, head, BLOCK_K, D_K)
    tl.store(dk_at, d_keys * scale, key_exists)
    dv_at, key_exists = _tile(dv, row, 0, width_k, dv_stride, head, BLOCK_K, D_V)
    tl.store(dv_at, d_values, key_exists)


def attend(
    projected: Projected, queries: Rows, keys: Rows, heads: Heads, causal: bool
) -> tuple[Tensor, Tensor]:
    """(N, H·d_v), and what the way back needs."""
    n_rows, width_q, width_k = *queries.ids.shape, keys.ids.size(1)
    out = projected.q.new_empty(n_rows * width_q, heads.number * heads.d_v)
    if max(width_q, width_k) > WIDEST:
        out.copy_(_attend_in_wide_rows(projected, queries, keys, heads, causal))
        return out, out
    normaliser = out.new_empty(n_rows, heads.number, width_q, dtype=torch.float32)
    constants = _constants(width_q, width_k, heads, causal)
    _attend[(heads.number * n_rows, triton.cdiv(width_q, constants["BLOCK_Q"]))](
        *projected, out, normaliser, queries.sentence, keys.sentence,
        *_strides(projected), width_q, width_k, heads.d_k**-0.5, **constants,
    )  # fmt: skip
    return out, normaliser


def attend_backward_(
    gradients: Projected, d_out: Tensor, out: Tensor, normaliser: Tensor, projected: Projected,
    queries: Rows, keys: Rows, heads: Heads, causal: bool,
) -> None:  # fmt: skip
    """Write the gradients of all three projections."""
    n_rows, width_q, width_k = *queries.ids.shape, keys.ids.size(1)
    if max(width_q, width_k) > WIDEST:
        with torch.enable_grad():
            inputs = Projected(*(part.detach().requires_grad_() for part in projected))
            again = _attend_in_wide_rows(inputs, queries, keys, heads, causal)
            found = torch.autograd.grad(again, inputs, d_out)
        for gradient, value in zip(gradients, found, strict=True):
            gradient.copy_(value)
        return
    _attend_backward[(heads.number * n_rows,)](
        *projected, out, d_out, normaliser, queries.sentence, keys.sentence, *gradients,
        *_strides(projected), *_strides(gradients), width_q, width_k, heads.d_k**-0.5,
        **_constants(width_q, width_k, heads, causal),
    )  # fmt: skip


def _strides(parts: Projected) -> tuple[int, ...]:
    return tuple(part.stride(0) for part in parts)


def _constants(width_q: int, width_k: int, heads: Heads, causal: bool) -> dict[str, int]:
    return {
        "CAUSAL": causal, "HEADS": heads.number, "D_K": heads.d_k, "D_V": heads.d_v,
        "BLOCK_Q": min(QUERIES, max(16, triton.next_power_of_2(width_q))),
        "BLOCK_K": max(16, triton.next_power_of_2(width_k)),
        "num_warps": WARPS,
    }  # fmt: skip


def _attend_in_wide_rows(
    projected: Projected, queries: Rows, keys: Rows, heads: Heads, causal: bool
) -> Tensor:
    """Long sentences are rare: PyTorch's own kernel, run again for the way back, will do."""
    n_rows = len(queries.ids)
    q, k, v = (
        part.unflatten(0, (n_rows, -1)).unflatten(-1, (heads.number, -1)).transpose(1, 2)
        for part in projected
    )
    mask = visible_so_far(queries) if causal else visible(queries, keys)
    found = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return found.transpose(1, 2).flatten(2).flatten(0, 1)
