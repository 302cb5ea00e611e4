"""The three sublayers, each with its residual and norm.

On the way forth each makes a function for the way back, which holds what it needs. Weight
gradients go where `Stacked.gradient` says. A product adds to the gradient that came along the
residual, so that no kernel is spent on sums.

Shapes: N tokens of all rows end to end, d_model, H heads.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from allyouneed.kernels.add_norm import Norm, add_norm_backward, add_norm_forward
from allyouneed.kernels.attention import Heads, Projected, attend, attend_backward_
from allyouneed.model.attention import KeysValues, MultiHeadAttention
from allyouneed.model.feed_forward import FeedForward
from allyouneed.model.layers import AddNorm
from allyouneed.rows import Rows
from allyouneed.training.fused.products import WorkingWeights, sum_gradient_, weight_gradient_
from allyouneed.training.fused.relu import relu_backward_

Back = Callable[[Tensor], Tensor]  # the gradient of an output to that of the input
Whole = Callable[[Tensor], Projected]


class Memory(NamedTuple):
    """The encoder's output as the decoder's layers read it."""

    rows: Rows
    read: list[KeysValues]  # a layer: (N, H·d_k) and (N, H·d_v)
    gradients: list[KeysValues]  # of the same shapes: written on the way back


class Pass(NamedTuple):
    """One way through a stack, forth and back."""

    rows: Rows
    seeds: Tensor  # (places with dropout,), int64: what each of them keeps is drawn from its own
    dropout: float
    add: bool  # gradients to those that are there
    memory: Memory | None = None


class FusedAddNorm:
    """Residual, dropout, norm and the bias of the sublayer before."""

    def __init__(
        self, module: AddNorm, weights: WorkingWeights, site: int, bias: nn.Parameter | None = None
    ) -> None:
        norm = module.norm
        self._norm = Norm(norm.weight.detach(), norm.bias.detach(), norm.eps)
        self._bias = None if bias is None else bias.detach()
        self._site = site
        vectors = (norm.weight, norm.bias) if bias is None else (norm.weight, norm.bias, bias)
        self._stacked = weights.stack(*vectors)

    def __call__(
        self, x: Tensor, sublayer: Tensor, way: Pass
    ) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, Tensor]]]:
        """The way back leads to both, x and the sublayer's output."""
        chance = way.seeds[self._site], way.dropout
        y, normalised = add_norm_forward(x, sublayer, self._bias, self._norm, *chance)

        def back(dy: Tensor) -> tuple[Tensor, Tensor]:
            has_bias = self._bias is not None
            dx, d_sublayer, sums = add_norm_backward(dy, normalised, self._norm, *chance, has_bias)
            sum_gradient_(self._stacked.gradient, sums, way.add)
            return dx, d_sublayer

        return y, back


class FusedFeedForward:
    def __init__(
        self, module: FeedForward, norm: AddNorm, weights: WorkingWeights, site: int
    ) -> None:
        self._w_1 = weights.stack(module.w_1.weight)
        self._b_1 = weights.stack(module.w_1.bias)
        self._w_2 = weights.stack(module.w_2.weight)
        self._norm = FusedAddNorm(norm, weights, site, module.w_2.bias)

    def __call__(self, x: Tensor, way: Pass) -> tuple[Tensor, Back]:
        w_1, b_1, w_2 = self._w_1, self._b_1, self._w_2
        activation = torch._addmm_activation(b_1.copy[0], x, w_1.copy.T)  # by ReLU
        y, norm_back = self._norm(x, activation @ w_2.copy.T, way)

        def back(dy: Tensor) -> Tensor:
            dx, d_output = norm_back(dy)
            weight_gradient_(w_2.gradient, d_output, activation, way.add)
            d_activation = d_output @ w_2.copy
            sum_gradient_(b_1.gradient, relu_backward_(d_activation, activation), way.add)
            weight_gradient_(w_1.gradient, d_activation, x, way.add)
            return dx.addmm_(d_activation, w_1.copy)

        return y, back


class _FusedAttention:
    """What both kinds do; `own` are the projections of the sublayer's input."""

    def __init__(
        self,
        module: MultiHeadAttention,
        norm: AddNorm,
        weights: WorkingWeights,
        site: int,
        own: Sequence[nn.Linear],
    ) -> None:
        self._heads = heads_of(module)
        self._w_own = weights.stack(*(linear.weight for linear in own))
        self._w_o = weights.stack(module.w_o.weight)
        self._norm = FusedAddNorm(norm, weights, site)

    def _attend(
        self, x: Tensor, way: Pass, keys: Rows, causal: bool, whole: Whole, whole_gradient: Whole
    ) -> tuple[Tensor, Back]:
        """`whole` makes queries, keys and values of the own projections, as `whole_gradient` of
        their gradients.
        """
        w_own, w_o = self._w_own, self._w_o
        who_sees_whom = way.rows, keys, self._heads, causal
        own = x @ w_own.copy.T
        found, normaliser = attend(whole(own), *who_sees_whom)
        y, norm_back = self._norm(x, found @ w_o.copy.T, way)

        def back(dy: Tensor) -> Tensor:
            dx, d_output = norm_back(dy)
            weight_gradient_(w_o.gradient, d_output, found, way.add)
            d_own = torch.empty_like(own)
            attend_backward_(
                whole_gradient(d_own), d_output @ w_o.copy, found, normaliser, whole(own),
                *who_sees_whom,
            )  # fmt: skip
            weight_gradient_(w_own.gradient, d_own, x, way.add)
            return dx.addmm_(d_own, w_own.copy)

        return y, back


class FusedSelfAttention(_FusedAttention):
    def __init__(
        self,
        module: MultiHeadAttention,
        norm: AddNorm,
        weights: WorkingWeights,
        site: int,
        causal: bool,
    ) -> None:
        super().__init__(module, norm, weights, site, (module.w_q, module.w_k, module.w_v))
        self._causal = causal

    def __call__(self, x: Tensor, way: Pass) -> tuple[Tensor, Back]:
        return self._attend(x, way, way.rows, self._causal, self._split, self._split)

    def _split(self, qkv: Tensor) -> Projected:
        n, d_k, d_v = self._heads
        return Projected(*qkv.split((n * d_k, n * d_k, n * d_v), dim=1))


class FusedMemoryAttention(_FusedAttention):
    """Encoder-decoder attention of layer `number`."""

    def __init__(
        self,
        module: MultiHeadAttention,
        norm: AddNorm,
        weights: WorkingWeights,
        site: int,
        number: int,
    ) -> None:
        super().__init__(module, norm, weights, site, (module.w_q,))
        self._number = number

    def __call__(self, x: Tensor, way: Pass) -> tuple[Tensor, Back]:
        assert way.memory is not None
        memory, gradients = way.memory.read[self._number], way.memory.gradients[self._number]
        return self._attend(
            x,
            way,
            way.memory.rows,
            causal=False,
            whole=lambda q: Projected(q, *memory),
            whole_gradient=lambda dq: Projected(dq, *gradients),
        )


def heads_of(module: MultiHeadAttention) -> Heads:
    d_k, d_v = (w.out_features // module.n_heads for w in (module.w_k, module.w_v))
    return Heads(module.n_heads, d_k, d_v)
