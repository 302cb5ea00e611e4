"""No input, however odd, gets anything but an answer or a reason."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_server import POSTS, small_server
from starlette.testclient import TestClient


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with small_server() as client:
        yield client


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"q"',
        b"NaN",
        b'{"q": NaN, "text": NaN, "source": NaN}',
        b'{"q": "\\ud800", "text": "\\ud800", "source": "\\ud800"}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"q":' * 10_000,
        b'{"q": 1' + b"0" * 5_000 + b"}",
    ],
    ids=range(12),
)
def test_bad_json_is_a_bad_request(client: TestClient, path: str, body: bytes) -> None:
    answer = client.post(path, content=body, headers={"Content-Type": "application/json"})

    assert answer.status_code == 400
    assert list(answer.json()) == ["error"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children),
    max_leaves=5,
)
TEXT = st.text(st.characters(exclude_categories=[]), max_size=60)  # lone surrogates, NUL and all
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(["q", "text"], TEXT | st.lists(TEXT, max_size=3) | JSON),
        "source": st.sampled_from(["en", "auto", "de"]) | TEXT | JSON,
        "target": st.sampled_from(["de", "en"]) | TEXT | JSON,
        "format": st.sampled_from(["text", "html", "json"]) | JSON,
        "alternatives": st.integers(-1, 20) | JSON,
        "model": st.just("tiny") | JSON,
        "n_best": st.integers(-1, 20) | JSON,
        "beam_size": st.integers(-1, 20) | JSON,
        "length_penalty": st.floats() | JSON,
        "details": st.booleans() | JSON,
        "tokens": st.lists(TEXT, max_size=3) | JSON,
        "api_key": JSON,
        "file": JSON,
    },
)
many_times = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@many_times
@given(st.sampled_from(POSTS), FIELDS)
def test_no_json_breaks_the_server(client: TestClient, path: str, fields: dict[str, Any]) -> None:
    body = json.dumps(fields).encode()

    answer = client.post(path, content=body, headers={"Content-Type": "application/json"})

    assert_answered(answer.status_code, answer.text)


@many_times
@given(
    st.sampled_from(POSTS),
    st.sampled_from(
        ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", ""]
    ),
    st.binary(max_size=80)
    | TEXT.map(lambda text: b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n'
               + text.encode(errors="replace") + b"\r\n--x--"),
)  # fmt: skip
def test_no_form_breaks_the_server(
    client: TestClient, path: str, content_type: str, body: bytes
) -> None:
    answer = client.post(path, content=body, headers={"Content-Type": content_type})

    assert_answered(answer.status_code, answer.text)


def assert_answered(status: int, text: str) -> None:
    assert status in {200, 400}, text
    if status == 400:
        assert list(json.loads(text)) == ["error"]
    assert "Traceback" not in text
