"""ONNX: two graphs that any ONNX runtime can run.

`encoder.onnx` reads the sources once; `decoder_step.onnx` takes one token of every hypothesis, and
what the steps before it have left, to the logits of the next.

Shapes: B sentences, K hypotheses a sentence, S source tokens, P tokens so far, L decoder layers,
H heads, V vocabulary.
"""

import contextlib
import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim

from allyouneed.checkpoint import TOKENIZER, LoadedModel
from allyouneed.errors import ConfigError
from allyouneed.inference.engine import Ids
from allyouneed.interop.formats import require
from allyouneed.interop.sentencepiece_model import standalone
from allyouneed.model.attention import KeysValues
from allyouneed.model.transformer import DecoderState, Transformer
from allyouneed.rows import PADDING, Rows
from allyouneed.text.tokenizer import BEGIN, END, PAD

ENCODER, DECODER_STEP = "encoder.onnx", "decoder_step.onnx"
_SENTENCES, _HYPOTHESES = Dim("sentences"), Dim("hypotheses")
_SOURCE, _SO_FAR = Dim("source"), Dim("so_far")
# The inputs and outputs that go from graph to graph; of each, the axes that have any length.
_MEMORY = {
    "memory_keys": {1: _SENTENCES, 3: _SOURCE},
    "memory_values": {1: _SENTENCES, 3: _SOURCE},
    "memory_mask": {0: _SENTENCES, 3: _SOURCE},
}
_PAST = {
    "past_keys": {1: _HYPOTHESES, 3: _SO_FAR},
    "past_values": {1: _HYPOTHESES, 3: _SO_FAR},
}


class EncoderGraph(nn.Module):
    """Sources to what the decoder reads of them."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, source_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """source_ids (B, S): each with its end mark, then padding.

        -> keys (L, B, H, S, d_k), values (L, B, H, S, d_v), mask (B, 1, 1, S).
        """
        real = source_ids != PAD
        position = torch.arange(source_ids.size(1)).expand_as(source_ids)
        src = Rows(source_ids, torch.where(real, 0, PADDING), position)
        memory = self.model.decoder.read(self.model.encode(src))
        return *_stacked(memory), real[:, None, None, :]


class DecoderStepGraph(nn.Module):
    """The token before, and what is left of those before it, to the logits of the next."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        ids: Tensor,
        past_keys: Tensor,
        past_values: Tensor,
        memory_keys: Tensor,
        memory_values: Tensor,
        memory_mask: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """ids (B·K,), past (L, B·K, H, P, d) -> logits (B·K, V), past with one token more."""
        past, memory = _layers(past_keys, past_values), _layers(memory_keys, memory_values)
        logits, state = self.model.step(ids, DecoderState(past, memory, memory_mask))
        return logits, *_stacked(state.past)


def _stacked(layers: Sequence[KeysValues]) -> tuple[Tensor, Tensor]:
    return torch.stack([kv.k for kv in layers]), torch.stack([kv.v for kv in layers])


def _layers(keys: Tensor, values: Tensor) -> list[KeysValues]:
    return [KeysValues(k, v) for k, v in zip(keys, values, strict=True)]


@dataclass(frozen=True)
class Onnx:
    """A folder with the two graphs and the SentencePiece model."""

    has_beam_search = False

    def write(self, folder: Path, model: LoadedModel) -> None:
        require("onnxscript", "onnx", "writing ONNX")
        encoder, step = EncoderGraph(model.model), DecoderStepGraph(model.model)
        # What the graphs are traced with. No axis has the length 1, which would become fixed,
        # nor do two of them have the same, which could become one.
        source_ids = torch.full((2, 3), END)
        memory = encoder(source_ids)
        past = [kv[:, :1, :, :2].repeat(1, 4, 1, 1, 1) for kv in memory[:2]]
        ids = torch.full((4,), BEGIN)
        _write_graph(
            folder / ENCODER,
            encoder,
            [source_ids],
            {"source_ids": {0: _SENTENCES, 1: _SOURCE}},
            _MEMORY,
        )
        _write_graph(
            folder / DECODER_STEP,
            step,
            [ids, *past, *memory],
            {"ids": {0: _HYPOTHESES}, **_PAST, **_MEMORY},
            ["logits", "present_keys", "present_values"],
        )
        (folder / TOKENIZER).write_bytes(standalone(model.tokenizer))

    def program(self) -> ModuleType:
        return require("onnxruntime", "onnx", "running ONNX")

    def load(self, folder: Path) -> "_Graphs":
        return _Graphs(self.program(), folder)


def _write_graph(
    path: Path,
    graph: nn.Module,
    examples: Sequence[Tensor],
    inputs: Mapping[str, Mapping[int, Dim]],
    outputs: Iterable[str],
) -> None:
    with _quiet_exporter(), torch.no_grad():
        torch.onnx.export(
            graph,
            tuple(examples),
            path,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_shapes=tuple(inputs.values()),
            dynamo=True,
            external_data=False,
            verbose=False,
        )


@contextlib.contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Torch's exporter warns of its own code, and logs that torchvision is missing."""
    log = logging.getLogger("torch.onnx._internal.exporter._registration")
    was_disabled = log.disabled
    log.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.disabled = was_disabled


class _Graphs:
    """The two graphs in ONNX Runtime on the CPU, and greedy search over them."""

    def __init__(self, onnxruntime: ModuleType, folder: Path) -> None:
        cpu = ["CPUExecutionProvider"]
        self._encoder = onnxruntime.InferenceSession(folder / ENCODER, providers=cpu)
        self._step = onnxruntime.InferenceSession(folder / DECODER_STEP, providers=cpu)

    def translate(self, sources: Sequence[Ids], beam_size: int, max_length: int) -> list[list[int]]:
        if beam_size != 1:
            raise ConfigError(
                f"a beam of {beam_size} for ONNX graphs, which come with greedy search"
            )
        source_ids = np.array([[*source, END] for source in sources])
        memory = dict(
            zip(_MEMORY, self._encoder.run(None, {"source_ids": source_ids}), strict=True)
        )
        past = {
            "past_keys": memory["memory_keys"][:, :, :, :0],
            "past_values": memory["memory_values"][:, :, :, :0],
        }
        tokens = [np.full(len(sources), BEGIN)]
        ended = np.zeros(len(sources), dtype=bool)
        while len(tokens) <= max_length and not ended.all():
            logits, *present = self._step.run(None, {"ids": tokens[-1], **past, **memory})
            past = dict(zip(past, present, strict=True))
            logits[:, [PAD, BEGIN]] = -np.inf
            tokens.append(np.where(ended, PAD, logits.argmax(-1)))
            ended |= tokens[-1] == END
        rows = np.stack(tokens, axis=1).tolist()
        return [[id_ for id_ in row if id_ not in (PAD, BEGIN, END)] for row in rows]
