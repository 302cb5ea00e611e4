"""A server in a process of its own, spoken to as clients do."""

import asyncio
import json
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI
from live_server import LiveServer, running_server
from tiny_translator import tiny_translator

from allyouneed.checkpoint import save_model

KEY = "a-key-that-nobody-may-see"
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model."""
    translator = tiny_translator()
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save_model(folder, translator.model.state_dict(), translator.tokenizer, translator.manifest)
    return folder


@pytest.fixture(scope="module")
def captions(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Iterator[LiveServer]:
    """Serves the shipped models and a tiny one."""
    folder = tmp_path_factory.mktemp("captions")
    both = ("--model", "en-de", "--model", f"small={models}")
    with running_server(folder, *both) as server:
        yield server


def test_the_client_of_libretranslate_works(captions: LiveServer) -> None:
    client = LibreTranslateAPI(captions.url)

    assert client.translate("The dog is tired.", "en", "de") == "Der Hund ist müde."
    assert client.translate("The dog is tired.", "auto", "de") == "Der Hund ist müde."
    assert client.detect("Zwei Hunde spielen im Schnee.")[0]["language"] == "de"
    assert {it["code"] for it in client.languages()} == {"en", "de"}
    with pytest.raises(HTTPError) as error:
        client.translate("A man.", "en", "xx")
    assert error.value.code == 400
    assert "xx is not supported" in json.load(error.value)["error"]


def test_several_models_answer_by_name(captions: LiveServer) -> None:
    names = [it["name"] for it in httpx.get(f"{captions.url}/v1/models").json()["models"]]
    asked = [
        httpx.post(f"{captions.url}/v1/translate", json={"text": "Two dogs.", "model": name}).json()
        for name in names
    ]

    assert names == ["en-de", "small"]
    assert [it["model"] for it in asked] == names
    assert asked[0]["translations"][0]["text"] != asked[1]["translations"][0]["text"]


def test_no_answer_is_lost_or_swapped_when_many_ask_at_once(captions: LiveServer) -> None:
    """Each text alone, then all at once while others hang up: the same answers."""
    rng = random.Random(0)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(1, 9))) + "." for _ in range(24)]

    async def ask(client: httpx.AsyncClient, text: str) -> str:
        answer = await client.post("/v1/translate", json={"text": text, "model": "small"})
        return str(answer.json()["translations"][0]["sentences"][0])

    async def hang_up(client: httpx.AsyncClient, text: str) -> None:
        with pytest.raises(httpx.TimeoutException):
            await client.post("/v1/translate", json={"text": [text] * 40}, timeout=0.01)

    async def scenario() -> tuple[list[str], list[str]]:
        async with httpx.AsyncClient(base_url=captions.url, timeout=60) as client:
            alone = [await ask(client, text) for text in texts]
            leaving = [hang_up(client, text) for text in texts]
            staying = asyncio.gather(*(ask(client, text) for text in texts))
            await asyncio.gather(*leaving)
            return alone, await staying

    alone, together = asyncio.run(scenario())
    # Scores may differ in their last place with what shares a batch; texts may not.
    assert [it.split("'score'")[0] for it in alone] == [it.split("'score'")[0] for it in together]
    assert_queue_empties(captions)


def assert_queue_empties(server: LiveServer) -> None:
    end = time.monotonic() + 20
    while "allyouneed_waiting_sentences 0.0" not in httpx.get(f"{server.url}/metrics").text:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_who_hangs_up_frees_the_queue(captions: LiveServer) -> None:
    body = {"text": "A man in a blue shirt is standing on a ladder. " * 900}
    done = sentences_done(captions)
    with pytest.raises(httpx.TimeoutException):
        httpx.post(f"{captions.url}/v1/translate", json=body, timeout=0.5)
    with httpx.stream("POST", f"{captions.url}/v1/stream", json=body) as answer:
        next(answer.iter_lines())

    assert_queue_empties(captions)
    assert sentences_done(captions) - done < 900


def sentences_done(server: LiveServer) -> float:
    lines = httpx.get(f"{server.url}/metrics").text.splitlines()
    [line] = [line for line in lines if line.startswith("allyouneed_sentences_total")]
    return float(line.split()[1])


def test_a_stream_comes_a_sentence_at_a_time(captions: LiveServer) -> None:
    text = "A man in a blue shirt is standing on a ladder. " * 200
    begin = time.monotonic()
    arrivals = []
    with httpx.stream("POST", f"{captions.url}/v1/stream", json={"text": text}, timeout=60) as it:
        for line in it.iter_lines():
            arrivals.append((time.monotonic() - begin, json.loads(line)))

    assert [it["index"] for _, it in arrivals[1:-1]] == list(range(200))
    assert arrivals[-1][1] == {"done": True}
    assert arrivals[1][0] < arrivals[-1][0] / 2  # the first came well before the last


def test_a_short_text_passes_a_long_one(captions: LiveServer) -> None:
    async def scenario() -> list[str]:
        finished: list[str] = []

        async def ask(name: str, text: str) -> None:
            await client.post("/v1/translate", json={"text": text})
            finished.append(name)

        async with httpx.AsyncClient(base_url=captions.url, timeout=60) as client:
            long = asyncio.create_task(ask("long", "A man is standing on a ladder. " * 300))
            await asyncio.sleep(0.2)
            await ask("short", "Two dogs.")
            await long
        return finished

    assert asyncio.run(scenario()) == ["short", "long"]


def test_a_chunked_body_that_is_too_large_is_cut_off(captions: LiveServer) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(64):
            yield b"x" * 65536

    headers = {"Content-Type": "application/json"}
    try:
        answer = httpx.post(f"{captions.url}/translate", content=chunks(), headers=headers)
    except httpx.WriteError:  # it hung up before all was sent, as it may
        return
    assert answer.status_code == 413


def test_half_a_request_does_no_harm(captions: LiveServer) -> None:
    host, port = captions.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as half:
        half.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
        half.sendall(b"Content-Length: 100\r\n\r\n{")

    assert httpx.get(f"{captions.url}/health").is_success
    assert '"defect"' not in captions.log


def test_logs_are_json_and_hold_neither_texts_nor_keys(tmp_path: Path, models: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"# who may ask\n{KEY}  # me\n\n", encoding="utf-8")
    with running_server(tmp_path, "--model", str(models), "--keys", str(keys)) as server:
        client = LibreTranslateAPI(server.url, api_key=KEY)
        assert client.translate("private words", "en", "de")
        httpx.post(f"{server.url}/translate?api_key={KEY}&q=private", json={"q": "private"})
        httpx.get(f"{server.url}/private/{KEY}")
        metrics = httpx.get(f"{server.url}/metrics").text
        assert server.stop() == 0
        log = server.log

    lines = [json.loads(line) for line in log.splitlines()]
    [ready] = [it for it in lines if it["event"] == "ready"]
    assert set(ready["models"].values()) == {"plain"}
    [why] = [it["event"] for it in lines if it["level"] == "warning"]
    assert "(8, 16, 4, 4) are not all multiples of 16" in why
    requests = [it for it in lines if it["event"] == "request"]
    assert {"path": "/translate", "status": 200}.items() <= requests[-4].items()
    assert all(it["seconds"] >= 0 and it["time"] and it["level"] for it in requests)
    for secret in (KEY, "private"):
        assert secret not in log
        assert secret not in metrics


def test_told_to_stop_it_finishes_what_it_has_begun(tmp_path: Path) -> None:
    text = "A man in a blue shirt is standing on a ladder. " * 100

    async def scenario(server: LiveServer) -> tuple[httpx.Response, int]:
        async with httpx.AsyncClient(timeout=60) as client:
            asked = asyncio.create_task(client.post(f"{server.url}/v1/stream", json={"text": text}))
            while (
                "allyouneed_sentences_total 0.0" in (await client.get(f"{server.url}/metrics")).text
            ):
                await asyncio.sleep(0.01)
            exit_code = await asyncio.to_thread(server.stop)
            return await asked, exit_code

    with running_server(tmp_path) as server:
        answer, exit_code = asyncio.run(scenario(server))

    assert exit_code == 0
    assert len(answer.text.splitlines()) == 102
    assert json.loads(answer.text.splitlines()[-1]) == {"done": True}
