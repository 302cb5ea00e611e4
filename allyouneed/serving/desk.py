"""What every endpoint begins with: the body is read, its sender admitted, its answer awaited."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import Request

from allyouneed.serving.admission import Admission
from allyouneed.serving.metrics import Metrics
from allyouneed.serving.refusals import ClientGone, Refusal, bad_request
from allyouneed.serving.request_bodies import Body, parse_body, read_fields
from allyouneed.serving.service import Service
from allyouneed.serving.settings import Settings

B = TypeVar("B", bound=Body)
T = TypeVar("T")
_BEARER = "bearer "


class Desk:
    """The server's state as the endpoints see it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.admission = Admission(settings)
        self._service: Service | None = None

    @property
    def is_open(self) -> bool:
        return self._service is not None

    @property
    def service(self) -> Service:
        if self._service is None:
            raise Refusal(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "the models are not loaded; see /ready",
                retry_after=1,
            )
        return self._service

    def open(self, service: Service) -> None:
        self._service = service

    def close(self) -> None:
        self._service = None

    async def receive(self, request: Request, kind: type[B]) -> B:
        """The body of a request, if whoever sent it is admitted."""
        async with self.deadline():
            fields = await read_fields(request, self.settings.max_body)
        self.admission.admit(_key(request, fields.get("api_key")), _address(request))
        return parse_body(kind, fields)

    def check_length(self, *texts: str) -> None:
        """Refuse what is too much even before it is split into sentences."""
        limit, n_characters = self.settings.max_characters, sum(map(len, texts))
        if n_characters > limit:
            raise bad_request(f"request ({n_characters}) exceeds text limit ({limit})")
        if len(texts) > self.settings.max_sentences:
            raise bad_request(f"{len(texts)} texts exceed the limit {self.settings.max_sentences}")

    async def answer(self, request: Request, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives, unless it takes too long or nobody waits for it any more."""
        working = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(_left(request))
        try:
            async with self.deadline():
                await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise ClientGone
        finally:
            for task in (working, leaving):
                task.cancel()

    @contextlib.asynccontextmanager
    async def deadline(self) -> AsyncIterator[None]:
        """Refuse what is not done in time."""
        try:
            async with asyncio.timeout(self.settings.timeout):
                yield
        except TimeoutError:
            raise Refusal(
                HTTPStatus.GATEWAY_TIMEOUT, "this took too long; send less at once, or later"
            ) from None


def _key(request: Request, in_body: object) -> str | None:
    """As in LibreTranslate: a field of the body or the query; or a bearer token."""
    if isinstance(in_body, str) and in_body:
        return in_body
    authorization = request.headers.get("authorization", "")
    if authorization.lower().startswith(_BEARER):
        return authorization[len(_BEARER) :].strip()
    return request.query_params.get("api_key")


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


async def _left(request: Request) -> None:
    """Return when the client has hung up; its body has been read, so nothing else can come."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
