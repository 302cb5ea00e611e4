"""Loss and gradient of a whole model.

Shapes: N tokens of all rows end to end, d_model.
"""

import itertools

import torch
from torch import Tensor

from allyouneed.data.batches import Batch
from allyouneed.kernels.embedding import embed, embed_backward_
from allyouneed.model.attention import KeysValues
from allyouneed.model.embedding import LearnedPositions
from allyouneed.model.layers import DecoderLayer, EncoderLayer
from allyouneed.model.transformer import Transformer
from allyouneed.rows import Rows
from allyouneed.training.fused.cross_entropy import project_and_lose
from allyouneed.training.fused.products import WorkingWeights, weight_gradient_
from allyouneed.training.fused.sublayers import (
    Back,
    FusedFeedForward,
    FusedMemoryAttention,
    FusedSelfAttention,
    Memory,
    Pass,
    heads_of,
)
from allyouneed.training.loss import Loss

VOCABULARY_MULTIPLE = 128  # a size of the embedding that products like
Stack = list[FusedSelfAttention | FusedMemoryAttention | FusedFeedForward]


class FusedTransformer:
    """The training step of a `Transformer`, up to its gradient."""

    def __init__(self, model: Transformer, dtype: torch.dtype, label_smoothing: float) -> None:
        self._config = model.config
        self._smoothing = label_smoothing
        self._weights = weights = WorkingWeights(model, dtype)
        rows = -(-model.config.vocab_size // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE
        self._embedding = weights.stack(model.embedding.weight, rows=rows)
        self._positions = model.positions
        self._position_tables: dict[int, Tensor] = {}
        self._learned_positions = (
            weights.stack(model.positions.weight)
            if isinstance(model.positions, LearnedPositions)
            else None
        )
        site = itertools.count()  # numbers the places that have dropout
        self._source_site, self._target_site = next(site), next(site)
        self._encoder: Stack = []
        for layer in model.encoder.layers:
            assert isinstance(layer, EncoderLayer)
            heads, norm = layer.self_attention, layer.self_attention_norm
            self._encoder += [
                FusedSelfAttention(heads, norm, weights, next(site), causal=False),
                FusedFeedForward(layer.feed_forward, layer.feed_forward_norm, weights, next(site)),
            ]
        self._decoder: Stack = []
        readers = []
        for number, layer in enumerate(model.decoder.layers):
            assert isinstance(layer, DecoderLayer)
            heads, norm = layer.self_attention, layer.self_attention_norm
            reader, reader_norm = layer.memory_attention, layer.memory_attention_norm
            self._decoder += [
                FusedSelfAttention(heads, norm, weights, next(site), causal=True),
                FusedMemoryAttention(reader, reader_norm, weights, next(site), number),
                FusedFeedForward(layer.feed_forward, layer.feed_forward_norm, weights, next(site)),
            ]
            readers.append(reader)
        # All layers read the same memory: one product for them all.
        self._w_memory = weights.stack(
            *(linear.weight for reader in readers for linear in (reader.w_k, reader.w_v))
        )
        self.n_seeds = next(site)
        number, d_k, d_v = heads_of(readers[0])
        self._memory_columns = (number * d_k, number * d_v) * len(readers)

    @property
    def gradient(self) -> Tensor:
        """Of all parameters, end to end; the parameters' `grad` are parts of it."""
        return self._weights.gradient

    def refresh(self) -> None:
        """Take over what the optimizer made of the parameters."""
        self._weights.refresh()

    @torch.no_grad()
    def loss_and_gradient(self, batch: Batch, scale: Tensor, seeds: Tensor, add: bool) -> Loss:
        """The gradient of `scale` times the smoothed loss replaces what is there, or is added.

        `scale` holds one number, `seeds` n_seeds of them, from which dropout is drawn.
        """
        dropout = self._config.dropout
        way = Pass(batch.src, seeds, dropout, add)
        x, encoder_back = _forth(self._encoder, self._embed(way, self._source_site), way)
        memory = x
        memory_read = memory @ self._w_memory.copy.T
        d_memory_read = torch.empty_like(memory_read)
        by_layer = Memory(batch.src, self._by_layer(memory_read), self._by_layer(d_memory_read))
        decoder_way = Pass(batch.tgt, seeds, dropout, add, by_layer)
        x, decoder_back = _forth(
            self._decoder, self._embed(decoder_way, self._target_site), decoder_way
        )
        smoothed, nll, dx = project_and_lose(
            x, self._embedding.copy, batch.labels.view(-1), self._smoothing, scale,
            self._config.vocab_size, self._embedding.gradient, add,
        )  # fmt: skip
        if self._learned_positions is not None and not add:
            self._learned_positions.gradient.zero_()
        self._embed_back(_back(decoder_back, dx), decoder_way, self._target_site)
        weight_gradient_(self._w_memory.gradient, d_memory_read, memory, add)
        d_memory = d_memory_read @ self._w_memory.copy
        self._embed_back(_back(encoder_back, d_memory), way, self._source_site)
        return Loss(smoothed, nll)

    def _embed(self, way: Pass, site: int) -> Tensor:
        rows = way.rows
        return embed(
            rows.ids.view(-1), rows.position.view(-1), self._embedding.copy,
            self._position_table(rows), way.seeds[site], way.dropout,
        )  # fmt: skip

    def _embed_back(self, dx: Tensor, way: Pass, site: int) -> None:
        chance = way.seeds[site], way.dropout
        scale = self._config.d_model**0.5
        embed_backward_(self._embedding.gradient, way.rows.ids.view(-1), dx, *chance, scale)
        if self._learned_positions is not None:
            gradient = self._learned_positions.gradient
            embed_backward_(gradient, way.rows.position.view(-1), dx, *chance, scale=1.0)

    def _position_table(self, rows: Rows) -> Tensor:
        """The vectors of all positions that such rows can hold, or more: (·, d_model), float32."""
        if isinstance(self._positions, LearnedPositions):
            return self._positions.weight.detach()
        width = 1 << (rows.ids.size(1) - 1).bit_length()  # so that there are few tables
        if width not in self._position_tables:
            positions = torch.arange(width, device=rows.ids.device)
            self._position_tables[width] = self._positions(positions)
        return self._position_tables[width]

    def _by_layer(self, memory_read: Tensor) -> list[KeysValues]:
        columns = memory_read.split(self._memory_columns, dim=1)
        return [KeysValues(k, v) for k, v in zip(columns[::2], columns[1::2], strict=True)]


def _forth(stack: Stack, x: Tensor, way: Pass) -> tuple[Tensor, list[Back]]:
    ways_back = []
    for sublayer in stack:
        x, back = sublayer(x, way)
        ways_back.append(back)
    return x, ways_back


def _back(ways_back: list[Back], dx: Tensor) -> Tensor:
    while ways_back:
        dx = ways_back.pop()(dx)  # what it held is free from here on
    return dx
