"""Ids to logits: one file a section of the paper."""

from allyouneed.model.attention import (
    KeysValues,
    MultiHeadAttention,
    attention_weights,
    scaled_dot_product_attention,
)
from allyouneed.model.embedding import LearnedPositions, SinusoidalPositions, TiedEmbedding
from allyouneed.model.feed_forward import FeedForward
from allyouneed.model.layers import AddNorm, DecoderLayer, EncoderLayer
from allyouneed.model.transformer import (
    AttentionMaps,
    Decoder,
    DecoderState,
    Encoder,
    Transformer,
)

__all__ = [
    "AddNorm",
    "AttentionMaps",
    "Decoder",
    "DecoderLayer",
    "DecoderState",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "KeysValues",
    "LearnedPositions",
    "MultiHeadAttention",
    "SinusoidalPositions",
    "TiedEmbedding",
    "Transformer",
    "attention_weights",
    "scaled_dot_product_attention",
]
