"""LibreTranslate's endpoints, so that programs written for it work with this server."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import PurePath
from typing import Any, NotRequired
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from typing_extensions import TypedDict  # pydantic reads typing's from Python 3.12 on only

from allyouneed.serving.answers import SentenceAnswer
from allyouneed.serving.catalogue import AUTO, Recognised, recognise_all, recognise_best
from allyouneed.serving.desk import Desk
from allyouneed.serving.downloads import Downloads
from allyouneed.serving.refusals import Refusal, bad_request
from allyouneed.serving.request_bodies import (
    DetectBody,
    FileBody,
    SentFile,
    TranslateBody,
    openapi_body,
)
from allyouneed.serving.service import Passage
from allyouneed.text.language import language_name

FILE_FORMATS = {".txt": "text", ".md": "text", ".html": "html"}
_TELLING = 40  # characters; a shorter text is recognised together with those beside it


class RecognisedAnswer(TypedDict):
    confidence: float
    language: str


class TranslateAnswer(TypedDict):
    translatedText: str | list[str]
    detectedLanguage: NotRequired[RecognisedAnswer | list[RecognisedAnswer]]
    alternatives: NotRequired[list[str] | list[list[str]]]


class LanguageAnswer(TypedDict):
    code: str
    name: str
    targets: list[str]


class FileAnswer(TypedDict):
    translatedFileUrl: str


def routes(desk: Desk) -> APIRouter:
    router = APIRouter(tags=["LibreTranslate"])
    router.include_router(_file_routes(desk))

    @router.post("/translate", openapi_extra=openapi_body(TranslateBody))
    async def translate(request: Request) -> TranslateAnswer:
        """Translate a text, or each of a list."""
        body = await desk.receive(request, TranslateBody)
        return await desk.answer(request, _translate(desk, body))

    @router.post("/detect", openapi_extra=openapi_body(DetectBody))
    async def detect(request: Request) -> list[RecognisedAnswer]:
        """Say which of the loaded languages a text is in, the likeliest first."""
        body = await desk.receive(request, DetectBody)
        if not body.q:
            raise bad_request("missing q parameter")
        desk.check_length(body.text)
        languages = desk.service.catalogue.languages()
        return [_recognised(it) for it in recognise_all(body.text, languages)]

    @router.get("/languages")
    async def languages() -> list[LanguageAnswer]:
        """List the loaded languages and what each can be translated to."""
        catalogue = desk.service.catalogue
        return [
            {"code": code, "name": language_name(code), "targets": [*catalogue.targets(code), code]}
            for code in catalogue.languages()
        ]

    @router.post("/suggest")
    async def suggest() -> None:
        """Refuse: suggestions are not collected."""
        raise Refusal(HTTPStatus.FORBIDDEN, "Suggestions are disabled on this server.")

    @router.get("/frontend/settings")
    async def frontend_settings() -> dict[str, Any]:
        """Say what a page must know."""
        source, target, *_ = desk.service.catalogue.languages()
        return {
            "charLimit": desk.settings.max_characters,
            "frontendTimeout": 500,
            "apiKeys": desk.admission.key_required,
            "keyRequired": desk.admission.key_required,
            "suggestions": False,
            "filesTranslation": True,
            "supportedFilesFormat": list(FILE_FORMATS),
            "language": {
                "source": {"code": source, "name": language_name(source)},
                "target": {"code": target, "name": language_name(target)},
            },
        }

    return router


def _file_routes(desk: Desk) -> APIRouter:
    router, downloads = APIRouter(), Downloads()

    @router.post("/translate_file", openapi_extra=openapi_body(FileBody, "multipart/form-data"))
    async def translate_file(request: Request) -> FileAnswer:
        """Translate a file; the answer says where to fetch it."""
        body = await desk.receive(request, FileBody)
        filename = PurePath(body.file.filename).name
        form = FILE_FORMATS.get(PurePath(filename).suffix.lower())
        if form is None:
            raise bad_request(f"file format not supported; send {', '.join(FILE_FORMATS)}")
        fields = {"q": _text_of(body.file), "source": body.source, "target": body.target}
        translated = await desk.answer(
            request, _translate(desk, TranslateBody.model_validate({**fields, "format": form}))
        )
        name = downloads.add(filename, str(translated["translatedText"]).encode())
        return {"translatedFileUrl": str(request.url_for("download_file", name=name))}

    @router.get("/download_file/{name}", response_class=Response)
    async def download_file(name: str) -> Response:
        """Fetch a translated file."""
        file = downloads.get(name)
        if file is None:
            raise Refusal(HTTPStatus.NOT_FOUND, "there is no such file, or not any more")
        disposition = f"attachment; filename*=UTF-8''{quote(file.filename)}"
        return Response(
            file.content,
            media_type="application/octet-stream",
            headers={"Content-Disposition": disposition},
        )

    return router


def _text_of(file: SentFile) -> str:
    try:
        text = file.content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise bad_request("the file is not in UTF-8; convert it") from None
    if not text:
        raise bad_request("empty file")
    return text


async def _translate(desk: Desk, body: TranslateBody) -> TranslateAnswer:
    texts = body.texts
    if not body.q:
        raise bad_request("missing q parameter")
    desk.check_length(*texts)
    catalogue = desk.service.catalogue
    target = catalogue.resolve(body.target)
    if body.source == AUTO:
        # Among them the target: what is in it already stays as it is.
        languages = [*catalogue.sources(target), target]
        recognised = await asyncio.to_thread(_recognise_each, texts, languages)
        sources = [it.language for it in recognised]
    else:
        recognised, sources = [], [catalogue.resolve(body.source)] * len(texts)
    found: dict[int, list[str]] = {}  # the translation and its alternatives, by place
    for source in dict.fromkeys(sources):
        places = [place for place, it in enumerate(sources) if it == source]
        its_texts = [texts[place] for place in places]
        found |= zip(places, await _variants(desk, body, its_texts, source, target), strict=True)

    variants = [found[place] for place in range(len(texts))]
    is_list = isinstance(body.q, list)
    best = [it[0] for it in variants]
    answer: TranslateAnswer = {"translatedText": best if is_list else best[0]}
    if recognised:
        detected = [_recognised(it) for it in recognised]
        answer["detectedLanguage"] = detected if is_list else detected[0]
    if body.alternatives:
        others = [it[1:] for it in variants]
        answer["alternatives"] = others if is_list else others[0]
    return answer


async def _variants(
    desk: Desk, body: TranslateBody, texts: Sequence[str], source: str, target: str
) -> list[list[str]]:
    """Of each text its translation and then its alternatives."""
    if source == target:
        return [[text] for text in texts]
    service = desk.service
    choice = service.catalogue.between(source, target)
    passages: Sequence[Passage]
    if body.format == "html":
        passages = await service.html_passages(choice, texts)
    else:
        passages = await service.text_passages(choice, texts)
    needs_words = any(passage.needs_words for passage in passages)
    manner = service.manner(choice, n_best=1 + body.alternatives, details=needs_words)
    answers = await service.translate(passages, manner)
    return list(map(_different_rebuilds, passages, answers))


def _different_rebuilds(passage: Passage, answers: Sequence[SentenceAnswer]) -> list[str]:
    """The passage in its sentences' best hypotheses, in the next best, and so on."""
    n_ranks = max((len(answer["hypotheses"]) for answer in answers), default=1)
    return list(dict.fromkeys(passage.rebuild(answers, rank) for rank in range(n_ranks)))


def _recognise_each(texts: Sequence[str], languages: Sequence[str]) -> list[Recognised]:
    together = " ".join(texts)
    return [recognise_best(text if len(text) > _TELLING else together, languages) for text in texts]


def _recognised(it: Recognised) -> RecognisedAnswer:
    return {"confidence": it.confidence, "language": it.language}
