"""The model against torch.nn.Transformer with the same weights."""

import numpy as np
import pytest
import reference
import torch
from tiny_world import CONFIG, SRC, TGT, random_model, renamed
from torch import Tensor, nn
from torch.testing import assert_close

from allyouneed.config import ModelConfig
from allyouneed.model import Transformer
from allyouneed.rows import PADDING, Rows

WIDE = ModelConfig(vocab_size=97, n_layers=6, d_model=64, d_ff=128, n_heads=8, d_k=8, d_v=8)
ENCODER_NAMES = {
    "self_attention_norm.norm": "norm1",
    "feed_forward_norm.norm": "norm2",
    "self_attention": "self_attn",
    "feed_forward.w_1": "linear1",
    "feed_forward.w_2": "linear2",
    "w_o": "out_proj",
}
DECODER_NAMES = ENCODER_NAMES | {
    "memory_attention_norm.norm": "norm2",
    "feed_forward_norm.norm": "norm3",
    "memory_attention": "multihead_attn",
}


def torch_transformer(config: ModelConfig) -> nn.Transformer:
    """As the paper has it: torch's own default adds a norm after each stack."""
    sizes = (config.d_model, config.n_heads, config.d_ff, config.dropout)
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(*sizes, batch_first=True),
        config.n_layers,
        norm=None,
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(*sizes, batch_first=True), config.decoder_layers, norm=None
    )
    return nn.Transformer(
        config.d_model, config.n_heads, custom_encoder=encoder, custom_decoder=decoder,
        batch_first=True,
    ).eval()  # fmt: skip


def copy_weights(theirs: nn.Transformer, ours: Transformer) -> None:
    weights = {
        renamed(name, ENCODER_NAMES if name.startswith("encoder") else DECODER_NAMES): tensor
        for name, tensor in ours.state_dict().items()
        if name != "embedding.weight"
    }
    for name in [name for name in weights if name.endswith("w_q.weight")]:
        heads = name.removesuffix("w_q.weight")
        projections = [weights.pop(f"{heads}w_{x}.weight") for x in "qkv"]
        weights[f"{heads}in_proj_weight"] = torch.cat(projections)
    biases = {
        name: torch.zeros_like(tensor)
        for name, tensor in theirs.state_dict().items()
        if name.endswith(("in_proj_bias", "out_proj.bias"))
    }
    theirs.load_state_dict(weights | biases)


def embedded(table: Tensor, rows: Rows) -> Tensor:
    width, d_model = rows.ids.size(1), table.size(1)
    positions = np.array([reference.positional_encoding(p, d_model) for p in range(width)])
    return table[rows.ids] * d_model**0.5 + torch.from_numpy(positions).float()


@pytest.mark.parametrize("config", [CONFIG, WIDE], ids=["tiny", "six layers"])
@torch.no_grad()
def test_logits_are_those_of_torch_nn_transformer(config: ModelConfig) -> None:
    ours = random_model(config)
    theirs = torch_transformer(config)
    copy_weights(theirs, ours)
    table = ours.embedding.weight
    src_padding, tgt_padding = SRC.sentence == PADDING, TGT.sentence == PADDING
    width = TGT.ids.size(1)

    expected = (
        theirs(
            embedded(table, SRC),
            embedded(table, TGT),
            tgt_mask=torch.ones(width, width, dtype=torch.bool).triu(diagonal=1),
            src_key_padding_mask=src_padding,
            tgt_key_padding_mask=tgt_padding,
            memory_key_padding_mask=src_padding,
        )
        @ table.T
    )

    assert_close(ours(SRC, TGT)[~tgt_padding], expected[~tgt_padding], rtol=0, atol=1e-5)
