"""Every kernel of decoding on a GPU against the plain formula."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

pytest.importorskip("triton", reason="Triton is not made for this system")

from allyouneed.config import ModelConfig
from allyouneed.inference.gpu import choosing, trial
from allyouneed.inference.gpu.attention import attend_to_memory, attend_to_own
from allyouneed.inference.gpu.choosing import best_of_chunks, extend
from allyouneed.inference.gpu.embedding import embed_last
from allyouneed.inference.gpu.room import Room, RoomSize
from allyouneed.inference.gpu.trial import try_a_kernel
from allyouneed.kernels.attention import Heads
from allyouneed.text.tokenizer import BEGIN, END, PAD

VOCABULARY, STRIDE = 300, 384
CONFIG = ModelConfig(
    vocab_size=VOCABULARY, n_layers=2, d_model=40, d_ff=48, n_heads=2, d_k=16, d_v=32
)
HEADS = Heads(CONFIG.n_heads, CONFIG.d_k, CONFIG.d_v)
LAYER = 1


def a_room(device: torch.device, n_slots: int = 4, n_beams: int = 3) -> Room:
    room = Room(RoomSize(n_slots, n_beams, 48, 64), CONFIG, torch.float32, device)
    for random in (room.memory, room.keys, room.values):
        random.normal_()
    room.origins.random_(n_beams)
    room.log_prob[:-1].uniform_(-5, -1)
    return room


def slots_on(device: torch.device, *slots: int) -> Tensor:
    return torch.tensor(slots, dtype=torch.int32, device=device)


def attention(q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """q (H·d_k), keys (S, H·d_k), values (S, H·d_v) -> (H·d_v)."""
    k, v = (part.view(len(part), HEADS.number, -1).transpose(0, 1) for part in (keys, values))
    scores = k @ q.view(HEADS.number, -1, 1) / math.sqrt(HEADS.d_k)
    return (scores.softmax(1) * v).sum(1).flatten()


def test_a_row_attends_to_the_tokens_that_it_came_from(device: torch.device) -> None:
    room = a_room(device)
    room.position[:4] = torch.tensor([0, 37, 5, 9])
    room.log_prob[1, 2] = -torch.inf
    slots = slots_on(device, 1, 0, 2)
    sizes = [HEADS.number * size for size in (HEADS.d_k, HEADS.d_k, HEADS.d_v)]
    qkv = torch.randn(9, sum(sizes), device=device)
    keys, values = room.keys[LAYER].clone(), room.values[LAYER].clone()

    found = attend_to_own(qkv, room, slots, LAYER, HEADS)

    for row, (q, k, v) in enumerate(zip(*torch.split(qkv, sizes, dim=1), strict=True)):
        slot, beam = int(slots[row // 3]), row % 3
        position = int(room.position[slot])
        origins = room.origins[slot, beam, :position].long()
        earlier = torch.arange(position, device=device)
        all_keys = torch.cat((keys[slot, origins, earlier], k[None]))
        all_values = torch.cat((values[slot, origins, earlier], v[None]))
        if math.isinf(room.log_prob[slot, beam]):
            assert_close(found[row], v)  # nobody will read it, and no time is spent on it
        else:
            assert_close(found[row], attention(q, all_keys, all_values), atol=1e-4, rtol=1e-4)
        keys[slot, beam, position], values[slot, beam, position] = k, v
    assert_close(room.keys[LAYER], keys)
    assert_close(room.values[LAYER], values)


def test_the_beams_of_a_slot_read_its_sentence(device: torch.device) -> None:
    room = a_room(device)
    room.n_source[:4] = torch.tensor([1, 35, 48, 2])
    slots = slots_on(device, 2, 0, 1)
    q = torch.randn(9, HEADS.number * HEADS.d_k, device=device)

    found = attend_to_memory(q, room, slots, LAYER, HEADS)

    widths = [HEADS.number * HEADS.d_k, HEADS.number * HEADS.d_v] * 2
    _, _, keys, values = torch.split(room.memory, widths, dim=2)
    for row in range(9):
        slot = int(slots[row // 3])
        read = slot, slice(int(room.n_source[slot]))
        assert_close(found[row], attention(q[row], keys[read], values[read]), atol=1e-4, rtol=1e-4)


def test_the_newest_tokens_are_embedded(device: torch.device) -> None:
    room, slots = a_room(device), slots_on(device, 3, 1)
    room.last.random_(VOCABULARY)
    room.position.random_(64)
    embedding = torch.randn(STRIDE, CONFIG.d_model, device=device)
    positions = torch.randn(64, CONFIG.d_model, device=device)

    x = embed_last(room, slots, embedding, positions)

    chosen = slots.long()
    expected = embedding[room.last[chosen].long()] * math.sqrt(CONFIG.d_model)
    expected += positions[room.position[chosen].long()][:, None]
    assert_close(x, expected.flatten(0, 1))


@pytest.fixture
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "COLUMNS", 128)


@pytest.mark.usefixtures("_small_chunks")
@pytest.mark.parametrize("n_beams", [1, 3])
def test_beams_are_extended_by_the_best_that_may_come(n_beams: int, device: torch.device) -> None:
    room = a_room(device, n_slots=4, n_beams=n_beams)
    room.position[:4] = torch.tensor([6, 9, 7, 40])
    room.log_prob[0, 1:] = -torch.inf  # a sentence that has just begun
    room.n_ended[3] = n_beams - 1
    room.log_prob[3, 1:] = -torch.inf
    room.forced[1, 9:11] = torch.tensor([150, 151])  # the second for the next step
    room.min_length.fill_(7)
    slots = slots_on(device, 3, 0, 1, 2, room.spare)
    logits = 5 * torch.randn(5 * n_beams, STRIDE, device=device)
    logits[:, [PAD, BEGIN]] += 20
    logits[:, END] += 20  # where it may come, it comes
    before = {name: value.clone() for name, value in vars(room).items() if torch.is_tensor(value)}

    answer = extend(best_of_chunks(logits, room, slots, VOCABULARY), room, slots).cpu()

    log_probs = logits[:, :VOCABULARY].log_softmax(1).view(5, n_beams, VOCABULARY)
    log_probs[..., [PAD, BEGIN]] = -torch.inf
    for place, slot in enumerate(slots.tolist()[:4]):
        position = int(before["position"][slot])
        if position < 7:
            log_probs[place, :, END] = -torch.inf
        totals = before["log_prob"][slot][:, None] + log_probs[place]
        if slot == 1:
            totals[:, [token for token in range(VOCABULARY) if token != 150]] = -torch.inf
        n_picks = n_beams - int(before["n_ended"][slot])
        best = totals.flatten().sort(descending=True, stable=True)
        total = best.values[:n_picks].cpu()
        ids, parents = best.indices[:n_picks].cpu() % VOCABULARY, best.indices.cpu() // VOCABULARY
        found = torch.from_numpy(answer[place, 2].numpy().view(np.float32))
        assert_close(found[:n_picks], total, atol=1e-4, rtol=1e-5)
        assert (found[n_picks:] == -torch.inf).all()
        there = (total > -torch.inf).nonzero().flatten()
        assert answer[place, 0, there].tolist() == ids[there].tolist()
        assert answer[place, 1, there].tolist() == parents[there].tolist()
        # What the next step reads.
        assert room.position[slot] == position + 1
        ended = ids[there] == END
        assert room.n_ended[slot] - before["n_ended"][slot] == ended.sum()
        live = torch.where(ended, -torch.inf, total[there])
        assert_close(room.log_prob[slot, there].cpu(), live, atol=1e-4, rtol=1e-5)
        assert (room.log_prob[slot, len(there) :] == -torch.inf).all()
        assert room.last[slot, there].tolist() == ids[there].tolist()
        for beam in there.tolist():
            parent = int(parents[beam])
            expected = [*before["origins"][slot, parent, :position].tolist(), parent]
            assert room.origins[slot, beam, : position + 1].tolist() == expected
    assert (room.log_prob[room.spare] == -torch.inf).all()


@pytest.mark.usefixtures("_small_chunks")
def test_of_equals_the_first_is_taken(device: torch.device) -> None:
    room, slots = a_room(device, n_slots=1), slots_on(device, 0)
    room.log_prob[0] = torch.tensor([-1.0, -1.0, -9.0])
    logits = torch.zeros(3, STRIDE, device=device)
    logits[:, [290, 170, 10, 260]] = 4

    answer = extend(best_of_chunks(logits, room, slots, VOCABULARY), room, slots)

    assert answer[0, 0].tolist() == [10, 170, 260]
    assert answer[0, 1].tolist() == [0, 0, 0]


def test_a_kernel_that_computes_something_else_is_noticed(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    try_a_kernel(device, torch.float16)
    # The product of a smaller matrix: some of the numbers are never written.
    multiply = trial._multiply
    broken = {(1,): lambda a, product, **_: multiply[(1,)](a, product.zero_(), SIZE=16)}
    monkeypatch.setattr(trial, "_SIZE", 32)
    monkeypatch.setattr(trial, "_multiply", broken)

    with pytest.raises(RuntimeError, match="computes something else"):
        try_a_kernel(device, torch.float16)
