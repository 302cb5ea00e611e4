"""A server in this process whose model is tiny and gives back what it gets."""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from starlette.testclient import TestClient
from tiny_translator import copying_search, tiny_translator

from allyouneed.serving.app import create_app
from allyouneed.serving.settings import Settings

POSTS = [
    "/translate",
    "/detect",
    "/translate_file",
    "/v1/translate",
    "/v1/stream",
    "/v1/attention",
]


@contextlib.contextmanager
def small_server(**settings: Any) -> Iterator[TestClient]:
    """Translates English to German by copying; ready to answer."""

    def fail(error: Exception) -> None:
        raise error

    app = create_app(lambda: {"tiny": tiny_translator()}, Settings(**settings), fail)
    with (
        mock.patch("allyouneed.inference.plain_search.search", copying_search),
        TestClient(app, raise_server_exceptions=False) as client,
    ):
        while not client.get("/ready").is_success:
            pass
        yield client
