import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allyouneed.serving.metrics import Metrics
from allyouneed.serving.refusals import Refusal
from allyouneed.serving.scheduler import Job, Scheduler, Sentence

BATCH_SENTENCES, BATCH_TOKENS, MAX_WAITING = 4, 100, 50


@dataclass
class Model:
    """Writes sentences in capitals; holds its batches back while its gate is closed."""

    batches: list[tuple[str, list[str]]] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)

    def translate(self, manner: str, texts: Sequence[str]) -> list[str]:
        self.batches.append((manner, list(texts)))
        assert self.gate.wait(10)
        if "poison" in texts:
            raise ValueError
        return [text.upper() for text in texts]


@dataclass
class World:
    model: Model
    scheduler: Scheduler[str, str]

    def submit(self, *texts: str, manner: str = "plain", n_tokens: int = 5) -> Job[str, str]:
        return self.scheduler.submit(manner, [Sentence(text, n_tokens) for text in texts])

    async def busy(self) -> Job[str, str]:
        """Have the model at work on a batch, so that what follows waits."""
        job = self.submit("first")
        while not self.model.batches:
            await asyncio.sleep(0.001)
        return job


@asynccontextmanager
async def world(batch_wait: float = 0.0) -> AsyncIterator[World]:
    model = Model()
    scheduler = Scheduler(
        model.translate,
        batch_tokens=BATCH_TOKENS,
        batch_sentences=BATCH_SENTENCES,
        batch_wait=batch_wait,
        max_waiting=MAX_WAITING,
        metrics=Metrics(),
    )
    running = asyncio.create_task(scheduler.run())
    yield World(model, scheduler)
    model.gate.set()
    running.cancel()
    await asyncio.wait({running})


def in_a_world(scenario: Callable[[World], Any], batch_wait: float = 0.0) -> None:
    async def run() -> None:
        async with world(batch_wait) as it:
            await asyncio.wait_for(scenario(it), 20)

    asyncio.run(run())


async def results(job: Job[str, str]) -> list[str]:
    return [result async for result in job.results()]


def test_each_request_gets_its_own_sentences_in_order() -> None:
    async def scenario(it: World) -> None:
        it.model.gate.set()
        jobs = [it.submit(*(f"{n}-{k}" for k in range(7)), n_tokens=5 + n) for n in range(6)]

        for n, job in enumerate(jobs):
            assert await results(job) == [f"{n}-{k}" for k in range(7)]

    in_a_world(scenario)


def test_what_comes_while_the_model_is_busy_is_translated_together() -> None:
    async def scenario(it: World) -> None:
        await it.busy()
        jobs = [it.submit(text) for text in "abc"]
        it.model.gate.set()

        assert [await results(job) for job in jobs] == [["A"], ["B"], ["C"]]
        assert it.model.batches[1:] == [("plain", ["a", "b", "c"])]

    in_a_world(scenario)


def test_an_idle_model_waits_a_moment_for_company() -> None:
    async def scenario(it: World) -> None:
        it.model.gate.set()
        first = it.submit("a")
        await asyncio.sleep(0.01)
        second = it.submit("b")

        await asyncio.gather(results(first), results(second))
        assert it.model.batches == [("plain", ["a", "b"])]

    in_a_world(scenario, batch_wait=0.3)


def test_a_full_batch_waits_for_nothing() -> None:
    async def scenario(it: World) -> None:
        it.model.gate.set()
        await results(it.submit(*"abcd"))  # in time, though the wait is longer than the test's

    in_a_world(scenario, batch_wait=60)


def test_a_long_document_does_not_hold_up_a_short_text() -> None:
    async def scenario(it: World) -> None:
        await it.busy()
        document = it.submit(*(f"long {k}" for k in range(40)), n_tokens=20)
        short = it.submit("short", n_tokens=4)
        it.model.gate.set()

        await asyncio.gather(results(document), results(short))
        batch_of_short = next(
            n for n, (_, texts) in enumerate(it.model.batches) if "short" in texts
        )
        assert batch_of_short <= 2  # the first is that which kept it busy

    in_a_world(scenario)


def test_requests_are_served_in_turn() -> None:
    async def scenario(it: World) -> None:
        await it.busy()
        documents = [it.submit(*(f"{name}{k}" for k in range(8))) for name in "abcd"]
        it.model.gate.set()

        await asyncio.gather(*map(results, documents))
        for _, texts in it.model.batches[1:]:
            assert sorted(text[0] for text in texts) == list("abcd")

    in_a_world(scenario)


def test_every_request_has_its_first_sentence_done_before_any_its_second() -> None:
    async def scenario(it: World) -> None:
        await it.busy()
        document = it.submit(*(f"long {k}" for k in range(9)), n_tokens=20)
        jobs = [it.submit(f"short {k}", n_tokens=4) for k in range(3)]
        it.model.gate.set()

        await asyncio.gather(results(document), *map(results, jobs))
        assert it.model.batches[1] == ("plain", ["long 0", "short 0", "short 1", "short 2"])

    in_a_world(scenario)


def test_sentences_of_like_lengths_are_joined() -> None:
    async def scenario(it: World) -> None:
        await it.busy()
        jobs = [it.submit(f"{n}", n_tokens=n) for n in (20, 4, 21, 5, 6, 22, 7, 23)]
        it.model.gate.set()

        await asyncio.gather(*map(results, jobs))
        assert [sorted(texts) for _, texts in it.model.batches[1:3]] == [
            ["20", "21", "22", "23"],
            ["4", "5", "6", "7"],
        ]

    in_a_world(scenario)


def test_what_is_too_long_for_a_batch_leaves_its_place_to_what_is_not() -> None:
    async def scenario(it: World) -> None:
        await it.busy()
        jobs = [it.submit(f"{n}", n_tokens=n) for n in (20, 60, 4, 90)]
        it.model.gate.set()

        await asyncio.gather(*map(results, jobs))
        assert [texts for _, texts in it.model.batches[1:]] == [["20", "4"], ["60"], ["90"]]

    in_a_world(scenario)


def test_different_manners_are_not_joined() -> None:
    async def scenario(it: World) -> None:
        await it.busy()
        jobs = [it.submit("a", manner="x"), it.submit("b", manner="y"), it.submit("c", manner="x")]
        it.model.gate.set()

        await asyncio.gather(*map(results, jobs))
        assert it.model.batches[1:] == [("x", ["a", "c"]), ("y", ["b"])]

    in_a_world(scenario)


def test_a_long_document_does_not_hold_up_what_cannot_be_joined_with_it() -> None:
    async def scenario(it: World) -> None:
        await it.busy()
        document = it.submit(*(f"long {k}" for k in range(40)), manner="x")
        other = it.submit("other", manner="y")
        it.model.gate.set()

        await asyncio.gather(results(document), results(other))
        assert it.model.batches[2] == ("y", ["other"])

    in_a_world(scenario)


def test_a_full_queue_refuses_at_once_and_whole() -> None:
    async def scenario(it: World) -> None:
        await it.busy()
        waiting = it.submit(*"a" * (MAX_WAITING - 1))
        with pytest.raises(Refusal) as refusal:
            it.submit("b", "c")
        assert refusal.value.status == 503
        assert refusal.value.retry_after is not None
        assert refusal.value.retry_after >= 1

        last = it.submit("d")  # one place is left
        with pytest.raises(Refusal):
            await it.scheduler.call(lambda: None)
        it.model.gate.set()
        assert await results(last) == ["D"]
        await results(waiting)

    in_a_world(scenario)


def test_who_leaves_frees_the_place_and_is_not_translated() -> None:
    async def scenario(it: World) -> None:
        await it.busy()
        with it.submit(*"a" * MAX_WAITING, manner="another"):
            pass
        job = it.submit(*"b" * MAX_WAITING)
        it.model.gate.set()

        assert await results(job) == ["B"] * MAX_WAITING
        assert all("a" not in texts for _, texts in it.model.batches)

    in_a_world(scenario)


def test_who_leaves_during_the_batch_harms_nobody_in_it() -> None:
    async def scenario(it: World) -> None:
        it.submit("a").cancel()
        leaving = await it.busy()
        leaving.cancel()
        job = it.submit("b")
        it.model.gate.set()

        assert await results(job) == ["B"]

    in_a_world(scenario)


def test_a_batch_that_fails_is_heard_of_and_the_next_goes_on() -> None:
    async def scenario(it: World) -> None:
        it.model.gate.set()
        with it.submit("poison", "other") as job, pytest.raises(ValueError):  # noqa: PT011
            await results(job)

        assert await results(it.submit("a")) == ["A"]

    in_a_world(scenario)


def test_nobody_suffers_for_a_sentence_of_somebody_else() -> None:
    async def scenario(it: World) -> None:
        await it.busy()
        before, poisoned, after = it.submit("a"), it.submit("poison"), it.submit("b")
        it.model.gate.set()

        assert [await results(before), await results(after)] == [["A"], ["B"]]
        with pytest.raises(ValueError):  # noqa: PT011
            await results(poisoned)
        assert it.model.batches[1] == ("plain", ["a", "poison", "b"])

    in_a_world(scenario)


def test_other_work_is_done_between_batches_in_the_same_thread() -> None:
    async def scenario(it: World) -> None:
        it.model.gate.set()
        await results(it.submit("a"))

        name = await it.scheduler.call(lambda: threading.current_thread().name)
        assert name.startswith("translate")

    in_a_world(scenario)


def test_other_work_and_batches_take_turns() -> None:
    async def scenario(it: World) -> None:
        n_batches: list[int] = []
        await it.busy()
        calls = [
            asyncio.create_task(it.scheduler.call(lambda: n_batches.append(len(it.model.batches))))
            for _ in range(3)
        ]
        leaving = asyncio.create_task(it.scheduler.call(lambda: n_batches.append(-1)))
        document = it.submit(*"abcdefghijklmnop")
        await asyncio.sleep(0.01)
        leaving.cancel()
        it.model.gate.set()

        await asyncio.gather(results(document), *calls)
        assert n_batches == [1, 2, 3]

    in_a_world(scenario)


def test_other_work_that_fails_is_heard_of_and_the_next_goes_on() -> None:
    async def scenario(it: World) -> None:
        it.model.gate.set()
        with pytest.raises(ZeroDivisionError):
            await it.scheduler.call(lambda: 1 // 0)

        assert await results(it.submit("a")) == ["A"]

    in_a_world(scenario)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("xy"), st.lists(st.integers(1, 150), max_size=9)), max_size=8
    )
)
def test_whatever_comes_is_answered_in_batches_that_keep_the_limits(
    requests: list[tuple[str, list[int]]],
) -> None:
    async def scenario(it: World) -> None:
        it.model.gate.set()
        jobs = [
            it.scheduler.submit(
                manner,
                [Sentence(f"r{n} s{k} {length}", length) for k, length in enumerate(lengths)],
            )
            for n, (manner, lengths) in enumerate(requests[:5])
        ]
        for n, job in enumerate(jobs):
            lengths = requests[n][1]
            assert await results(job) == [f"R{n} S{k} {it}" for k, it in enumerate(lengths)]
        for _, texts in it.model.batches:
            longest = max(int(text.split()[-1]) for text in texts)
            assert len(texts) == 1 or len(texts) * longest <= BATCH_TOKENS
            assert len(texts) <= BATCH_SENTENCES

    in_a_world(scenario)
