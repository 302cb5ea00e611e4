"""For those who run the server, and the page for those who use it."""

import hashlib
import mimetypes
from http import HTTPStatus
from importlib import resources

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from allyouneed.serving.desk import Desk
from allyouneed.serving.refusals import Refusal

_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_READING = ["GET", "HEAD"]


def routes(desk: Desk) -> APIRouter:
    router = APIRouter(tags=["operations"])
    files = _page_files()

    @router.head("/health", include_in_schema=False)
    @router.get("/health")
    async def health() -> dict[str, str]:
        """Say that the process answers."""
        return {"status": "ok"}

    @router.head("/ready", include_in_schema=False)
    @router.get("/ready")
    async def ready() -> dict[str, str]:
        """Say whether the models are loaded."""
        if not desk.is_open:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "not ready", retry_after=1)
        return {"status": "ready"}

    @router.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Tell Prometheus."""
        return Response(desk.metrics.exposition(), media_type=CONTENT_TYPE_LATEST)

    @router.api_route("/", methods=_READING, include_in_schema=False)
    async def index(request: Request) -> Response:
        return _file(request, files.get("index.html"))

    @router.api_route("/page/{name}", methods=_READING, include_in_schema=False)
    async def page_file(request: Request, name: str) -> Response:
        return _file(request, files.get(name))

    return router


def _page_files() -> dict[str, Response]:
    """The answers that the files of the page are; there are few, and they are small."""
    found = {}
    for file in resources.files("allyouneed.serving").joinpath("page").iterdir():
        if not file.is_file():
            continue
        content = file.read_bytes()
        found[file.name] = Response(
            content,
            media_type=mimetypes.guess_type(file.name)[0],
            headers={
                "Content-Security-Policy": _PAGE_POLICY,
                "Cache-Control": "no-cache",
                "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
            },
        )
    return found


def _file(request: Request, file: Response | None) -> Response:
    if file is None:
        raise Refusal(HTTPStatus.NOT_FOUND, "there is no such page")
    if request.headers.get("if-none-match") == file.headers["etag"]:
        # Browsers take these in place of those they have stored.
        kept = ("etag", "cache-control", "content-security-policy")
        unchanged = {name: file.headers[name] for name in kept}
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=unchanged)
    return file
