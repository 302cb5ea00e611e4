"""What all endpoints share: errors, keys, limits, headers, metrics."""

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from small_server import POSTS, small_server
from starlette.testclient import TestClient
from tiny_translator import tiny_translator

from allyouneed.errors import CheckpointError
from allyouneed.serving.app import create_app
from allyouneed.serving.settings import Settings
from allyouneed.translator import Translator


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with small_server() as client:
        yield client


def test_a_defect_is_told_without_what_it_was_about(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_self: Translator, texts: object, **_: object) -> None:
        raise ValueError(f"cannot translate {texts}")

    with small_server() as client:
        monkeypatch.setattr(Translator, "translate", broken)
        with caplog.at_level("INFO", "allyouneed.serving"):
            answer = client.post("/v1/translate", json={"text": "my secret"})

    assert answer.status_code == 500
    assert list(answer.json()) == ["error"]
    assert "secret" not in answer.text
    records = [str(vars(record)) for record in caplog.records if record.name.startswith("ally")]
    assert any("ValueError" in record for record in records)
    assert not any("secret" in record for record in records)


def test_unknown_paths_and_methods(client: TestClient) -> None:
    missing, wrong = client.get("/nothing/here"), client.get("/translate")

    assert (missing.status_code, wrong.status_code) == (404, 405)
    assert list(missing.json()) == list(wrong.json()) == ["error"]
    assert wrong.headers["allow"] == "POST"


def chunks(n_bytes: int) -> Iterator[bytes]:
    for _ in range(n_bytes // 100):
        yield b"x" * 100


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/x-www-form-urlencoded", "text/plain"]
)
def test_bodies_that_are_too_large_are_refused_announced_or_not(content_type: str) -> None:
    with small_server(max_body=1000) as client:
        headers = {"Content-Type": content_type}
        announced = client.post("/translate", content=b"x" * 1001, headers=headers)
        promised = {**headers, "Content-Length": "1001"}
        unsent = client.post("/translate", content=b"x", headers=promised)
        chunked = client.post("/translate", content=chunks(5000), headers=headers)
        small_enough = client.post("/translate", content=b"x" * 1000, headers=headers)

    for refused in (announced, unsent, chunked):
        assert refused.status_code == 413
        assert list(refused.json()) == ["error"]
    assert small_enough.status_code == 400


KEY = "a-secret-key"
ASK: Mapping[str, Any] = {"q": "One.", "source": "en", "target": "de"}


def test_keys_are_taken_from_body_query_or_header() -> None:
    with small_server(keys=frozenset({KEY})) as client:
        assert client.post("/translate", json={**ASK, "api_key": KEY}).is_success
        assert client.post("/translate", data={**ASK, "api_key": KEY}).is_success
        assert client.post("/translate", json=ASK, params={"api_key": KEY}).is_success
        bearer = {"Authorization": f"Bearer {KEY}"}
        assert client.post("/translate", json=ASK, headers=bearer).is_success

        for path in POSTS:
            assert client.post(path, json=ASK).status_code == 403
            refused = client.post(path, json={**ASK, "api_key": "wrong"})
            assert refused.status_code == 403
            assert list(refused.json()) == ["error"]


def test_what_a_page_must_know_first_needs_no_key() -> None:
    with small_server(keys=frozenset({KEY})) as client:
        for path in ("/", "/health", "/ready", "/languages", "/v1/models", "/frontend/settings"):
            assert client.get(path).is_success
        assert client.get("/v1/models").json()["key_required"] is True


def test_too_many_requests_are_slowed_down() -> None:
    with small_server(requests_per_minute=2) as client:
        statuses = [client.post("/translate", json=ASK).status_code for _ in range(3)]
        refused = client.post("/detect", json={"q": "One."})

    assert statuses == [200, 200, 429]
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 30


def test_alive_before_ready() -> None:
    loaded = threading.Event()

    def load() -> dict[str, Translator]:
        assert loaded.wait(10)
        return {"tiny": tiny_translator()}

    with TestClient(create_app(load, Settings(), print)) as client:
        assert client.get("/health").json() == {"status": "ok"}
        not_ready = [client.get("/ready"), client.post("/translate", json=ASK)]
        assert [answer.status_code for answer in not_ready] == [503, 503]
        assert all("retry-after" in answer.headers for answer in not_ready)

        loaded.set()
        while client.get("/ready").status_code == 503:
            pass
        assert client.post("/translate", json=ASK).is_success


def test_models_that_cannot_be_loaded_are_reported() -> None:
    failures: list[Exception] = []
    reported = threading.Event()

    def load() -> dict[str, Translator]:
        raise CheckpointError("damaged")

    def fail(error: Exception) -> None:
        failures.append(error)
        reported.set()

    with TestClient(create_app(load, Settings(), fail)) as client:
        assert reported.wait(10)
        assert client.get("/ready").status_code == 503

    assert [str(error) for error in failures] == ["damaged"]


@pytest.mark.parametrize("path", ["/", "/docs", "/spec", "/health", "/nothing", "/v1/models"])
def test_headers_are_safe_everywhere(client: TestClient, path: str) -> None:
    headers = client.get(path).headers

    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["content-security-policy"].startswith("default-src")
    assert "frame-ancestors '" in headers["content-security-policy"]  # none, or our own page
    assert "access-control-allow-origin" not in headers
    assert "https://" not in client.get(path).text.replace("https://json-schema.org", "")


def test_the_page_runs_only_its_own_scripts(client: TestClient) -> None:
    page = client.get("/")

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


def test_files_of_the_page_are_asked_for_once(client: TestClient) -> None:
    style = client.get("/page/style.css")
    again = client.get("/page/style.css", headers={"If-None-Match": style.headers["etag"]})

    assert style.headers["content-type"].startswith("text/css")
    assert (again.status_code, again.content) == (304, b"")
    policy = "content-security-policy"
    assert again.headers[policy] == style.headers[policy]
    assert client.get("/page/..%2Fapp.py").status_code == 404
    assert client.get("/page/app.py").status_code == 404


def test_other_sites_may_ask_only_where_they_are_allowed_to() -> None:
    origin = {"Origin": "https://example.org"}
    with small_server(allowed_origins=("https://example.org",)) as client:
        allowed = client.post("/translate", json=ASK, headers=origin)
        other = client.post("/translate", json=ASK, headers={"Origin": "https://other.org"})

    assert allowed.headers["access-control-allow-origin"] == "https://example.org"
    assert "access-control-allow-origin" not in other.headers


def test_metrics_count_and_measure_in_seconds_and_hold_nothing_of_users() -> None:
    with small_server(keys=frozenset({KEY})) as client:
        client.post("/translate", json={**ASK, "q": "Hush. Hush.", "api_key": KEY})
        client.get("/page/hush")
        client.get("/hush/hush")
        client.request("HUSH", "/health")
        answer = client.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.text.splitlines()
    counted = 'allyouneed_http_requests_total{method="POST",path="/translate",status="200"} 1.0'
    assert counted in lines
    assert 'allyouneed_http_request_duration_seconds_count{path="/translate"} 1.0' in lines
    assert "allyouneed_sentences_total 2.0" in lines
    assert "allyouneed_queue_seconds_count 2.0" in lines
    assert "allyouneed_waiting_sentences 0.0" in lines
    assert "hush" not in answer.text.lower()
    assert KEY not in answer.text


def test_the_openapi_document_describes_all_endpoints(client: TestClient) -> None:
    spec = client.get("/spec").json()

    assert {*POSTS, "/languages", "/v1/models", "/health", "/ready", "/metrics"} <= {*spec["paths"]}
    fields = spec["paths"]["/translate"]["post"]["requestBody"]["content"]["application/json"]
    assert {"q", "source", "target", "format", "alternatives"} <= {*fields["schema"]["properties"]}
    assert "/static-offline-docs/swagger-ui-bundle.js" in client.get("/docs").text
    assert client.get("/static-offline-docs/swagger-ui-bundle.js").is_success
