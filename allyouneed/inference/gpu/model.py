"""The layers of `allyouneed.model` without gradients: stacked weights, fused kernels.

Shapes: B sentences, N tokens of all of them, A slots, R rows of their beams, d_model.
"""

import torch
from torch import Tensor, nn

from allyouneed.inference.gpu.attention import attend_to_memory, attend_to_own
from allyouneed.inference.gpu.choosing import best_of_chunks, extend
from allyouneed.inference.gpu.embedding import embed_last
from allyouneed.inference.gpu.room import Room
from allyouneed.kernels.add_norm import Norm, add_norm
from allyouneed.kernels.attention import Heads, Projected, attend
from allyouneed.kernels.embedding import embed
from allyouneed.model.embedding import LearnedPositions
from allyouneed.model.feed_forward import FeedForward
from allyouneed.model.layers import AddNorm, DecoderLayer, EncoderLayer
from allyouneed.model.transformer import Transformer
from allyouneed.rows import Rows

_VOCABULARY_MULTIPLE = 128  # a size of the embedding that products like


class GpuModel:
    """The weights of a `Transformer` in the precision of the products, and both of its halves."""

    def __init__(self, model: Transformer, dtype: torch.dtype) -> None:
        config = model.config
        self.config, self.dtype, self.device = config, dtype, model.device
        rows = -(-config.vocab_size // _VOCABULARY_MULTIPLE) * _VOCABULARY_MULTIPLE
        self._embedding = torch.zeros(rows, config.d_model, dtype=dtype, device=self.device)
        self._embedding[: config.vocab_size] = model.embedding.weight.detach()
        self._positions = model.positions
        self._heads = heads = Heads(config.n_heads, config.d_k, config.d_v)
        self._seed = torch.zeros(1, dtype=torch.int64, device=self.device)  # of no dropout
        self._encoder = [
            _EncoderLayer(layer, heads, dtype)
            for layer in model.encoder.layers
            if isinstance(layer, EncoderLayer)
        ]
        decoder = [layer for layer in model.decoder.layers if isinstance(layer, DecoderLayer)]
        self._decoder = [
            _DecoderLayer(layer, number, heads, dtype) for number, layer in enumerate(decoder)
        ]
        # All layers read the same memory: one product for them all.
        readers = [layer.memory_attention for layer in decoder]
        self._w_memory = _stacked(dtype, *(w for it in readers for w in (it.w_k, it.w_v)))

    def position_table(self, n_positions: int) -> Tensor:
        """(n_positions, d_model), float32; where a model has learned fewer, the last again."""
        positions = torch.arange(n_positions, device=self.device)
        if isinstance(self._positions, LearnedPositions):
            positions = positions.clamp(max=self.config.max_positions - 1)
        return self._positions(positions).detach()

    def read(self, src: Rows, position_table: Tensor) -> Tensor:
        """The keys and values of all layers for each source token: (N, L·H·(d_k + d_v))."""
        ids, positions = src.ids.view(-1), src.position.reshape(-1)
        x = embed(ids, positions, self._embedding, position_table, self._seed, 0.0)
        for layer in self._encoder:
            x = layer(x, src)
        return x @ self._w_memory.T

    def step(self, room: Room, slots: Tensor, position_table: Tensor) -> Tensor:
        """One more token of all beams of these slots (A,); what `extend` says of it."""
        x = embed_last(room, slots, self._embedding, position_table)
        for layer in self._decoder:
            x = layer(x, room, slots)
        logits = x @ self._embedding.T
        return extend(best_of_chunks(logits, room, slots, self.config.vocab_size), room, slots)


class _EncoderLayer:
    def __init__(self, layer: EncoderLayer, heads: Heads, dtype: torch.dtype) -> None:
        attention, self._heads = layer.self_attention, heads
        self._w_qkv = _stacked(dtype, attention.w_q, attention.w_k, attention.w_v)
        self._w_o = _stacked(dtype, attention.w_o)
        self._norm = _AddNorm(layer.self_attention_norm)
        self._feed_forward = _FeedForward(layer.feed_forward, layer.feed_forward_norm, dtype)

    def __call__(self, x: Tensor, src: Rows) -> Tensor:
        n, d_k, d_v = self._heads
        qkv = Projected(*(x @ self._w_qkv.T).split((n * d_k, n * d_k, n * d_v), dim=1))
        found, _ = attend(qkv, src, src, self._heads, causal=False)
        return self._feed_forward(self._norm(x, found @ self._w_o.T))


class _DecoderLayer:
    def __init__(self, layer: DecoderLayer, number: int, heads: Heads, dtype: torch.dtype) -> None:
        own, reader = layer.self_attention, layer.memory_attention
        self._number, self._heads = number, heads
        self._w_qkv = _stacked(dtype, own.w_q, own.w_k, own.w_v)
        self._w_o = _stacked(dtype, own.w_o)
        self._norm = _AddNorm(layer.self_attention_norm)
        self._w_q_memory = _stacked(dtype, reader.w_q)
        self._w_o_memory = _stacked(dtype, reader.w_o)
        self._memory_norm = _AddNorm(layer.memory_attention_norm)
        self._feed_forward = _FeedForward(layer.feed_forward, layer.feed_forward_norm, dtype)

    def __call__(self, x: Tensor, room: Room, slots: Tensor) -> Tensor:
        where = room, slots, self._number, self._heads
        found = attend_to_own(x @ self._w_qkv.T, *where)
        x = self._norm(x, found @ self._w_o.T)
        found = attend_to_memory(x @ self._w_q_memory.T, *where)
        x = self._memory_norm(x, found @ self._w_o_memory.T)
        return self._feed_forward(x)


class _FeedForward:
    def __init__(self, module: FeedForward, norm: AddNorm, dtype: torch.dtype) -> None:
        self._w_1, self._w_2 = _stacked(dtype, module.w_1), _stacked(dtype, module.w_2)
        self._b_1 = module.w_1.bias.detach().to(dtype)
        self._norm = _AddNorm(norm, module.w_2.bias)

    def __call__(self, x: Tensor) -> Tensor:
        activation = torch._addmm_activation(self._b_1, x, self._w_1.T)  # by ReLU
        return self._norm(x, activation @ self._w_2.T)


class _AddNorm:
    """Residual, norm and the bias of the sublayer before."""

    def __init__(self, module: AddNorm, bias: Tensor | None = None) -> None:
        norm = module.norm
        self._norm = Norm(norm.weight.detach(), norm.bias.detach(), norm.eps)
        self._bias = None if bias is None else bias.detach()
        self._seed = torch.zeros(1, dtype=torch.int64, device=norm.weight.device)  # no dropout

    def __call__(self, x: Tensor, sublayer: Tensor) -> Tensor:
        return add_norm(x, sublayer, self._bias, self._norm, self._seed, 0.0)


def _stacked(dtype: torch.dtype, *linears: nn.Linear) -> Tensor:
    """Linear maps of one input, so that one product serves them all: (outputs, inputs)."""
    return torch.cat([linear.weight.detach() for linear in linears]).to(dtype)
