"""The model against Hugging Face's MarianMT with the same weights."""

import pytest
import torch
from tiny_world import CONFIG, SRC, TGT, random_model, renamed
from torch.testing import assert_close
from transformers import MarianConfig, MarianMTModel

from allyouneed.config import ModelConfig
from allyouneed.model import Transformer
from allyouneed.rows import PADDING

MAX_POSITIONS = 16
WIDE = ModelConfig(
    vocab_size=97, n_layers=6, n_decoder_layers=2, d_model=64, d_ff=128, n_heads=8, d_k=8, d_v=8
)
MARIAN_NAMES = {
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
}


def marian(config: ModelConfig) -> MarianMTModel:
    model = MarianMTModel(
        MarianConfig(
            vocab_size=config.vocab_size,
            d_model=config.d_model,
            encoder_layers=config.n_layers,
            decoder_layers=config.decoder_layers,
            encoder_attention_heads=config.n_heads,
            decoder_attention_heads=config.n_heads,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            max_position_embeddings=MAX_POSITIONS,
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=0,
            decoder_start_token_id=1,
            eos_token_id=2,
            forced_eos_token_id=2,
        )
    )
    model.train(False)
    return model


def copy_weights(theirs: MarianMTModel, ours: Transformer) -> None:
    weights = {
        f"model.{renamed(name, MARIAN_NAMES)}": tensor
        for name, tensor in ours.state_dict().items()
        if name != "embedding.weight"
    }
    for name in ("model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens"):
        weights[f"{name}.weight"] = ours.embedding.weight
    weights["lm_head.weight"] = ours.embedding.weight
    # Marian's own table keeps the sines together in the first half, then the cosines.
    positions = ours.positions(torch.arange(MAX_POSITIONS))
    for stack in ("encoder", "decoder"):
        weights[f"model.{stack}.embed_positions.weight"] = positions
    biases = {
        name: torch.zeros_like(tensor)
        for name, tensor in theirs.state_dict().items()
        if name.endswith(("proj.bias", "logits_bias"))
    }
    theirs.load_state_dict(weights | biases)


@pytest.mark.parametrize("config", [CONFIG, WIDE], ids=["tiny", "six and two layers"])
@torch.no_grad()
def test_logits_are_those_of_marian(config: ModelConfig) -> None:
    ours = random_model(config)
    theirs = marian(config)
    copy_weights(theirs, ours)
    real = TGT.sentence != PADDING

    expected = theirs(
        input_ids=SRC.ids,
        attention_mask=SRC.sentence != PADDING,
        decoder_input_ids=TGT.ids,
        decoder_attention_mask=real,
    ).logits

    assert_close(ours(SRC, TGT)[real], expected[real], rtol=0, atol=1e-5)
