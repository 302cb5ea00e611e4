"""Sections 3.4 and 3.5: one matrix three times, and positions of any length."""

import math
from dataclasses import replace

import numpy as np
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_world import CONFIG, SRC, TGT, random_model
from torch import Tensor
from torch.testing import assert_close

from allyouneed.model import LearnedPositions, SinusoidalPositions, TiedEmbedding, Transformer

D_MODEL = 16
ANGLE_PRECISION = 2**-23  # of float32: half of it for the frequency, half for the product


def exact_positions(*positions: int) -> Tensor:
    return torch.from_numpy(
        np.array([reference.positional_encoding(position, D_MODEL) for position in positions])
    )


@settings(deadline=None)
@given(position=st.integers(0, 100_000))
def test_positions_follow_the_formula_at_any_length(position: int) -> None:
    ours = SinusoidalPositions(D_MODEL)(torch.tensor([[position]]))

    tolerance = ANGLE_PRECISION * max(position, 1)
    assert_close(ours[0], exact_positions(position).float(), rtol=0, atol=tolerance)


def test_position_100_000_needs_no_table() -> None:
    positions = SinusoidalPositions(D_MODEL)

    assert positions(torch.tensor([[100_000]])).shape == (1, 1, D_MODEL)
    assert not list(positions.parameters())
    assert not positions.state_dict()


@settings(deadline=None)
@given(offset=st.integers(0, 50), position=st.integers(0, 50))
def test_the_encoding_of_a_shifted_position_is_a_rotation_of_the_encoding(
    offset: int, position: int
) -> None:
    """Section 3.5: PE(pos + k) is a linear function of PE(pos), the same for every pos."""
    encode = SinusoidalPositions(D_MODEL)
    here, there = encode(torch.tensor([position, position + offset])).view(2, -1, 2)
    sines, cosines = encode(torch.tensor([offset])).view(-1, 2).unbind(dim=-1)

    rotated = torch.stack(
        (
            cosines * here[:, 0] + sines * here[:, 1],
            cosines * here[:, 1] - sines * here[:, 0],
        ),
        dim=-1,
    )

    assert_close(there, rotated, rtol=0, atol=1e-4)


def test_learned_positions_are_looked_up_and_learned() -> None:
    positions = LearnedPositions(D_MODEL, max_positions=8)
    asked = torch.tensor([[0, 7, 3]])

    assert_close(positions(asked)[0], positions.weight[asked[0]])
    assert positions.weight.requires_grad


def test_only_learned_positions_limit_the_length() -> None:
    assert Transformer(CONFIG).max_length is None
    assert Transformer(replace(CONFIG, positions="learned", max_positions=8)).max_length == 8


def test_embeddings_are_scaled_by_the_root_of_d_model_and_logits_are_not() -> None:
    embedding = TiedEmbedding(vocab_size=11, d_model=D_MODEL)
    ids = torch.tensor([[3, 4]])
    x = torch.randn(2, D_MODEL)

    assert_close(embedding(ids)[0], embedding.weight[ids[0]] * math.sqrt(D_MODEL))
    assert_close(embedding.logits(x), x @ embedding.weight.T)


def test_one_parameter_embeds_both_sides_and_makes_the_logits() -> None:
    model = random_model()
    vocabulary_sized = [
        name for name, p in model.named_parameters() if CONFIG.vocab_size in p.shape
    ]
    assert vocabulary_sized == ["embedding.weight"]

    unseen = 3  # neither in SRC nor in TGT
    before = model(SRC, TGT)
    with torch.no_grad():
        model.embedding.weight[unseen] += 1.0
    after = model(SRC, TGT)

    changed = (after - before).abs().amax(dim=(0, 1)) > 0
    assert changed.nonzero().flatten().tolist() == [unseen]


@pytest.mark.parametrize("side", ["src", "tgt"])
def test_both_sides_read_the_shared_embedding(side: str) -> None:
    model = random_model()
    only_there = {"src": 5, "tgt": 13}[side]
    before = model(SRC, TGT)
    with torch.no_grad():
        model.embedding.weight[only_there] += 1.0
    after = model(SRC, TGT)

    other_words = torch.arange(CONFIG.vocab_size) != only_there
    assert not torch.equal(before[..., other_words], after[..., other_words])


def test_scaled_embeddings_start_with_unit_variance() -> None:
    torch.manual_seed(0)
    embedding = TiedEmbedding(vocab_size=1000, d_model=64)

    variance = embedding(torch.arange(1000)).var().item()

    assert variance == pytest.approx(1, rel=0.05)
