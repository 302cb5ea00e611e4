"""Passages in, translated passages out: sentences are cut, queued, and put together again."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from allyouneed.inference import BeamSearch
from allyouneed.serving.answers import SentenceAnswer, sentence_answer
from allyouneed.serving.catalogue import Catalogue, Choice, recognise_best
from allyouneed.serving.html_passages import HtmlPassage
from allyouneed.serving.metrics import Metrics
from allyouneed.serving.refusals import bad_request
from allyouneed.serving.scheduler import Job, Scheduler, Sentence
from allyouneed.serving.settings import Settings
from allyouneed.text.sentences import Document, TooManySentencesError
from allyouneed.translator import Translator
from allyouneed.visualization.attention import Attention


@dataclass(frozen=True)
class Manner:
    """How to translate; sentences that are alike in this can share a batch."""

    model: str
    beam_size: int
    length_penalty: float
    n_best: int = 1
    details: bool = False


class Passage(Protocol):
    """What is translated sentence by sentence and keeps the rest."""

    @property
    def sentences(self) -> Sequence[str]: ...

    @property
    def needs_words(self) -> bool: ...

    def rebuild(self, answers: Sequence[SentenceAnswer], rank: int = 0) -> str:
        """With the hypothesis of that rank in each sentence's place, or its last."""


class TextPassage:
    """Plain text."""

    needs_words = False

    def __init__(self, text: str, split: Callable[[str], Document]) -> None:
        self.document = split(text)

    @property
    def sentences(self) -> Sequence[str]:
        return self.document.sentences

    def rebuild(self, answers: Sequence[SentenceAnswer], rank: int = 0) -> str:
        hypotheses = (answer["hypotheses"] for answer in answers)
        return self.document.rebuild([it[min(rank, len(it) - 1)]["text"] for it in hypotheses])


class Service:
    """The loaded models behind one queue."""

    def __init__(
        self, translators: Mapping[str, Translator], settings: Settings, metrics: Metrics
    ) -> None:
        self.catalogue = Catalogue(translators)
        self._settings = settings
        self._scheduler = Scheduler[Manner, SentenceAnswer](
            self._translate_batch,
            batch_tokens=min(it.batch_tokens for it in translators.values()),
            batch_sentences=settings.batch_sentences,
            batch_wait=settings.batch_wait,
            max_waiting=settings.max_waiting,
            metrics=metrics,
        )

    def warm_up(self) -> None:
        """Do what takes time only once, so that no request waits for it."""
        catalogue = self.catalogue
        recognise_best("", catalogue.languages())
        recognise_best("", catalogue.sources())
        for translator in catalogue.translators.values():
            target = translator.target_language
            recognise_best("", catalogue.sources(target))
            recognise_best("", [*catalogue.sources(target), target])
            translator.details(translator.translate(["."]))

    async def run(self) -> None:
        """Translate what is submitted, until cancelled."""
        await self._scheduler.run()

    def manner(
        self,
        choice: Choice,
        *,
        n_best: int = 1,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        details: bool = False,
    ) -> Manner:
        """The model's own manner where nothing else is asked for."""
        usual = choice.translator.manifest.decoding
        if beam_size is None:
            beam_size = max(usual.beam_size, n_best)
        if beam_size > self._settings.max_beam_size:
            raise bad_request(f"a beam of {beam_size} exceeds {self._settings.max_beam_size}")
        if n_best > beam_size:
            raise bad_request(f"a beam of {beam_size} cannot give the {n_best} best; enlarge it")
        if length_penalty is None:
            length_penalty = usual.length_penalty
        return Manner(choice.name, beam_size, length_penalty, n_best, details)

    async def text_passages(self, choice: Choice, texts: Sequence[str]) -> list[TextPassage]:
        split = self._splitter(choice)
        return await asyncio.to_thread(lambda: [TextPassage(text, split) for text in texts])

    async def html_passages(self, choice: Choice, pages: Sequence[str]) -> list[HtmlPassage]:
        split = self._splitter(choice)
        return await asyncio.to_thread(lambda: [HtmlPassage(page, split) for page in pages])

    def _splitter(self, choice: Choice) -> Callable[[str], Document]:
        """Splits texts until their sentences together are more than a request may have."""
        self._scheduler.check_room()  # a full queue refuses at once, before there is work
        most = n_left = self._settings.max_sentences

        def split(text: str) -> Document:
            nonlocal n_left
            try:
                document = choice.translator.sentences(text, n_left)
            except TooManySentencesError:
                raise bad_request(
                    f"there are more than {most} sentences; send them in parts"
                ) from None
            n_left -= len(document.sentences)
            return document

        return split

    async def translate(
        self, passages: Sequence[Passage], manner: Manner
    ) -> list[list[SentenceAnswer]]:
        """The sentences of each passage."""
        with await self.submit(passages, manner) as job:
            answers = [answer async for answer in job.results()]
        remaining = iter(answers)
        return [[next(remaining) for _ in passage.sentences] for passage in passages]

    async def submit(
        self, passages: Sequence[Passage], manner: Manner
    ) -> Job[Manner, SentenceAnswer]:
        texts = [text for passage in passages for text in passage.sentences]
        encode = self.catalogue.translators[manner.model].tokenizer.encode_batch
        lengths = await asyncio.to_thread(lambda: [1 + len(ids) for ids in encode(texts)])
        return self._scheduler.submit(manner, list(map(Sentence, texts, lengths)))

    async def attention(
        self, choice: Choice, source: str, target: str | Sequence[str] | None
    ) -> Attention:
        return await self._scheduler.call(lambda: choice.translator.attention(source, target))

    def _translate_batch(self, manner: Manner, texts: Sequence[str]) -> list[SentenceAnswer]:
        translator = self.catalogue.translators[manner.model]
        strategy = BeamSearch(manner.beam_size, manner.length_penalty)
        translations = translator.translate(texts, strategy=strategy, n_best=manner.n_best)
        if not manner.details:
            return [sentence_answer(translation) for translation in translations]
        return list(map(sentence_answer, translations, translator.details(translations)))
