"""Models of other libraries in training: the paper's sizes, our batches, bfloat16 on a GPU."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.fx.experimental._config
import torch.nn.functional as F
from torch import Tensor, nn

from allyouneed.config import ModelConfig
from allyouneed.data.batches import IGNORE, Batch
from allyouneed.model.embedding import SinusoidalPositions
from allyouneed.rows import PADDING, Rows
from allyouneed.text.tokenizer import BEGIN, END, PAD

Step = Callable[[Batch], Tensor]
MULTIPLE = 8  # padded batches are made this much wider, so that compiled peers see fewer shapes


def peer_adam(model: nn.Module) -> torch.optim.Adam:
    """Section 5.3's; the rate is yet to be set."""
    return torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)


def peer_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, smoothing: float, compiled: bool
) -> Step:
    """As a careful user of a peer would write it."""
    device = next(model.parameters()).device
    on_gpu = device.type == "cuda"

    def compute_loss(batch: Batch) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
            logits = model(batch.src, batch.tgt)
        return F.cross_entropy(
            logits.float().flatten(0, 1), batch.labels.flatten(),
            ignore_index=IGNORE, label_smoothing=smoothing,
        )  # fmt: skip

    # cuDNN's attention, torch's first choice on Hopper, is planned anew for every shape: 0.1 s and
    # more each time, where padded batches have a shape each.
    torch.backends.cuda.enable_cudnn_sdp(False)
    # Sizes that happen to be equal in one batch are not in the next: no code of its own for them.
    torch.fx.experimental._config.use_duck_shape = False
    loss_of = torch.compile(compute_loss, dynamic=True) if compiled else compute_loss

    def step(batch: Batch) -> Tensor:
        loss = loss_of(batch.to(device))
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def wider(batch: Batch) -> Batch:
    """Padded to a multiple that compiled code and tensor cores like."""

    def widen(tensor: Tensor, value: int) -> Tensor:
        return F.pad(tensor, (0, -tensor.size(1) % MULTIPLE), value=value)

    def rows(side: Rows) -> Rows:
        return Rows(widen(side.ids, PAD), widen(side.sentence, PADDING), widen(side.position, 0))

    return batch._replace(
        src=rows(batch.src), tgt=rows(batch.tgt), labels=widen(batch.labels, IGNORE)
    )


class Marian(nn.Module):
    """Hugging Face's MarianMT with the paper's sizes."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        sizes: dict[str, Any] = {"attn_implementation": "sdpa"} | {
            f"{stack}_{name}": value
            for stack, n_layers in (
                ("encoder", config.n_layers),
                ("decoder", config.decoder_layers),
            )
            for name, value in (
                ("layers", n_layers),
                ("attention_heads", config.n_heads),
                ("ffn_dim", config.d_ff),
            )
        }
        self.marian = MarianMTModel(
            MarianConfig(
                vocab_size=config.vocab_size, d_model=config.d_model, dropout=config.dropout,
                activation_function="relu", scale_embedding=True, max_position_embeddings=512,
                share_encoder_decoder_embeddings=True, tie_word_embeddings=True,
                pad_token_id=PAD, bos_token_id=BEGIN, eos_token_id=END,
                decoder_start_token_id=BEGIN, forced_eos_token_id=None,
                use_cache=False, **sizes,
            )
        )  # fmt: skip

    def forward(self, src: Rows, tgt: Rows) -> Tensor:
        return self.marian(
            input_ids=src.ids,
            attention_mask=(src.sentence != PADDING).long(),
            decoder_input_ids=tgt.ids,
        ).logits


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with embeddings, positions and projection around it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.positions = SinusoidalPositions(config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.transformer = nn.Transformer(
            config.d_model, config.n_heads, config.n_layers, config.decoder_layers, config.d_ff,
            config.dropout, batch_first=True,
        )  # fmt: skip
        for module in self.transformer.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0  # the paper drops no attention weights

    def forward(self, src: Rows, tgt: Rows) -> Tensor:
        width = tgt.ids.size(1)
        later = torch.ones(width, width, dtype=torch.bool, device=tgt.ids.device).triu(1)
        padding = src.sentence == PADDING
        x = self.transformer(
            self._embed(src), self._embed(tgt), tgt_mask=later, tgt_is_causal=True,
            src_key_padding_mask=padding, memory_key_padding_mask=padding,
        )  # fmt: skip
        return F.linear(x, self.embedding.weight)

    def _embed(self, rows: Rows) -> Tensor:
        scaled = self.embedding(rows.ids) * self.embedding.embedding_dim**0.5
        return self.dropout(scaled + self.positions(rows.position))
