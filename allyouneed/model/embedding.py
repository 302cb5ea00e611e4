"""Embeddings (section 3.4) and positions (section 3.5).

Shapes: B batch, T tokens, V vocabulary.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SinusoidalPositions(nn.Module):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same.

    Computed from the positions themselves, so no length is too long.

    >>> SinusoidalPositions(d_model=512)(torch.tensor([[0, 1, 100_000]])).shape
    torch.Size([1, 3, 512])
    """

    frequencies: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        exponents = torch.arange(0, d_model, 2, dtype=torch.float64) / d_model
        frequencies = (10_000.0**-exponents).to(torch.get_default_dtype())
        self.register_buffer("frequencies", frequencies, persistent=False)

    def forward(self, position: Tensor) -> Tensor:
        """position (B, T), integers -> (B, T, d_model)."""
        angles = position.unsqueeze(-1) * self.frequencies
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


class LearnedPositions(nn.Module):
    """One vector a position, learned: Table 3, row E."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, position: Tensor) -> Tensor:
        """position (B, T), integers below max_positions -> (B, T, d_model)."""
        return F.embedding(position, self.weight)


class TiedEmbedding(nn.Module):
    """One matrix for both embeddings and for the linear map before the softmax."""

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.scale = math.sqrt(d_model)
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        # So that scaled embeddings have unit variance and logits start out small.
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> (B, T, d_model), multiplied by sqrt(d_model)."""
        return F.embedding(ids, self.weight) * self.scale

    def logits(self, x: Tensor) -> Tensor:
        """x (..., d_model) -> (..., V)."""
        return F.linear(x, self.weight)
