"""Output projection and label-smoothed loss, a slice of the tokens at a time.

The logits of a slice turn in place into their gradient: those of all tokens never exist at once.

Shapes: N tokens, C tokens of a slice, V vocabulary, d_model.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from allyouneed.data.batches import IGNORE
from allyouneed.training.fused.products import weight_gradient_

SLICE = 8192  # tokens, about: large enough for the products, small enough for the memory
COLUMNS = 4096


@triton.jit
def _loss_and_gradient(
    logits, labels, smoothed, nll, scale, smoothing,
    IGNORE: tl.constexpr, VOCABULARY: tl.constexpr, STRIDE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """One token. Loads are masked by the stride, a round number, so that they can be wide."""
    token = tl.program_id(0)
    row = logits + token.to(tl.int64) * STRIDE
    label = tl.load(labels + token)
    counted = label != IGNORE
    true_token = tl.where(counted, label, 0)
    own = tl.load(row + true_token).to(tl.float32)
    highest = -float("inf")
    exponentials = tl.zeros((COLUMNS,), tl.float32)
    total = tl.zeros((COLUMNS,), tl.float32)
    for first in range(0, VOCABULARY, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        value = tl.load(row + column, column < STRIDE, 0.0).to(tl.float32)
        total += value  # beyond the vocabulary the embedding is 0, and so are the logits
        value = tl.where(column < VOCABULARY, value, -float("inf"))
        higher = tl.maximum(highest, tl.max(value))
        exponentials = exponentials * tl.exp(highest - higher) + tl.exp(value - higher)
        highest = higher
    normaliser = highest + tl.log(tl.sum(exponentials))
    everywhere = smoothing / VOCABULARY
    mixed = normaliser - (1 - smoothing) * own - everywhere * tl.sum(total)
    tl.store(smoothed + token, tl.where(counted, mixed, 0.0))
    tl.store(nll + token, tl.where(counted, normaliser - own, 0.0))
    weight = tl.where(counted, tl.load(scale), 0.0)
    for first in range(0, VOCABULARY, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        value = tl.load(row + column, column < STRIDE, 0.0).to(tl.float32)
        gradient = (tl.exp(value - normaliser) - everywhere) * weight
        gradient = tl.where(column < VOCABULARY, gradient, 0.0)
        tl.store(row + column, gradient, column < STRIDE)
    tl.debug_barrier()  # the true token's gradient is overwritten after all are there
    tl.store(row + true_token, (tl.exp(own - normaliser) - everywhere - 1 + smoothing) * weight)


def project_and_lose(
    x: Tensor, embedding: Tensor, labels: Tensor, smoothing: float, scale: Tensor,
    vocabulary: int, d_embedding: Tensor, add: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Sums of smoothed loss and negative log-likelihood, and the gradient of x (N, d_model).

    The gradients are those of the smoothed sum times `scale`, a tensor of one number. That of
    the embedding goes to `d_embedding`, replacing what is there or added to it. `embedding` may
    have more rows than the vocabulary, all zero, to be of a size that products like.
    """
    n = len(x)
    losses = x.new_empty(2, n, dtype=torch.float32)
    dx = torch.empty_like(x)
    n_slices = max(1, round(n / SLICE))
    for number in range(n_slices):
        part = slice(n * number // n_slices, n * (number + 1) // n_slices)
        gradient = x[part] @ embedding.T
        _loss_and_gradient[(len(gradient),)](
            gradient, labels[part], losses[0, part], losses[1, part], scale, smoothing,
            IGNORE=IGNORE, VOCABULARY=vocabulary, STRIDE=len(embedding), COLUMNS=COLUMNS,
            num_warps=8,
        )  # fmt: skip
        torch.mm(gradient, embedding, out=dx[part])
        weight_gradient_(d_embedding, gradient[:, :vocabulary], x[part], add or number > 0)
    smoothed, nll = losses.sum(1)
    return smoothed, nll, dx
