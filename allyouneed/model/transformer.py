"""The whole model (section 3, figure 1).

Shapes: B batch, S source tokens, T target tokens, K beams a sentence, V vocabulary.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from allyouneed.config import ModelConfig
from allyouneed.model.attention import KeysValues, MultiHeadAttention, watching
from allyouneed.model.embedding import LearnedPositions, SinusoidalPositions, TiedEmbedding
from allyouneed.model.layers import DecoderLayer, EncoderLayer
from allyouneed.rows import Rows, visible, visible_so_far


class Encoder(nn.Module):
    """N encoder layers, no norm after the last.

    >>> everything = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    >>> Encoder(ModelConfig(n_layers=2))(torch.randn(2, 7, 512), everything).shape
    torch.Size([2, 7, 512])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_layers))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, S, d_model), mask (B, 1, S, S) -> (B, S, d_model)."""
        for layer in self.layers:
            x = layer(x, mask)
        return x


class Decoder(nn.Module):
    """N decoder layers, no norm after the last.

    >>> decoder = Decoder(ModelConfig(n_layers=2))
    >>> everything = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    >>> so_far = torch.ones(5, 5, dtype=torch.bool).tril()
    >>> memory = decoder.read(torch.randn(2, 7, 512))
    >>> x, past = decoder(torch.randn(2, 5, 512), memory, everything, mask=so_far)
    >>> x.shape
    torch.Size([2, 5, 512])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))

    def read(self, memory: Tensor) -> list[KeysValues]:
        """What each layer will attend to in the encoder's output (B, S, d_model)."""
        return [_attention_of(layer, "memory_attention").read(memory) for layer in self.layers]

    def nothing_yet(self, memory: Tensor, beams: int) -> list[KeysValues]:
        """The `past` of a first step: no tokens, in `beams` rows for each of memory's."""
        empty = memory.new_empty(memory.size(0) * beams, 0, memory.size(-1))
        return [_attention_of(layer, "self_attention").read(empty) for layer in self.layers]

    def forward(
        self,
        x: Tensor,
        memory: Sequence[KeysValues],
        memory_mask: Tensor,
        past: Sequence[KeysValues] | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, list[KeysValues]]:
        """x (B, T, d_model) -> the same shape, and what each layer's next step needs as `past`."""
        present = []
        for number, layer in enumerate(self.layers):
            earlier = None if past is None else past[number]
            x, own = layer(x, memory[number], memory_mask, earlier, mask)
            present.append(own)
        return x, present


def _attention_of(layer: nn.Module, name: str) -> MultiHeadAttention:
    return cast(MultiHeadAttention, getattr(layer, name))


class DecoderState(NamedTuple):
    """What decoding carries from step to step: a value that goes in and comes out."""

    past: list[KeysValues]  # a layer: (B·K, H, tokens so far, d)
    memory: list[KeysValues]  # a layer: (B, H, S, d), shared by a sentence's beams
    memory_mask: Tensor  # (B, 1, 1, S)

    @property
    def n_tokens(self) -> int:
        return self.past[0].k.size(2)

    def select(self, hypotheses: Tensor, sentences: Tensor | None = None) -> "DecoderState":
        """Keep these rows of the B·K hypotheses and, if given, these of the B sentences."""
        past = [kv.select(hypotheses) for kv in self.past]
        if sentences is None:
            return self._replace(past=past)
        memory = [kv.select(sentences) for kv in self.memory]
        return DecoderState(past, memory, self.memory_mask.index_select(0, sentences))


class AttentionMaps(NamedTuple):
    """Every head's weights for one batch; a tensor a layer."""

    encoder: list[Tensor]  # (B, H, S, S)
    decoder: list[Tensor]  # (B, H, T, T)
    memory: list[Tensor]  # (B, H, T, S): encoder-decoder attention


class Transformer(nn.Module):
    """Encoder, decoder and the embedding they share.

    >>> from allyouneed.rows import one_sentence_a_row
    >>> model = Transformer(ModelConfig(vocab_size=100, n_layers=2, d_model=32, d_ff=64))
    >>> src = tgt = one_sentence_a_row([[5, 6, 7], [8, 9]])
    >>> model(src, tgt).shape
    torch.Size([2, 3, 100])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = TiedEmbedding(config.vocab_size, config.d_model)
        self.positions: nn.Module = (
            SinusoidalPositions(config.d_model)
            if config.positions == "sinusoidal"
            else LearnedPositions(config.d_model, config.max_positions)
        )
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    @property
    def max_length(self) -> int | None:
        """The longest sentence the model can take; None where there is no limit."""
        return self.config.max_length

    def forward(self, src: Rows, tgt: Rows) -> Tensor:
        """Teacher forcing: the logits (B, T, V) of the token after each target token."""
        return self.embedding.logits(self.decode(tgt, self.encode(src), src))

    def encode(self, src: Rows) -> Tensor:
        """-> (B, S, d_model)."""
        return self.encoder(self._embed(src.ids, src.position), visible(src, src))

    def decode(self, tgt: Rows, memory: Tensor, src: Rows) -> Tensor:
        """All target tokens at once; `memory` is what `encode` made of `src`. (B, T, d_model)."""
        x, _ = self.decoder(
            self._embed(tgt.ids, tgt.position),
            self.decoder.read(memory),
            memory_mask=visible(tgt, src),
            mask=visible_so_far(tgt),
        )
        return x

    def start(self, src: Rows, beams: int = 1) -> DecoderState:
        """Encode `src`, one sentence a row, and make ready to decode K beams of each."""
        memory = self.encode(src)
        past = self.decoder.nothing_yet(memory, beams)
        only_token = Rows(src.ids[:, :1], src.sentence[:, :1], src.position[:, :1])
        return DecoderState(past, self.decoder.read(memory), visible(only_token, src))

    def step(self, ids: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """One more token of every hypothesis: ids (B·K,) -> logits (B·K, V)."""
        position = torch.full_like(ids, state.n_tokens).unsqueeze(1)
        x, past = self.decoder(
            self._embed(ids.unsqueeze(1), position), state.memory, state.memory_mask, state.past
        )
        return self.embedding.logits(x.squeeze(1)), state._replace(past=past)

    @torch.no_grad()
    def attention_maps(self, src: Rows, tgt: Rows) -> AttentionMaps:
        """Every attention weight of one teacher-forced pass, recomputed by the formula."""
        heads = [module for module in self.modules() if isinstance(module, MultiHeadAttention)]
        with watching(heads) as maps:
            self.decode(tgt, self.encode(src), src)
        return AttentionMaps(
            [maps[_attention_of(layer, "self_attention")] for layer in self.encoder.layers],
            [maps[_attention_of(layer, "self_attention")] for layer in self.decoder.layers],
            [maps[_attention_of(layer, "memory_attention")] for layer in self.decoder.layers],
        )

    def _embed(self, ids: Tensor, position: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) + self.positions(position))
