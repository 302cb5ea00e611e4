"""Matrix products of the step, and the weights they read."""

import torch
from torch import Tensor, nn

ALIGNMENT = 64  # of parts of the flat gradient, in numbers; of rows of a copy


class Stacked:
    """Parameters of one width, one below the other, so that one product serves them all."""

    def __init__(self, copy: Tensor, gradient: Tensor) -> None:
        self.copy = copy  # (rows, width), in the precision of the products
        self.gradient = gradient  # (rows, width), float32; the gradients of the parameters


class WorkingWeights:
    """What a step makes of the parameters: copies for the products, and one flat gradient.

    The parameters' own `grad` are parts of the flat one.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        parameters = list(model.parameters())
        self._dtype = dtype
        self._room = sum(_aligned(parameter.numel()) for parameter in parameters)
        self.gradient = parameters[0].new_zeros(self._room)
        self._used = 0
        self._parameters: list[Tensor] = []
        self._copies: list[Tensor] = []

    def stack(self, *parameters: Tensor, rows: int | None = None) -> Stacked:
        """Of matrices (r, width) or vectors (width,); more `rows` than they have are zero."""
        matrices = [parameter.detach().view(-1, parameter.size(-1)) for parameter in parameters]
        sizes = [len(matrix) for matrix in matrices]
        n, width = sum(sizes), matrices[0].size(1)
        gradient = self.gradient[self._used : self._used + n * width].view(n, width)
        self._used += _aligned(n * width)
        copy = gradient.new_zeros(rows or n, width, dtype=self._dtype)
        for parameter, part in zip(parameters, gradient.split(sizes), strict=True):
            parameter.grad = part.view_as(parameter)
        self._parameters += matrices
        self._copies += copy[:n].split(sizes)
        return Stacked(copy, gradient)

    def refresh(self) -> None:
        """After the optimizer has moved the parameters."""
        torch._foreach_copy_(self._copies, self._parameters)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def weight_gradient_(gradient: Tensor, d_output: Tensor, x: Tensor, add: bool) -> None:
    """d_output^T x, (N, rows)^T (N, width) -> (rows, width), replacing what is there or added."""
    if x.dtype == torch.float32:
        torch.addmm(gradient, d_output.T, x, beta=float(add), out=gradient)
    elif add:
        torch.addmm(gradient, d_output.T, x, out_dtype=torch.float32, out=gradient)
    else:
        torch.mm(d_output.T, x, out_dtype=torch.float32, out=gradient)


def sum_gradient_(gradient: Tensor, parts: Tensor, add: bool) -> None:
    """The sum over the first dimension, replacing what is there or added."""
    if add:
        gradient += parts.sum(0)
    else:
        torch.sum(parts, 0, out=gradient)
