"""Around every request: limits on its body, safe headers, one line of log, metrics."""

import logging
import time
import traceback
from collections.abc import Mapping
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from allyouneed.serving.metrics import Metrics
from allyouneed.serving.refusals import Refusal

LOG = logging.getLogger("allyouneed.serving")

_NOTHING = "default-src 'none'; frame-ancestors 'self'"  # our page reads errors out of its frame
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
NO_ROUTE = "(none)"


class Watch:
    """Nothing that a client sent gets into logs or metrics, but for the method if it is usual."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, max_body: int, policies: Mapping[str, str]
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._max_body = max_body
        self._policies = policies  # of content, where a path has one of its own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin = time.perf_counter()
        policy = self._policies.get(scope["path"], _NOTHING)
        answer = _Answer(send, {"Content-Security-Policy": policy, **_HEADERS})
        with self._metrics.in_flight.track_inprogress():
            try:
                await self._app(scope, self._limited(scope, receive), answer.send)
            except Exception as error:
                _log_defect(error)
                if answer.status is None:
                    await _internal_error(scope, receive, answer.send)
        seconds = time.perf_counter() - begin
        route = getattr(scope.get("route"), "path", NO_ROUTE)
        status = answer.status or 0  # 0: the client went away before
        self._metrics.request(scope["method"], route, status, seconds)
        LOG.info(
            "request",
            extra={"path": route, "status": status, "seconds": round(seconds, 4)},
        )

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """A `receive` that refuses bodies which say or prove that they are too large."""
        n_bytes = 0

        async def limited() -> Message:
            nonlocal n_bytes
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if max(n_bytes, _announced(scope)) > self._max_body:
                raise Refusal(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                    f"the body is larger than {self._max_body} bytes; send it in parts",
                )
            return message

        return limited


def _announced(scope: Scope) -> int:
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(lengths[0]) if lengths and lengths[0].isdigit() else 0


class _Answer:
    """Passes an answer on with the headers that all of them have, and remembers its status."""

    def __init__(self, send: Send, headers: Mapping[str, str]) -> None:
        self._send = send
        self._headers = headers
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in self._headers.items():
                headers.setdefault(name, value)
        await self._send(message)


async def _internal_error(scope: Scope, receive: Receive, send: Send) -> None:
    content = {"error": "the server made a mistake; its log says which"}
    response = JSONResponse(content, HTTPStatus.INTERNAL_SERVER_ERROR)
    await response(scope, receive, send)


def _log_defect(error: Exception) -> None:
    """Where and of what kind; the message is left out, since it might quote the user's text."""
    frames = traceback.extract_tb(error.__traceback__)
    LOG.error(
        "defect",
        extra={
            "error": type(error).__name__,
            "where": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
        },
    )
