"""Our own endpoints: hypotheses with words and scores, streams, attention."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, NotRequired

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import TypedDict  # pydantic reads typing's from Python 3.12 on only

from allyouneed.errors import UserError
from allyouneed.serving.answers import SentenceAnswer, TextAnswer
from allyouneed.serving.catalogue import Choice
from allyouneed.serving.desk import Desk
from allyouneed.serving.libretranslate import FILE_FORMATS, RecognisedAnswer
from allyouneed.serving.refusals import Refusal, bad_request
from allyouneed.serving.request_bodies import (
    AttentionBody,
    OwnTranslateBody,
    StreamBody,
    openapi_body,
)
from allyouneed.serving.scheduler import Job
from allyouneed.serving.service import Manner, TextPassage
from allyouneed.text.language import language_name
from allyouneed.translator import Translator
from allyouneed.visualization.page import page, page_data

# The explorer is one file with its script inside; in a sandbox it can reach nothing of ours.
_EXPLORER_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; frame-ancestors 'self'"
)
_MOST_TARGET_TOKENS = 512  # in a picture of attention, which grows with their square


class ModelAnswer(TypedDict):
    name: str
    source: str
    source_name: str
    target: str
    target_name: str
    layers: int
    decoder_layers: int
    heads: int
    width: int
    vocabulary: int
    beam_size: int
    length_penalty: float


class LimitsAnswer(TypedDict):
    characters: int
    sentences: int
    body_bytes: int
    beam_size: int


class ModelsAnswer(TypedDict):
    models: list[ModelAnswer]
    limits: LimitsAnswer
    key_required: bool
    file_types: list[str]


class Head(TypedDict):
    """What was translated with what."""

    model: str
    source: str
    target: str
    detected: NotRequired[RecognisedAnswer]


class TranslationsAnswer(Head):
    translations: list[TextAnswer]


def routes(desk: Desk) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["allyouneed"])

    @router.get("/models")
    async def models() -> ModelsAnswer:
        """List the loaded models and the server's limits."""
        settings = desk.settings
        return {
            "models": [_model(*it) for it in desk.service.catalogue.translators.items()],
            "limits": {
                "characters": settings.max_characters,
                "sentences": settings.max_sentences,
                "body_bytes": settings.max_body,
                "beam_size": settings.max_beam_size,
            },
            "key_required": desk.admission.key_required,
            "file_types": list(FILE_FORMATS),
        }

    @router.post("/translate", openapi_extra=openapi_body(OwnTranslateBody))
    async def translate(request: Request) -> TranslationsAnswer:
        """Translate texts; each sentence with hypotheses, scores and, on request, its words."""
        body = await desk.receive(request, OwnTranslateBody)
        desk.check_length(*body.texts)
        return await desk.answer(request, _translate(desk, body))

    @router.post(
        "/stream", openapi_extra=openapi_body(StreamBody), response_class=StreamingResponse
    )
    async def stream(request: Request) -> "_Lines":
        """Translate a text, and send each sentence as soon as it is done: a JSON object a line."""
        body = await desk.receive(request, StreamBody)
        desk.check_length(body.text)
        return await desk.answer(request, _stream(desk, body))

    @router.post(
        "/attention", openapi_extra=openapi_body(AttentionBody), response_model=dict[str, Any]
    )
    async def attention(request: Request) -> Response:
        """Give what every head attends to in a sentence and its translation."""
        body = await desk.receive(request, AttentionBody)
        return await desk.answer(request, _attention(desk, body))

    return router


async def _translate(desk: Desk, body: OwnTranslateBody) -> TranslationsAnswer:
    choice, manner = _choose(desk, body, body.texts)
    passages = await desk.service.text_passages(choice, body.texts)
    answers = await desk.service.translate(passages, manner)
    translations = [_text(*it) for it in zip(passages, answers, strict=True)]
    return {**_head(choice), "translations": translations}


async def _stream(desk: Desk, body: StreamBody) -> "_Lines":
    choice, manner = _choose(desk, body, body.texts)
    [passage] = await desk.service.text_passages(choice, body.texts)
    document = passage.document
    first_line = {
        **_head(choice),
        "layout": document.layout,
        "sentences": len(document.sentences),
    }
    return _Lines(desk, first_line, await desk.service.submit([passage], manner))


class _Lines(StreamingResponse):
    """A job's results, a line each; when the answer ends, however it does, so does the job."""

    media_type = "application/x-ndjson"

    def __init__(
        self, desk: Desk, first_line: dict[str, Any], job: Job[Manner, SentenceAnswer]
    ) -> None:
        self._desk = desk
        self._job = job
        super().__init__(self._lines(first_line))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._job:
            await super().__call__(scope, receive, send)

    async def _lines(self, first_line: dict[str, Any]) -> AsyncIterator[str]:
        yield _line(first_line)
        results = aiter(self._job.results())
        index = 0
        try:
            while True:
                async with self._desk.deadline():
                    answer = await anext(results, None)
                if answer is None:
                    break
                yield _line({"index": index, **answer})
                index += 1
        except (Refusal, UserError) as error:
            yield _line({"error": str(error)})
            return
        yield _line({"done": True})


async def _attention(desk: Desk, body: AttentionBody) -> Response:
    target = body.target if body.tokens is None else body.tokens
    desk.check_length(body.source, *([target] if isinstance(target, str) else target or []))
    choice = desk.service.catalogue.choose(body.source, body.model, None, None)
    _check_target_length(choice.translator, target)
    found = await desk.service.attention(choice, body.source, target)
    if body.format == "html":
        html = await asyncio.to_thread(page, found)  # of megabytes, while others are answered
        return HTMLResponse(html, headers={"Content-Security-Policy": _EXPLORER_POLICY})
    return await asyncio.to_thread(lambda: JSONResponse(page_data(found)))


def _check_target_length(translator: Translator, target: str | Sequence[str] | None) -> None:
    tokens = translator.tokenizer.encode(target) if isinstance(target, str) else target or []
    if len(tokens) > _MOST_TARGET_TOKENS:
        raise bad_request(
            f"a translation of {len(tokens)} tokens exceeds {_MOST_TARGET_TOKENS}; "
            "give one sentence"
        )


def _choose(desk: Desk, body: OwnTranslateBody, texts: Sequence[str]) -> tuple[Choice, Manner]:
    service = desk.service
    choice = service.catalogue.choose(" ".join(texts), body.model, body.source, body.target)
    manner = service.manner(
        choice,
        n_best=body.n_best,
        beam_size=body.beam_size,
        length_penalty=body.length_penalty,
        details=body.details,
    )
    return choice, manner


def _head(choice: Choice) -> Head:
    head: Head = {
        "model": choice.name,
        "source": choice.translator.source_language,
        "target": choice.translator.target_language,
    }
    if choice.recognised is not None:
        head["detected"] = {
            "language": choice.recognised.language,
            "confidence": choice.recognised.confidence,
        }
    return head


def _text(passage: TextPassage, answers: list[SentenceAnswer]) -> TextAnswer:
    return {
        "text": passage.rebuild(answers),
        "layout": list(passage.document.layout),
        "sentences": answers,
    }


def _model(name: str, translator: Translator) -> ModelAnswer:
    config, decoding = translator.manifest.model, translator.manifest.decoding
    return {
        "name": name,
        "source": translator.source_language,
        "source_name": language_name(translator.source_language),
        "target": translator.target_language,
        "target_name": language_name(translator.target_language),
        "layers": config.n_layers,
        "decoder_layers": config.decoder_layers,
        "heads": config.n_heads,
        "width": config.d_model,
        "vocabulary": config.vocab_size,
        "beam_size": decoding.beam_size,
        "length_penalty": decoding.length_penalty,
    }


def _line(content: object) -> str:
    return json.dumps(content, ensure_ascii=False) + "\n"
