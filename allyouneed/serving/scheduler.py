"""The queue: sentences of all requests, joined into batches that are fair and of like lengths.

Each request waits with a line of sentences of its own, and the lines are served in turn. So a
long document does not hold up a short text: a batch takes the first sentence of every line before
the second of any. Whatever stands before it, the first sentence of a new request is in a batch
after one batch for each other request at the latest. Other work on the models takes turns with the
batches.
"""

import asyncio
import itertools
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Generic, TypeVar

from allyouneed.serving.metrics import Metrics
from allyouneed.serving.refusals import Refusal

M = TypeVar("M", bound=Hashable)  # how to translate; only what is alike in this can be joined
R = TypeVar("R")  # what becomes of a sentence
T = TypeVar("T")

_WINDOW = 4  # batches' worth of sentences among which those of like lengths are found
_SHORT = 16  # tokens: less costs no less
_LONGEST_RETRY = 60


@dataclass(frozen=True)
class Sentence:
    text: str
    n_tokens: int


@dataclass(frozen=True, eq=False)
class _Place(Generic[M, R]):
    """A sentence in the queue."""

    sentence: Sentence
    job: "Job[M, R]"
    result: asyncio.Future[R]
    since: float


class Job(Generic[M, R]):
    """The sentences of one request; leaving its `with` gives up those that still wait."""

    def __init__(
        self, scheduler: "Scheduler[M, R]", manner: M, sentences: Sequence[Sentence]
    ) -> None:
        self.manner = manner
        loop = asyncio.get_running_loop()
        self._scheduler = scheduler
        self._places = [
            _Place(sentence, self, loop.create_future(), loop.time()) for sentence in sentences
        ]
        self.waiting = dict.fromkeys(self._places)  # an ordered set

    async def results(self) -> AsyncIterator[R]:
        """In the order of the sentences, each as soon as it and those before it are done."""
        for place in self._places:
            yield await place.result

    def cancel(self) -> None:
        self._scheduler.forget(self)
        for place in self._places:
            place.result.cancel()

    def __enter__(self) -> "Job[M, R]":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()


class Scheduler(Generic[M, R]):
    """Calls `translate` with one batch at a time, in a thread of its own."""

    def __init__(
        self,
        translate: Callable[[M, Sequence[str]], Sequence[R]],
        *,
        batch_tokens: int,
        batch_sentences: int,
        batch_wait: float,
        max_waiting: int,
        metrics: Metrics,
    ) -> None:
        self._translate = translate
        self._batch_tokens = batch_tokens
        self._batch_sentences = batch_sentences
        self._batch_wait = batch_wait
        self._max_waiting = max_waiting
        self._metrics = metrics
        self._jobs: dict[Job[M, R], None] = {}  # an ordered set: whose turn comes first
        self._calls: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._n_waiting = 0
        self._arrived = asyncio.Event()
        self._seconds_a_sentence = 0.0  # lately
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="translate")

    def submit(self, manner: M, sentences: Sequence[Sentence]) -> Job[M, R]:
        """Put sentences into the queue; all of them or, if it is full, none."""
        self._take_places(len(sentences))
        job = Job(self, manner, sentences)
        if job.waiting:
            self._jobs[job] = None
            self._arrived.set()
        return job

    async def call(self, function: Callable[[], T]) -> T:
        """Run something else in the thread of the models, when its turn comes."""
        self._take_places(1)
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._calls.append((function, result))
        self._arrived.set()
        try:
            return await result
        finally:
            self._free_places(1)

    def forget(self, job: Job[M, R]) -> None:
        self._free_places(len(job.waiting))
        job.waiting.clear()
        self._jobs.pop(job, None)

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            while True:
                await self._arrived.wait()
                if self._n_waiting < self._batch_sentences:
                    await asyncio.sleep(self._batch_wait)  # who is answered together asks together
                if not self._jobs and not self._calls:
                    self._arrived.clear()
                if batch := self._next_batch():
                    await self._serve(batch)
                if self._calls:
                    await self._serve_call(*self._calls.popleft())
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _next_batch(self) -> list[_Place[M, R]]:
        """The first in turn, the first of the other lines, and then what is near it in length."""
        if not self._jobs:
            return []
        in_turn = self._in_turn(next(iter(self._jobs)).manner)
        (_, first), *others = itertools.islice(in_turn, _WINDOW * self._batch_sentences)
        length = first.sentence.n_tokens
        others.sort(key=lambda it: (it[0] > 0, abs(it[1].sentence.n_tokens - length)))
        batch, longest = [first], max(length, _SHORT)
        for _, place in others:
            if len(batch) == self._batch_sentences:
                break
            longest_with_it = max(longest, place.sentence.n_tokens)
            if (len(batch) + 1) * longest_with_it <= self._batch_tokens:
                batch.append(place)
                longest = longest_with_it
        self._remove(batch)
        return batch

    def _in_turn(self, manner: M) -> Iterator[tuple[int, _Place[M, R]]]:
        """Number 0 of each line that can be joined, then number 1 of each, and so on."""
        lines = [job.waiting for job in self._jobs if job.manner == manner]
        for number, turn in enumerate(itertools.zip_longest(*lines)):
            yield from ((number, place) for place in turn if place is not None)

    def _remove(self, batch: Sequence[_Place[M, R]]) -> None:
        self._free_places(len(batch))
        for place in batch:
            del place.job.waiting[place]
        for job in dict.fromkeys(place.job for place in batch):  # now it is the others' turn
            del self._jobs[job]
            if job.waiting:
                self._jobs[job] = None

    async def _serve(self, batch: Sequence[_Place[M, R]]) -> None:
        begin = asyncio.get_running_loop().time()
        self._metrics.queue_seconds(begin - place.since for place in batch)
        await self._translate_batch(batch)

    async def _translate_batch(self, batch: Sequence[_Place[M, R]]) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        texts = [place.sentence.text for place in batch]
        try:
            results = await loop.run_in_executor(
                self._thread, self._translate, batch[0].job.manner, texts
            )
        except Exception as error:
            if len(batch) > 1:  # alone, so that nobody suffers for a sentence of somebody else
                for place in batch:
                    if not place.result.done():
                        await self._translate_batch([place])
            elif not (result := batch[0].result).done():
                result.set_exception(error)
                result.exception()  # a request hears of its first; the rest are seen
            return
        for place, answer in zip(batch, results, strict=True):
            if not place.result.done():  # as it is where the client has gone
                place.result.set_result(answer)
        seconds = loop.time() - begin
        self._metrics.batch(len(batch), sum(it.sentence.n_tokens for it in batch), seconds)
        self._seconds_a_sentence += 0.2 * (seconds / len(batch) - self._seconds_a_sentence)

    async def _serve_call(self, function: Callable[[], T], result: asyncio.Future[T]) -> None:
        if result.done():  # the client has gone
            return
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._thread, function)
        except Exception as error:
            if not result.done():
                result.set_exception(error)
            return
        if not result.done():
            result.set_result(answer)

    def check_room(self, number: int = 1) -> None:
        """Refuse so many sentences if there is no place for them."""
        if self._n_waiting + number > self._max_waiting:
            seconds = math.ceil(self._n_waiting * self._seconds_a_sentence)
            raise Refusal(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"too busy: {self._n_waiting} sentences are waiting; try again later",
                retry_after=min(max(1, seconds), _LONGEST_RETRY),
            )

    def _take_places(self, number: int) -> None:
        self.check_room(number)
        self._free_places(-number)

    def _free_places(self, number: int) -> None:
        self._n_waiting -= number
        self._metrics.waiting(self._n_waiting)
