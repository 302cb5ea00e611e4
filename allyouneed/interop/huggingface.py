"""Hugging Face's MarianMT: what the package transformers loads without any code of ours.

Marian's layers are the paper's. Two things differ. Its attention has biases: they are zero here.
Its sinusoids are all sines, then all cosines, where the paper's take turns: so the d_model axis of
every weight is put into that order, which no sum, norm or product over the axis notices.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from allyouneed.checkpoint import LoadedModel, Manifest, write_json
from allyouneed.config import ModelConfig
from allyouneed.errors import CheckpointError
from allyouneed.inference.engine import Ids
from allyouneed.interop.formats import check_heads, longest_output, require, table_size
from allyouneed.interop.sentencepiece_model import pieces, standalone
from allyouneed.text.tokenizer import BEGIN, END, PAD

_MARIAN_NAMES = {  # replaced one after the other
    "self_attention_norm.norm": "self_attn_layer_norm",
    "memory_attention_norm.norm": "encoder_attn_layer_norm",
    "feed_forward_norm.norm": "final_layer_norm",
    "self_attention": "self_attn",
    "memory_attention": "encoder_attn",
    "feed_forward.w_1": "fc1",
    "feed_forward.w_2": "fc2",
    "w_q": "q_proj",
    "w_k": "k_proj",
    "w_v": "v_proj",
    "w_o": "out_proj",
    "embedding": "shared",
}


@dataclass(frozen=True)
class HuggingFace:
    """A folder for `MarianMTModel.from_pretrained` and `MarianTokenizer.from_pretrained`."""

    has_beam_search = True

    def write(self, folder: Path, model: LoadedModel) -> None:
        check_heads(model, "Marian")
        if model.manifest.model.positions != "sinusoidal":
            raise CheckpointError(
                "Marian knows only sinusoidal positions, and this model has learned its own; "
                "export it as ctranslate2 or onnx"
            )
        weights = marian_weights(model.model.state_dict(), model.manifest.model)
        (folder / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))
        write_json(folder / "config.json", _config(model.manifest))
        write_json(folder / "generation_config.json", _generation_config(model.manifest))
        write_json(folder / "tokenizer_config.json", _tokenizer_config(model.manifest))
        ids = {piece: id_ for id_, piece in enumerate(pieces(model.tokenizer))}
        write_json(folder / "vocab.json", ids)
        for name in ("source.spm", "target.spm"):
            (folder / name).write_bytes(standalone(model.tokenizer))

    def program(self) -> ModuleType:
        return require("transformers", "huggingface", "running a Marian model")

    def load(self, folder: Path) -> "_Marian":
        return _Marian(self.program(), folder)


def marian_weights(weights: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """The weights under Marian's names and in its order."""
    sines_then_cosines = torch.arange(config.d_model).view(-1, 2).T.flatten()
    renamed: dict[str, Tensor] = {"final_logits_bias": torch.zeros(1, config.vocab_size)}
    for name, tensor in weights.items():
        marian_name = f"model.{name}"
        for ours, theirs in _MARIAN_NAMES.items():
            marian_name = marian_name.replace(ours, theirs)
        axis = _d_model_axis(name)
        renamed[marian_name] = (
            tensor if axis is None else tensor.index_select(axis, sines_then_cosines)
        ).contiguous()
        if marian_name.endswith("_proj.weight"):
            renamed[marian_name.replace("weight", "bias")] = torch.zeros(len(tensor))
    return renamed


def _d_model_axis(name: str) -> int | None:
    """Which axis of a weight runs along d_model."""
    if name.endswith("w_1.bias"):
        return None
    writes_to_d_model = any(part in name for part in ("norm", "w_o", "w_2"))
    return 0 if writes_to_d_model else 1


def _config(manifest: Manifest) -> dict[str, Any]:
    config = manifest.model
    sizes = {
        f"{stack}_{name}": value
        for stack, n_layers in (("encoder", config.n_layers), ("decoder", config.decoder_layers))
        for name, value in (
            ("layers", n_layers),
            ("attention_heads", config.n_heads),
            ("ffn_dim", config.d_ff),
        )
    }
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": config.vocab_size,
        "d_model": config.d_model,
        **sizes,
        "max_position_embeddings": table_size(manifest),
        "activation_function": "relu",
        "dropout": config.dropout,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "pad_token_id": PAD,
        "bos_token_id": BEGIN,
        "eos_token_id": END,
        "decoder_start_token_id": BEGIN,
        "forced_eos_token_id": None,
    }


def _generation_config(manifest: Manifest) -> dict[str, Any]:
    return {
        "num_beams": manifest.decoding.beam_size,
        "length_penalty": _exponent_of_length(manifest.decoding.length_penalty),
        "max_length": longest_output(manifest) + 1,  # with the begin mark
        "bad_words_ids": [[PAD], [BEGIN]],
        "pad_token_id": PAD,
        "bos_token_id": BEGIN,
        "eos_token_id": END,
        "decoder_start_token_id": BEGIN,
    }


def _exponent_of_length(alpha: float) -> float:
    """The x for which |Y|^x, Marian's penalty, comes nearest to the paper's ((5 + |Y|) / 6)^α.

    Only its growth matters: d log/d|Y| is x / |Y| there and α / (5 + |Y|) here, the same at 20.
    """
    return round(alpha * 20 / (5 + 20), 4)


def _tokenizer_config(manifest: Manifest) -> dict[str, Any]:
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": manifest.source_language,
        "target_lang": manifest.target_language,
        "model_max_length": manifest.max_source_tokens,
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "clean_up_tokenization_spaces": False,
    }


class _Marian:
    """MarianMT, loaded from an exported folder."""

    def __init__(self, transformers: ModuleType, folder: Path) -> None:
        transformers.utils.logging.disable_progress_bar()  # it is done in a blink
        self._model = transformers.MarianMTModel.from_pretrained(folder, local_files_only=True)

    def translate(self, sources: Sequence[Ids], beam_size: int, max_length: int) -> list[list[int]]:
        ids = torch.tensor([[*source, END] for source in sources])
        found = self._model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            num_beams=beam_size,
            length_penalty=0.0 if beam_size > 1 else 1.0,  # 1 is "none was set" to greedy search
            max_length=max_length + 1,
        )
        return [[id_ for id_ in row if id_ not in (PAD, BEGIN, END)] for row in found.tolist()]
