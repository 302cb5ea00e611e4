"""Exports to ONNX: the graphs compute what the model computes, for batches of every shape."""

import dataclasses
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from exportable import CONFIG, random_model, random_rows
from torch.testing import assert_close

from allyouneed.errors import ConfigError
from allyouneed.interop import Onnx, export
from allyouneed.rows import PADDING, one_sentence_a_row
from allyouneed.text.tokenizer import BEGIN

# What no other format takes: heads of their own widths and, here, learned positions.
UNUSUAL = dataclasses.replace(
    CONFIG, n_layers=1, d_k=3, d_v=5, positions="learned", max_positions=30
)
MEMORY = ["memory_keys", "memory_values", "memory_mask"]
Arrays = dict[str, np.ndarray]


class Graphs:
    """The two graphs, called by name."""

    def __init__(self, folder: Path) -> None:
        self.encoder = onnxruntime.InferenceSession(folder / "encoder.onnx")
        self.decoder_step = onnxruntime.InferenceSession(folder / "decoder_step.onnx")

    def encode(self, source_ids: np.ndarray) -> Arrays:
        return dict(zip(MEMORY, self.encoder.run(MEMORY, {"source_ids": source_ids}), strict=True))

    def step(self, ids: np.ndarray, past: Arrays, memory: Arrays) -> tuple[np.ndarray, Arrays]:
        outputs = ["logits", "present_keys", "present_values"]
        logits, keys, values = self.decoder_step.run(outputs, {"ids": ids, **past, **memory})
        return logits, {"past_keys": keys, "past_values": values}


def nothing_yet(memory: Arrays) -> Arrays:
    return {
        "past_keys": memory["memory_keys"][:, :, :, :0],
        "past_values": memory["memory_values"][:, :, :, :0],
    }


@pytest.fixture(scope="module")
def unusual_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("onnx") / "model"
    export(random_model(UNUSUAL), Onnx(), folder)
    return folder


@pytest.fixture(scope="module")
def unusual(unusual_folder: Path) -> Graphs:
    return Graphs(unusual_folder)


@pytest.mark.parametrize("lengths", [[1], [6], [5, 9, 1, 3, 9]])
@torch.no_grad()
def test_step_by_step_the_logits_are_those_of_teacher_forcing(
    unusual: Graphs, lengths: list[int]
) -> None:
    src, tgt = random_rows(lengths, first=7), random_rows(lengths[::-1], first=BEGIN)
    expected = random_model(UNUSUAL).model(src, tgt)
    memory = unusual.encode(src.ids.numpy())
    past = nothing_yet(memory)

    for number, ids in enumerate(tgt.ids.numpy().T):
        logits, past = unusual.step(ids, past, memory)
        real = tgt.sentence[:, number] != PADDING
        found = torch.from_numpy(logits)[real]
        assert_close(found, expected[real, number], rtol=0, atol=1e-4)


def test_hypotheses_of_a_sentence_share_its_memory(unusual: Graphs) -> None:
    memory = unusual.encode(one_sentence_a_row([[5, 6, 7, 2], [8, 2]]).ids.numpy())
    twice = {name: np.repeat(array, 2, axis=-4) for name, array in memory.items()}
    ids = np.array([10, 11, 12, 13])

    logits, _ = unusual.step(ids, nothing_yet(twice), memory)

    expected, _ = unusual.step(ids, nothing_yet(twice), twice)
    assert_close(logits, expected, rtol=0, atol=1e-5)
    assert np.abs(logits[0] - logits[1]).max() > 0.1


def test_beams_are_left_to_the_user(unusual_folder: Path) -> None:
    with pytest.raises(ConfigError, match="greedy"):
        Onnx().load(unusual_folder).translate([[5]], beam_size=2, max_length=3)
