"""Every kernel against the plain formula, forward and backward."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

pytest.importorskip("triton", reason="Triton is not made for this system")

from allyouneed.data.batches import IGNORE
from allyouneed.kernels.add_norm import Norm, add_norm, add_norm_backward, add_norm_forward
from allyouneed.kernels.attention import Heads, Projected, attend, attend_backward_
from allyouneed.kernels.embedding import embed, embed_backward_
from allyouneed.rows import PADDING, Rows, visible, visible_so_far
from allyouneed.training.fused.cross_entropy import project_and_lose
from allyouneed.training.fused.relu import relu_backward_
from allyouneed.training.loss import label_smoothed_loss

# Triton's interpreter has no bfloat16 products.
DTYPES = [
    torch.float32,
    pytest.param(
        torch.bfloat16,
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
        ],
    ),
]


def assert_near(found: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    error = (found.double() - expected.double()).norm() / expected.double().norm()
    assert error < tolerance


def seed_on(device: torch.device, value: int = 7) -> Tensor:
    return torch.tensor(value, device=device)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [32, 48])
@pytest.mark.parametrize("has_bias", [True, False])
def test_add_norm(dtype: torch.dtype, width: int, has_bias: bool, device: torch.device) -> None:
    n = 37
    x, sublayer, dy = (torch.randn(n, width, device=device).to(dtype) for _ in range(3))
    weight, bias, sublayer_bias = (torch.randn(width, device=device) for _ in range(3))
    norm, seed = Norm(weight, bias, 1e-5), seed_on(device)

    y, saved = add_norm_forward(x, sublayer, sublayer_bias if has_bias else None, norm, seed, 0.0)
    dx, d_sublayer, sums = add_norm_backward(dy, saved, norm, seed, 0.0, has_bias)

    leaves = [t.float().requires_grad_() for t in (x, sublayer, weight, bias, sublayer_bias)]
    change = leaves[1] + leaves[4] if has_bias else leaves[1]
    expected = F.layer_norm(leaves[0] + change, (width,), leaves[2], leaves[3], 1e-5)
    gradients = torch.autograd.grad(expected, leaves, dy.float(), allow_unused=True)
    assert_near(y, expected.detach(), dtype)
    alone = add_norm(x, sublayer, sublayer_bias if has_bias else None, norm, seed, 0.0)
    assert torch.equal(alone, y)
    found = [dx, d_sublayer, *sums.sum(0)]
    for ours, theirs in zip(found, gradients, strict=False):
        assert theirs is not None
        assert_near(ours, theirs, dtype)
    assert len(sums[0]) == (3 if has_bias else 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_relu_backward(dtype: torch.dtype, device: torch.device) -> None:
    before = torch.randn(70, 24, device=device).to(dtype)
    gradient = torch.randn_like(before)
    expected = torch.where(before > 0, gradient, 0.0)

    sums = relu_backward_(gradient, before.relu())

    assert_close(gradient, expected, rtol=0, atol=0)
    assert_near(sums.sum(0)[0], expected.float().sum(0), dtype)


def rows_of(lengths: list[list[int]], width: int, device: torch.device) -> Rows:
    """Rows that hold sentences of these lengths, then padding."""
    sentence = torch.full((len(lengths), width), PADDING)
    position = torch.zeros(len(lengths), width, dtype=torch.long)
    for row, row_lengths in enumerate(lengths):
        start = 0
        for number, length in enumerate(row_lengths):
            sentence[row, start : start + length] = number
            position[row, start : start + length] = torch.arange(length)
            start += length
    return Rows(torch.zeros_like(sentence), sentence, position).to(device)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("width", "lengths", "other_lengths"),
    [
        (16, [[5, 11], [3, 4, 2]], [[9, 7], [1, 8, 1]]),
        (24, [[24], [20]], [[1], [24]]),
        (100, [[40, 30, 30], [99]], [[10, 50, 20], [100]]),
        (160, [[130, 10], [7, 140]], [[90, 60], [30, 100]]),
    ],
)
@pytest.mark.parametrize("causal", [True, False])
def test_attention(
    dtype: torch.dtype,
    width: int,
    lengths: list[list[int]],
    other_lengths: list[list[int]],
    causal: bool,
    device: torch.device,
) -> None:
    heads = Heads(2, 16, 32)
    queries = rows_of(lengths, width, device)
    keys = queries if causal else rows_of(other_lengths, width, device)
    n = queries.ids.numel()
    stacked = torch.randn(n, 2 * (16 + 16 + 32), device=device).to(dtype)
    projected = Projected(stacked[:, :32], stacked[:, 32:64], stacked[:, 64:])
    d_out = torch.randn(n, 64, device=device).to(dtype)
    d_out[queries.sentence.flatten() == PADDING] = 0  # nothing depends on padding
    gradients = Projected(*(torch.full_like(part, math.nan) for part in projected))

    out, normaliser = attend(projected, queries, keys, heads, causal)
    attend_backward_(gradients, d_out, out, normaliser, projected, queries, keys, heads, causal)

    leaves = [part.float().requires_grad_() for part in projected]
    q, k, v = (part.view(len(lengths), width, 2, -1).transpose(1, 2) for part in leaves)
    mask = visible_so_far(queries) if causal else visible(queries, keys)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    expected = expected.transpose(1, 2).reshape(n, -1)
    real = queries.sentence.flatten() != PADDING
    assert_near(out[real], expected[real].detach(), dtype)
    assert out.isfinite().all()
    for ours, theirs in zip(
        gradients, torch.autograd.grad(expected, leaves, d_out.float()), strict=True
    ):
        assert_near(ours, theirs, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vocabulary", [50, 64])
def test_projection_and_loss(
    dtype: torch.dtype, vocabulary: int, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allyouneed.training.fused.cross_entropy.SLICE", 8)
    monkeypatch.setattr("allyouneed.training.fused.cross_entropy.COLUMNS", 16)
    n, width, rows = 21, 32, 64
    x = torch.randn(n, width, device=device).to(dtype)
    embedding = torch.randn(rows, width, device=device).to(dtype)
    embedding[vocabulary:] = 0
    labels = torch.randint(vocabulary, (n,), device=device)
    labels[[0, 5]] = torch.tensor([IGNORE, vocabulary - 1], device=device)
    d_embedding = torch.full((vocabulary, width), math.nan, device=device)
    scale = torch.tensor([0.25], device=device)

    found = project_and_lose(x, embedding, labels, 0.1, scale, vocabulary, d_embedding, add=False)
    smoothed, nll, dx = found
    once = d_embedding.clone()
    project_and_lose(x, embedding, labels, 0.1, scale, vocabulary, d_embedding, add=True)

    leaves = [x.float().requires_grad_(), embedding[:vocabulary].float().requires_grad_()]
    expected = label_smoothed_loss((leaves[0] @ leaves[1].T)[None], labels[None], 0.1)
    assert_near(smoothed, expected.smoothed.detach(), dtype)
    assert_near(nll, expected.nll, dtype)
    gradients = torch.autograd.grad(expected.smoothed * 0.25, leaves)
    assert_near(dx, gradients[0], dtype)
    assert_near(once, gradients[1], dtype)
    assert_near(d_embedding, 2 * gradients[1], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_embedding(dtype: torch.dtype, device: torch.device) -> None:
    ids, positions = (torch.randint(9, (30,), device=device) for _ in range(2))
    table = torch.randn(9, 24, device=device).to(dtype)
    position_table = torch.randn(9, 24, device=device)
    dx = torch.randn(30, 24, device=device).to(dtype)
    gradient, seed = torch.ones(9, 24, device=device), seed_on(device)

    x = embed(ids, positions, table, position_table, seed, 0.0)
    embed_backward_(gradient, ids, dx, seed, 0.0, scale=24**0.5)

    assert_near(x, table[ids].float() * 24**0.5 + position_table[positions], dtype)
    expected = torch.ones(9, 24, device=device).index_add(0, ids, dx.float() * 24**0.5)
    assert_near(gradient, expected, dtype)


def kept_by_add_norm(seed: int, device: torch.device, dropout: float = 0.1) -> Tensor:
    """Which of many values dropout lets through, seen in the gradient of the sublayer."""
    dy = torch.randn(512, 64, device=device)
    norm = Norm(torch.ones(64, device=device), torch.zeros(64, device=device), 1e-5)
    x = torch.zeros_like(dy)
    _, saved = add_norm_forward(x, torch.randn_like(dy), None, norm, seed_on(device, seed), dropout)
    _, d_sublayer, _ = add_norm_backward(dy, saved, norm, seed_on(device, seed), dropout, False)
    return d_sublayer != 0


def test_dropout_keeps_its_share_and_no_pattern(device: torch.device) -> None:
    kept = kept_by_add_norm(seed=1, device=device)
    other = kept_by_add_norm(seed=2, device=device)

    deviation = (0.1 * 0.9 / kept.numel()) ** 0.5
    assert kept.double().mean().item() == pytest.approx(0.9, abs=5 * deviation)
    of_other = (other, *(other.flatten().roll(by).view_as(other) for by in (1, -1)))
    of_same = (kept.roll(1, 0), kept.roll(1, 1), kept.roll(7, 1), kept.roll(64, 0))
    for shifted in (*of_other, *of_same):
        both_dropped = (~kept & ~shifted).double().mean().item()
        assert both_dropped == pytest.approx(0.01, abs=5 * (0.01 / kept.numel()) ** 0.5)
    assert kept.double().mean(0).std() < 0.03  # no column is favoured, and no row
    assert kept.double().mean(1).std() < 0.06
    assert torch.equal(kept, kept_by_add_norm(seed=1, device=device))


def test_dropout_scales_what_it_keeps(device: torch.device) -> None:
    norm = Norm(torch.ones(64, device=device), torch.zeros(64, device=device), 1e-5)
    sublayer = torch.randn(256, 64, device=device)
    x = torch.zeros_like(sublayer)
    seed = seed_on(device)

    y, saved = add_norm_forward(x, sublayer, None, norm, seed, 0.5)
    _, d_sublayer, _ = add_norm_backward(torch.randn_like(y), saved, norm, seed, 0.5, False)

    kept = d_sublayer != 0
    expected = F.layer_norm(torch.where(kept, sublayer * 2, 0.0), (64,))
    assert_close(y, expected, rtol=1e-4, atol=1e-4)
