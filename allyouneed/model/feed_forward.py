"""Position-wise feed-forward network (section 3.3)."""

import torch.nn.functional as F
from torch import Tensor, nn


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2: equation 2, the same at every position.

    >>> import torch
    >>> FeedForward(d_model=512, d_ff=2048)(torch.randn(2, 7, 512)).shape
    torch.Size([2, 7, 512])
    """

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., d_model) -> (..., d_model)."""
        return self.w_2(F.relu(self.w_1(x)))
