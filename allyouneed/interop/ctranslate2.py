"""CTranslate2: a fast engine in C++ for CPUs and GPUs, with eight-bit weights."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch
from torch import nn

from allyouneed.checkpoint import TOKENIZER, LoadedModel
from allyouneed.errors import ConfigError
from allyouneed.inference.engine import Ids
from allyouneed.interop.formats import check_heads, require, table_size
from allyouneed.interop.sentencepiece_model import pieces, standalone
from allyouneed.model.attention import MultiHeadAttention
from allyouneed.model.layers import AddNorm, DecoderLayer, EncoderLayer
from allyouneed.model.transformer import Transformer
from allyouneed.text.tokenizer import BEGIN, PAD

_NEVER = -1e4  # added to the logits of what is never said; float16 can hold it


@dataclass(frozen=True)
class CTranslate2:
    """A folder for `ctranslate2.Translator`, with the SentencePiece model beside it."""

    quantization: str = "float32"

    has_beam_search = True

    def write(self, folder: Path, model: LoadedModel) -> None:
        self.program()
        check_heads(model, "CTranslate2")
        n_positions = model.model.max_length or table_size(model.manifest)
        spec = _specification(model.model, n_positions)
        vocabulary = pieces(model.tokenizer)
        spec.register_source_vocabulary(vocabulary)
        spec.register_target_vocabulary(vocabulary)
        spec.config.add_source_eos = True
        spec.validate()
        try:
            spec.optimize(self.quantization)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        spec.save(str(folder))
        (folder / TOKENIZER).write_bytes(standalone(model.tokenizer))

    def program(self) -> ModuleType:
        return require("ctranslate2", "ctranslate2", "CTranslate2's format")

    def load(self, folder: Path) -> "_Engine":
        return _Engine(self.program(), folder)


def _specification(model: Transformer, n_positions: int) -> Any:
    from ctranslate2.specs import TransformerSpec

    config = model.config
    spec = TransformerSpec.from_config(
        (config.n_layers, config.decoder_layers), config.n_heads, pre_norm=False
    )
    embedding = model.embedding.weight
    positions = model.positions(torch.arange(n_positions))
    for stack, embeddings in (
        (spec.encoder, spec.encoder.embeddings[0]),
        (spec.decoder, spec.decoder.embeddings),
    ):
        embeddings.weight = embedding
        stack.position_encodings.encodings = positions
    for layer, layer_spec in zip(model.encoder.layers, spec.encoder.layer, strict=True):
        _set_layer(layer_spec, cast(EncoderLayer, layer))
    for layer, layer_spec in zip(model.decoder.layers, spec.decoder.layer, strict=True):
        _set_layer(layer_spec, cast(DecoderLayer, layer))
        _set_memory_attention(layer_spec.attention, cast(DecoderLayer, layer))
    spec.decoder.projection.weight = embedding
    spec.decoder.projection.bias = torch.zeros(config.vocab_size)
    spec.decoder.projection.bias[[PAD, BEGIN]] = _NEVER
    return spec


def _set_layer(spec: Any, layer: EncoderLayer | DecoderLayer) -> None:
    """All that encoder and decoder layers have in common."""
    heads = layer.self_attention
    _set_linear(spec.self_attention.linear[0], heads.w_q, heads.w_k, heads.w_v)
    _set_linear(spec.self_attention.linear[1], heads.w_o)
    _set_norm(spec.self_attention, layer.self_attention_norm)
    _set_linear(spec.ffn.linear_0, layer.feed_forward.w_1)
    _set_linear(spec.ffn.linear_1, layer.feed_forward.w_2)
    _set_norm(spec.ffn, layer.feed_forward_norm)


def _set_memory_attention(spec: Any, layer: DecoderLayer) -> None:
    heads: MultiHeadAttention = layer.memory_attention
    _set_linear(spec.linear[0], heads.w_q)
    _set_linear(spec.linear[1], heads.w_k, heads.w_v)
    _set_linear(spec.linear[2], heads.w_o)
    _set_norm(spec, layer.memory_attention_norm)


def _set_linear(spec: Any, *layers: nn.Linear) -> None:
    """One matrix for several maps of the same input."""
    spec.weight = torch.cat([layer.weight for layer in layers])
    if layers[0].bias is not None:
        spec.bias = torch.cat([layer.bias for layer in layers])


def _set_norm(spec: Any, add_norm: AddNorm) -> None:
    spec.layer_norm.gamma = add_norm.norm.weight
    spec.layer_norm.beta = add_norm.norm.bias


class _Engine:
    """CTranslate2 with an exported folder, on the CPU."""

    def __init__(self, ctranslate2: ModuleType, folder: Path) -> None:
        self._translator = ctranslate2.Translator(str(folder), device="cpu")
        vocabulary = (folder / "shared_vocabulary.json").read_text(encoding="utf-8")
        self._pieces: list[str] = json.loads(vocabulary)
        self._ids = {piece: id_ for id_, piece in enumerate(self._pieces)}

    def translate(self, sources: Sequence[Ids], beam_size: int, max_length: int) -> list[list[int]]:
        results = self._translator.translate_batch(
            [[self._pieces[id_] for id_ in source] for source in sources],
            beam_size=beam_size,
            length_penalty=0,
            min_decoding_length=0,
            max_decoding_length=max_length,
            max_input_length=0,  # none, instead of cutting off what is longer than 1024
        )
        return [[self._ids[piece] for piece in result.hypotheses[0]] for result in results]
