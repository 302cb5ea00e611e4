"""The HTTP application: endpoints, errors and headers around one desk."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from typing_extensions import TypedDict  # pydantic reads typing's from Python 3.12 on only

from allyouneed import __version__
from allyouneed.errors import UserError
from allyouneed.serving import libretranslate, operations, own_endpoints
from allyouneed.serving.desk import Desk
from allyouneed.serving.middleware import LOG, Watch
from allyouneed.serving.refusals import ClientGone, Refusal
from allyouneed.serving.service import Service
from allyouneed.serving.settings import Settings
from allyouneed.translator import Translator

Load = Callable[[], Mapping[str, Translator]]


class ErrorAnswer(TypedDict):
    error: str


_ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorAnswer, "description": "What was wrong with the request."},
    "5XX": {"model": ErrorAnswer, "description": "Too busy, too slow, not ready; try again."},
}
# Swagger's page starts with a script inside it and styles itself; it shows nothing of any user.
_DOCS_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; frame-ancestors 'none'"
)


def create_app(load: Load, settings: Settings, fail: Callable[[Exception], None]) -> FastAPI:
    """An application that loads its models while it already answers.

    `fail` is told what made that, or the queue, come to an end.
    """
    desk = Desk(settings)

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        working = asyncio.create_task(_work(desk, load, fail))
        yield
        desk.close()
        working.cancel()
        await asyncio.wait({working})

    app: FastAPI = FastAPIOffline(
        title="allyouneed",
        version=__version__,
        description="Translations; LibreTranslate's endpoints and some of our own.",
        openapi_url="/spec",
        redoc_url=None,
        lifespan=lifespan,
    )
    for routes in (libretranslate.routes, own_endpoints.routes, operations.routes):
        app.include_router(routes(desk), responses=_ERRORS)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(UserError, _user_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(ClientGone, _nobody)
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.allowed_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.add_middleware(
        Watch,
        metrics=desk.metrics,
        max_body=settings.max_body,
        policies={"/docs": _DOCS_POLICY},
    )
    return app


async def _work(desk: Desk, load: Load, fail: Callable[[Exception], None]) -> None:
    try:
        translators = await asyncio.to_thread(load)
        service = Service(translators, desk.settings, desk.metrics)
        await asyncio.to_thread(service.warm_up)
        desk.open(service)
        engines = {name: _engine(translator) for name, translator in translators.items()}
        LOG.info("ready", extra={"models": engines})
        await service.run()
    except Exception as error:
        desk.close()
        fail(error)


def _engine(translator: Translator) -> str:
    """What searches; why it is the plain one where a faster was hoped for stands in the log."""
    return "plain" if translator.engine is None else translator.engine.name


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": message}, status, headers)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return _error(error.status, error.message, error.headers)


async def _user_error(_request: Request, error: Exception) -> Response:
    return _error(HTTPStatus.BAD_REQUEST, str(error))


async def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, error.detail, error.headers)


async def _nobody(_request: Request, _error: Exception) -> Response:
    return Response(status_code=499)  # what nginx logs for a client that has gone
