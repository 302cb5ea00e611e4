"""The native engine and its search find what the plain twin finds."""

import dataclasses
import multiprocessing
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from native_models import CONFIG, WORTH_SHARING, engine_of, needs_compiler, random_model, sources
from numpy.typing import NDArray
from searches import LIMITS, assert_same, found_fast

from allyouneed.inference import BeamSearch, Greedy, Hypothesis, Limits, search
from allyouneed.inference.beams import Beam, Picks, Task
from allyouneed.inference.engine import ROW, Candidates, Ids
from allyouneed.inference.fast_engine import FastEngine
from allyouneed.inference.fast_search import refilling
from allyouneed.inference.host_beams import HostBeams
from allyouneed.rows import one_sentence_a_row
from allyouneed.text.tokenizer import BEGIN, END, PAD


@needs_compiler
@pytest.mark.parametrize(
    ("strategy", "n_best"),
    [(BeamSearch(4), 4), (BeamSearch(5, 0.0), 2), (BeamSearch(4, 3.0), 1), (Greedy(), 1)],
)
def test_the_native_engine_finds_what_the_plain_model_finds(
    strategy: BeamSearch | Greedy, n_best: int
) -> None:
    model, texts = random_model(), sources(30)

    fast = found_fast(engine_of(model), texts, strategy, n_best=n_best)

    assert_same(fast, search(model, texts, strategy, LIMITS, n_best))


@needs_compiler
@pytest.mark.parametrize("limits", [Limits(9, min_length=7), Limits(50, max_length=5)])
def test_lengths_are_limited_as_in_the_plain_search(limits: Limits) -> None:
    model, texts, beam = random_model(), sources(10), BeamSearch(3)

    fast = found_fast(engine_of(model), texts, beam, limits, n_best=2)

    assert_same(fast, search(model, texts, beam, limits, 2))


@needs_compiler
def test_prefixes_are_kept() -> None:
    model, texts, beam = random_model(), sources(8), BeamSearch(3)
    prefixes = [text[: number % 3] for number, text in enumerate(texts)]

    fast = found_fast(engine_of(model), texts, beam, n_best=3, prefixes=prefixes)

    assert_same(fast, search(model, texts, beam, LIMITS, 3, prefixes))
    for prefix, hypotheses in zip(prefixes, fast, strict=True):
        assert all(list(it.ids[: len(prefix)]) == prefix for it in hypotheses)


@needs_compiler
def test_learned_positions_bound_the_length() -> None:
    config = dataclasses.replace(CONFIG, positions="learned", max_positions=20)
    model, texts, beam = random_model(config), sources(6, longest=18), BeamSearch(2)

    fast = found_fast(engine_of(model), texts, beam)

    assert_same(fast, search(model, texts, beam, LIMITS))
    assert all(best.length <= 20 for [best] in fast)


@needs_compiler
def test_threads_change_nothing() -> None:
    model, texts = random_model(WORTH_SHARING), sources(40)

    one, three = (
        found_fast(engine_of(model, threads=n), texts, BeamSearch(4), n_best=4, batch_tokens=2000)
        for n in (1, 3)
    )

    assert_same(one, three)


@needs_compiler
@pytest.mark.parametrize("may_end", [True, False])
def test_all_candidates_have_the_plain_models_probabilities(may_end: bool) -> None:
    model = random_model()
    model.embedding.weight.data[1::2] *= 20  # logits so far apart that sums must be scaled anew
    engine, source = engine_of(model), sources(1)[0]
    engine.reserve(1, 1, len(source) + 1, 2)
    engine.encode([source], [0])
    row = np.array([(0, 0, 0, BEGIN, -1, may_end)], dtype=ROW)

    found = engine.step(row, np.zeros((1, 1, 2), dtype=np.int32), CONFIG.vocab_size)

    with torch.no_grad():
        state = model.start(one_sentence_a_row([[*source, END]]))
        logits, _ = model.step(torch.tensor([BEGIN]), state)
    expected = logits[0].log_softmax(-1)
    never = {PAD, BEGIN} if may_end else {PAD, BEGIN, END}
    n_candidates = CONFIG.vocab_size - len(never)
    assert set(found.ids[0, :n_candidates].tolist()) == set(range(CONFIG.vocab_size)) - never
    assert found.log_probs[0, :n_candidates] == pytest.approx(
        expected[found.ids[0, :n_candidates].tolist()].numpy(), abs=2e-3
    )
    assert (np.diff(found.log_probs[0, :n_candidates]) <= 0).all()
    assert (found.log_probs[0, n_candidates:] == -np.inf).all()


@needs_compiler
def test_eight_bits_are_nearly_the_same() -> None:
    model, texts = random_model(), sources(20)
    limits = Limits(max_extra_tokens=5, max_length=1)  # one token: what is probable at the start

    fast = found_fast(engine_of(model, eight_bits=True), texts, Greedy(), limits)

    plain = search(model, texts, Greedy(), limits)
    differences = [
        ours.log_probability - theirs.log_probability
        for [ours], [theirs] in zip(fast, plain, strict=True)
    ]
    assert 0 < np.abs(differences).mean() < 0.1


def _ids_in_a_child(
    queue: "multiprocessing.Queue[list[Any]]", engine: FastEngine, texts: list[list[int]]
) -> None:
    queue.put([best.ids for [best] in found_fast(engine, texts, Greedy())])


@needs_compiler
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_can_go_on_with_the_engine() -> None:
    engine, texts = engine_of(random_model(WORTH_SHARING)), sources(40)
    before = [best.ids for [best] in found_fast(engine, texts, Greedy())]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()

    child = context.Process(target=_ids_in_a_child, args=(queue, engine, texts))
    child.start()

    assert queue.get(timeout=60) == before
    child.join(timeout=60)
    assert child.exitcode == 0


class _Counting:
    """An engine whose sentences end after as many tokens as their first id says."""

    def __init__(self) -> None:
        self.rows_of_steps: list[int] = []
        self.encoded_at_once: list[int] = []
        self._lengths: dict[int, int] = {}

    def reserve(self, n_slots: int, n_beams: int, longest_source: int, longest_target: int) -> None:
        assert n_beams == 1

    def encode(self, sources: Sequence[Ids], slots: Sequence[int]) -> None:
        self.encoded_at_once.append(len(sources))
        self._lengths.update(zip(slots, (source[0] for source in sources), strict=True))

    def offer(self, slot: int, choices: NDArray[np.int32]) -> None:
        raise AssertionError("there is no shortlist")

    def step(self, rows: NDArray[Any], origins: NDArray[np.int32], n_best: int) -> Candidates:
        self.rows_of_steps.append(len(rows))
        lengths = np.array([self._lengths[int(slot)] for slot in rows["slot"]])
        ids = np.where(rows["position"] < lengths, 10 + rows["position"], END).astype(np.int32)
        return Candidates(ids[:, None], np.zeros((len(rows), 1), dtype=np.float32))


def assert_counted(found: dict[int, list[Hypothesis]], lengths: list[int]) -> None:
    for place, length in enumerate(lengths):
        assert found[place][0].ids == tuple(range(10, 10 + length))


def test_the_batch_stays_full_while_sentences_wait() -> None:
    lengths = [30, 3, 3, 3, 3, 3, 3, 3]
    engine = _Counting()
    tasks = [Task([length], (), 50) for length in lengths]

    found = dict(refilling(HostBeams(engine), tasks, Beam(1, 0.0), n_slots=2))

    assert_counted(found, lengths)
    # While the long one goes on, the seven short ones take turns in the other slot.
    assert engine.rows_of_steps == [2] * 28 + [1] * 3


class _Ahead(HostBeams):
    """Beams that are a step ahead of those who take their picks, as on a GPU."""

    ahead = 1
    refill_share = 0.5

    def reserve(self, n_slots: int, beam: Beam, tasks: Sequence[Task]) -> None:
        longer = [dataclasses.replace(task, longest=task.longest + 1) for task in tasks]
        super().reserve(n_slots, beam, longer)


@needs_compiler
def test_steps_ahead_change_nothing() -> None:
    """What was begun for a sentence that is done by then is nothing to the next in its slot."""
    engine = engine_of(random_model())
    tasks = [Task(source, (), len(source) + 12) for source in sources(30)]

    for beam in (Beam(4, 0.6, n_best=4), Beam(1, 0.0)):
        one_by_one = dict(refilling(HostBeams(engine), tasks, beam, n_slots=5))
        ahead = dict(refilling(_Ahead(engine), tasks, beam, n_slots=5))

        assert ahead.keys() == one_by_one.keys()
        assert_same([ahead[n] for n in range(30)], [one_by_one[n] for n in range(30)])


def test_slots_are_refilled_together_where_that_is_asked_for() -> None:
    lengths = [30, 3, 9, 9, 5, 5, 5, 5]
    engine = _Counting()
    tasks = [Task([length], (), 50) for length in lengths]

    found = dict(refilling(_Ahead(engine), tasks, Beam(1, 0.0), n_slots=4))

    assert_counted(found, lengths)
    # The slot of the second is left free until those of the next two are.
    assert engine.encoded_at_once == [4, 3, 1]


class _Scripted(HostBeams):
    """One slot, in which three hypotheses end one after the other."""

    def __init__(self) -> None:
        nothing = -np.inf
        self._script = iter(
            [
                ([5, 6, END], [0, 0, 0], [-1.0, -2.0, -3.0]),
                ([7, END, 0], [1, 0, 0], [-2.8, -2.6, nothing]),
                ([END, 0, 0], [0, 0, 0], [-2.9, nothing, nothing]),
            ]
        )

    def reserve(self, n_slots: int, beam: Beam, tasks: Sequence[Task]) -> None:
        pass

    def begin(self, tasks: Sequence[Task], slots: Sequence[int]) -> None:
        pass

    def advance(self, slots: NDArray[np.int64]) -> Callable[[], Picks]:
        ids, parents, log_probs = map(np.array, next(self._script))
        whole = ids[None].astype(np.int32), parents[None].astype(np.int32)
        return lambda: Picks(*whole, log_probs[None].astype(np.float32))


def test_what_ended_early_is_found_again_and_the_search_goes_on_for_all_that_are_wanted() -> None:
    [(_, hypotheses)] = refilling(_Scripted(), [Task([9], (), 9)], Beam(3, 0.0, n_best=3), 1)

    assert [it.ids for it in hypotheses] == [(5,), (6, 7), ()]
    assert [it.score for it in hypotheses] == pytest.approx([-2.6, -2.9, -3.0])
    assert all(it.finished for it in hypotheses)


def test_no_more_source_tokens_are_taken_in_than_allowed() -> None:
    engine = _Counting()
    tasks = [Task([5] * length, (), 50) for length in (9, 4, 4, 4, 1)]

    found = dict(refilling(HostBeams(engine), tasks, Beam(1, 0.0), n_slots=5, n_tokens=8))

    assert sorted(found) == list(range(5))
    # One that is too long alone, then two of four, then the others.
    assert engine.rows_of_steps == [1] * 6 + [2] * 12


@needs_compiler
def test_threads_that_share_an_engine_take_turns() -> None:
    engine, texts = engine_of(random_model()), sources(30)
    expected = found_fast(engine, texts, BeamSearch(3))
    found: list[list[list[Hypothesis]]] = []
    callers = [
        threading.Thread(target=lambda: found.append(found_fast(engine, texts, BeamSearch(3))))
        for _ in range(4)
    ]

    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=60)

    assert found == [expected] * 4
