"""The layers of the two stacks (section 3.1, figure 1).

Shapes: B batch, T target tokens, S source tokens.
"""

from torch import Tensor, nn

from allyouneed.config import ModelConfig
from allyouneed.model.attention import KeysValues, MultiHeadAttention
from allyouneed.model.feed_forward import FeedForward


class AddNorm(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))): the norm comes after the sum."""

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x: Tensor, sublayer_output: Tensor) -> Tensor:
        return self.norm(x + self.dropout(sublayer_output))


def _heads(config: ModelConfig) -> MultiHeadAttention:
    return MultiHeadAttention(config.d_model, config.n_heads, config.d_k, config.d_v)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _heads(config)
        self.self_attention_norm = AddNorm(config.d_model, config.dropout)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.feed_forward_norm = AddNorm(config.d_model, config.dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, S, d_model), mask (B, 1, S, S) -> (B, S, d_model)."""
        x = self.self_attention_norm(x, self.self_attention(x, self.self_attention.read(x), mask))
        return self.feed_forward_norm(x, self.feed_forward(x))


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the encoder's output, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _heads(config)
        self.self_attention_norm = AddNorm(config.d_model, config.dropout)
        self.memory_attention = _heads(config)
        self.memory_attention_norm = AddNorm(config.d_model, config.dropout)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.feed_forward_norm = AddNorm(config.d_model, config.dropout)

    def forward(
        self,
        x: Tensor,
        memory: KeysValues,
        memory_mask: Tensor,
        past: KeysValues | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, KeysValues]:
        """x (B, T, d_model) -> the same shape, and the keys and values of past and x together.

        `past` holds what earlier steps handed back. `memory` may have fewer rows than x: then
        B / rows neighbours in x (the beams of one sentence) read the same row, uncopied.
        """
        own = self.self_attention.read(x)
        if past is not None:
            own = past.extended(own)
        x = self.self_attention_norm(x, self.self_attention(x, own, mask))
        queries = x.reshape(memory.k.size(0), -1, x.size(-1))
        found = self.memory_attention(queries, memory, memory_mask).view_as(x)
        x = self.memory_attention_norm(x, found)
        return self.feed_forward_norm(x, self.feed_forward(x)), own
