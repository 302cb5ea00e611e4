"""Cached decoding = teacher forcing."""

import pytest
import torch
from tiny_world import SRC, SRC_SENTENCES, TGT, random_model
from torch import Tensor
from torch.testing import assert_close

from allyouneed.model import DecoderState, Transformer
from allyouneed.rows import PADDING, one_sentence_a_row

BEAMS = 3
# Sentence after sentence, its beams side by side.
HYPOTHESES = torch.tensor(
    [
        *([1, 7, 8], [1, 9, 9], [1, 10, 2]),
        *([1, 2, 2], [1, 3, 4], [1, 5, 6]),
        *([1, 4, 4], [1, 8, 7], [1, 6, 5]),
    ]
)


def steps(model: Transformer, state: DecoderState, ids: Tensor) -> tuple[Tensor, DecoderState]:
    """Feed (B·K, T) ids a column at a time: (B·K, T, V)."""
    logits = []
    for column in ids.T:
        step, state = model.step(column, state)
        logits.append(step)
    return torch.stack(logits, dim=1), state


def teacher_forced(model: Transformer, sentence: int, hypothesis: Tensor) -> Tensor:
    src = one_sentence_a_row([SRC_SENTENCES[sentence]])
    return model(src, one_sentence_a_row([hypothesis.tolist()]))[0]


@pytest.fixture
def model() -> Transformer:
    return random_model(dtype=torch.float64)


@torch.no_grad()
def test_stepping_through_a_batch_is_teacher_forcing(model: Transformer) -> None:
    stepped, _ = steps(model, model.start(SRC), TGT.ids)

    real = TGT.sentence != PADDING
    assert_close(stepped[real], model(SRC, TGT)[real])


@torch.no_grad()
def test_beams_that_share_memory_are_each_teacher_forced(model: Transformer) -> None:
    stepped, state = steps(model, model.start(SRC, beams=BEAMS), HYPOTHESES)

    assert state.n_tokens == HYPOTHESES.size(1)
    assert state.memory[0].k.size(0) == len(SRC_SENTENCES)  # not copied for each beam
    for row, hypothesis in enumerate(HYPOTHESES):
        assert_close(stepped[row], teacher_forced(model, row // BEAMS, hypothesis))


@torch.no_grad()
def test_select_goes_on_from_the_chosen_hypotheses(model: Transformer) -> None:
    _, state = steps(model, model.start(SRC, beams=BEAMS), HYPOTHESES)
    chosen = torch.tensor([2, 2, 0, 4, 5, 3, 7, 6, 8])  # among the beams of each sentence
    following = torch.arange(9) + 5

    logits, _ = model.step(following, state.select(chosen))

    for row, parent in enumerate(chosen.tolist()):
        tokens = torch.cat((HYPOTHESES[parent], following[row : row + 1]))
        assert_close(logits[row], teacher_forced(model, row // BEAMS, tokens)[-1])


@torch.no_grad()
def test_select_of_sentences_takes_their_memory_and_mask_along(model: Transformer) -> None:
    _, state = steps(model, model.start(SRC, beams=BEAMS), HYPOTHESES)
    kept = torch.tensor([2, 0])  # the second sentence is finished
    hypotheses = torch.tensor([6, 7, 8, 0, 1, 2])
    following = torch.arange(6) + 5

    logits, state = model.step(following, state.select(hypotheses, kept))

    assert state.memory_mask.size(0) == len(kept)
    for row, parent in enumerate(hypotheses.tolist()):
        tokens = torch.cat((HYPOTHESES[parent], following[row : row + 1]))
        assert_close(logits[row], teacher_forced(model, parent // BEAMS, tokens)[-1])


@torch.no_grad()
def test_a_step_leaves_the_state_it_was_given_alone(model: Transformer) -> None:
    state = model.start(SRC)
    ids = torch.tensor([1, 1, 1])

    first, _ = model.step(ids, state)
    again, _ = model.step(ids, state)

    assert state.n_tokens == 0
    assert_close(again, first, rtol=0, atol=0)
