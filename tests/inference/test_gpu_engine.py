"""The engine for GPUs finds what the plain twin finds; here mostly in Triton's interpreter."""

import dataclasses
import functools
import math
import weakref
from typing import ClassVar

import pytest
import searches
import torch
from native_models import random_model, sources

pytest.importorskip("triton", reason="Triton is not made for this system")

from allyouneed.config import ModelConfig
from allyouneed.inference import BeamSearch, Greedy, Hypothesis, Limits, search
from allyouneed.inference.beams import Beam, Task
from allyouneed.inference.engine import Ids
from allyouneed.inference.gpu.engine import GpuEngine, chunks
from allyouneed.inference.gpu.model import GpuModel
from allyouneed.inference.gpu.room import RoomSize
from allyouneed.inference.gpu.workspace import Workspace
from allyouneed.inference.hypotheses import penalty
from allyouneed.inference.teacher_forcing import token_log_probs
from allyouneed.model import Transformer
from allyouneed.text.tokenizer import END

# Small, as an interpreter runs the kernels one program after the other.
CONFIG = ModelConfig(
    vocab_size=101, n_layers=1, n_decoder_layers=2, d_model=32, d_ff=48, n_heads=1, d_k=16, d_v=32
)
LIMITS = Limits(max_extra_tokens=2)
TEXTS = sources(4, longest=4)

on_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
]


found_fast = functools.partial(searches.found_fast, batch_tokens=16_000)
assert_same = functools.partial(searches.assert_same, log_probability=1e-3)


def model_on(device: torch.device, config: ModelConfig = CONFIG) -> Transformer:
    return random_model(config).to(device)


def test_it_finds_what_the_plain_model_finds_in_slots_that_are_refilled(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, beam = model_on(device), BeamSearch(3)
    monkeypatch.setattr("allyouneed.inference.gpu.engine._MOST_ROWS", 6)
    model.embedding.weight.data[END] *= 2.5  # so that some end, and some do not

    fast = found_fast(GpuEngine(model, torch.float32), TEXTS, beam, LIMITS, n_best=3)

    assert_same(fast, search(model, TEXTS, beam, LIMITS, 3))
    assert {it.finished for hypotheses in fast for it in hypotheses} == {True, False}


def test_prefixes_and_lengths_are_kept(device: torch.device) -> None:
    model, limits = model_on(device), Limits(3, min_length=3)
    prefixes = [text[: number % 3] for number, text in enumerate(TEXTS)]

    fast = found_fast(GpuEngine(model, torch.float32), TEXTS, Greedy(), limits, prefixes=prefixes)

    assert_same(fast, search(model, TEXTS, Greedy(), limits, 1, prefixes))
    for prefix, [best] in zip(prefixes, fast, strict=True):
        assert list(best.ids[: len(prefix)]) == prefix
        assert len(best.ids) >= 3


def test_a_prefix_is_cut_where_the_model_knows_no_further_position(device: torch.device) -> None:
    model = model_on(device, dataclasses.replace(CONFIG, positions="learned", max_positions=5))
    prefix = sources(1)[0] * 20  # longer than any room that is made for five

    fast = found_fast(
        GpuEngine(model, torch.float32), TEXTS[:1], Greedy(), LIMITS, prefixes=[prefix]
    )

    assert fast[0][0].ids == tuple(prefix[:5])
    assert_same(fast, search(model, TEXTS[:1], Greedy(), LIMITS, 1, [prefix]))


def test_one_engine_makes_room_for_whatever_comes(device: torch.device) -> None:
    """Beams of other widths, longer sentences than before, more of them, and shorter ones again."""
    model = model_on(device, dataclasses.replace(CONFIG, positions="learned", max_positions=70))
    engine, limits = GpuEngine(model, torch.float32), Limits(50, max_length=2)
    long = sources(1, vocab_size=101) * 2

    for texts, strategy in (
        (TEXTS[:1], Greedy()),
        (TEXTS[:2], BeamSearch(2)),
        ([[*long[0], *long[0], *long[0]][:69]], Greedy()),
        (TEXTS[:1], Greedy()),
    ):
        assert_same(
            found_fast(engine, texts, strategy, limits), search(model, texts, strategy, limits)
        )


class _Counted(Workspace):
    """Of which the test knows how many there are, and how many there ever were."""

    alive: ClassVar[weakref.WeakSet[Workspace]] = weakref.WeakSet()
    alive_before: ClassVar[list[int]] = []  # each that was made

    def __init__(self, size: RoomSize, model: GpuModel) -> None:
        self.alive_before.append(len(self.alive))
        self.alive.add(self)
        super().__init__(size, model)


@pytest.mark.parametrize(
    ("memory", "alive_before"), [(2**30, [0, 1, 1]), (0, [0, 0, 0, 0, 0])], ids=["much", "little"]
)
def test_every_width_keeps_its_room_while_there_is_memory(
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
    memory: int,
    alive_before: list[int],
) -> None:
    monkeypatch.setattr("allyouneed.inference.gpu.engine.Workspace", _Counted)
    monkeypatch.setattr(_Counted, "alive_before", [])
    engine = GpuEngine(model_on(device), torch.float32)
    monkeypatch.setattr(engine, "_memory", lambda: memory)

    for n_beams, length in ((1, 5), (2, 5), (1, 5), (2, 5), (2, 90)):  # the last needs more room
        engine.reserve(1, Beam(n_beams, 0.6), [Task([4] * length, (), length)])

    assert _Counted.alive_before == alive_before


def test_memory_is_what_nobody_else_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the free bytes and of those in the engine's own rooms."""
    engine = GpuEngine(model_on(torch.device("cpu")), torch.float32)
    engine.reserve(1, Beam(1, 0.6), [Task([4] * 4, (), 2)])
    own = RoomSize.at_least(1, 1, 5, 2).bytes(CONFIG, torch.float32)
    monkeypatch.setattr(engine, "device", torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1000, 10**12))

    assert engine._memory() == (1000 + own) // 2


def test_rooms_are_shared_where_they_can_be() -> None:
    small, long = RoomSize.at_least(3, 4, 20, 60), RoomSize.at_least(1, 4, 100, 300)

    assert small == RoomSize(4, 4, 64, 128)
    assert not small.holds(long)
    assert small.joined(long) == RoomSize(4, 4, 128, 320)
    assert small.joined(long).holds(small)
    assert not small.holds(RoomSize.at_least(1, 2, 20, 60))  # a beam's width is no upper bound


def test_fewer_slots_where_there_is_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = GpuEngine(model_on(torch.device("cpu")), torch.float32)
    one = RoomSize.at_least(1, 4, 20, 60).bytes(CONFIG, torch.float32)

    assert engine.name == "GPU float32"
    assert engine.most_slots(4, 20, 60) == 512
    assert engine.most_slots(3000, 20, 60) == 1
    monkeypatch.setattr(engine, "_memory", lambda: 100 * one)
    assert engine.most_slots(4, 20, 60) == 64
    monkeypatch.setattr(engine, "_memory", lambda: one // 2)
    assert engine.most_slots(4, 20, 60) == 1


def test_sentences_are_encoded_as_many_at_once_as_may_be() -> None:
    lengths = [9000, 9000, 8000, 8000, 20_000, 5]

    parts = [lengths[part] for part in chunks(lengths)]

    assert parts == [[9000], [9000], [8000, 8000], [20_000], [5]]


LARGE = ModelConfig(vocab_size=2500, n_layers=2, d_model=128, d_ff=256, n_heads=4, d_k=32, d_v=32)


def rescore(model: Transformer, source: Ids, found: Hypothesis) -> float:
    """By the plain model."""
    [log_probs] = token_log_probs(model, [source], [found.ids])
    return math.fsum(log_probs[: found.length]) / penalty(found.length, 0.6)


@pytest.mark.parametrize("strategy", [BeamSearch(4), Greedy()])
@pytest.mark.parametrize(
    ("dtype", "error"),
    [
        pytest.param(torch.float16, 0.1, marks=on_gpu),
        pytest.param(torch.bfloat16, 0.5, marks=on_gpu),
    ],
)
def test_half_the_bits_are_nearly_the_same(
    dtype: torch.dtype, error: float, strategy: BeamSearch | Greedy
) -> None:
    """The plain model gives what was found the same score, and on average nearly that of its own.

    Which hypothesis is found may change with a rounding; what one is worth may not.
    """
    model, texts = model_on(torch.device("cuda"), LARGE), sources(300, 100, LARGE.vocab_size)
    engine = GpuEngine(model, dtype)

    # Twice, so that the second time all steps are replayed from graphs.
    first, second = (found_fast(engine, texts, strategy, Limits(20)) for _ in range(2))

    assert [best.ids for [best] in first] == [best.ids for [best] in second]
    plain = search(model, texts, strategy, Limits(20))
    rescored = [rescore(model, text, best) for text, [best] in zip(texts, first, strict=True)]
    for score, [ours] in zip(rescored, first, strict=True):
        assert ours.score == pytest.approx(score, abs=error)
    worse = [theirs.score - score for score, [theirs] in zip(rescored, plain, strict=True)]
    assert math.fsum(worse) / len(texts) < 0.1  # of 7.5
    same = sum(ours.ids == theirs.ids for [ours], [theirs] in zip(first, plain, strict=True))
    assert same > 0.5 * len(texts)


@pytest.mark.parametrize("n_best", [pytest.param(n, marks=on_gpu) for n in (1, 4)])
def test_recorded_steps_find_what_the_plain_model_finds(n_best: int) -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    model, texts = model_on(torch.device("cuda"), LARGE), sources(300, 100, LARGE.vocab_size)
    engine, limits = GpuEngine(model, torch.float32), Limits(20)
    plain = search(model, texts, BeamSearch(4), limits, n_best)

    for _ in range(2):
        fast = found_fast(engine, texts, BeamSearch(4), limits, n_best, batch_tokens=2000)
        pairs = list(zip(fast, plain, strict=True))
        same = [[it.ids for it in ours] == [it.ids for it in theirs] for ours, theirs in pairs]
        assert sum(same) >= 0.98 * len(texts)  # sums are rounded in another order
        ours, theirs = (sum(best[0].score for best in found) for found in (fast, plain))
        assert ours == pytest.approx(theirs, rel=1e-3)
