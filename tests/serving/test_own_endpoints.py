import base64
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from small_server import small_server
from starlette.testclient import TestClient

from allyouneed.text.language import _identifier_of


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with small_server() as client:
        yield client


def translate(client: TestClient, **fields: Any) -> Any:
    answer = client.post("/v1/translate", json=fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def stream(client: TestClient, **fields: Any) -> list[Any]:
    answer = client.post("/v1/stream", json=fields)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in answer.text.splitlines()]


def test_models_and_limits(client: TestClient) -> None:
    answer = client.get("/v1/models").json()

    [model] = answer["models"]
    assert model["name"] == "tiny"
    assert (model["source"], model["target_name"]) == ("en", "German")
    assert (model["layers"], model["heads"], model["width"], model["vocabulary"]) == (2, 2, 8, 330)
    assert answer["limits"]["characters"] == 50_000
    assert answer["key_required"] is False


def test_texts_come_in_sentences_that_can_be_put_together(client: TestClient) -> None:
    texts = ["One two.  Three four!\n", "", " \n", "five"]

    for text, translation in zip(texts, translate(client, text=texts)["translations"], strict=True):
        assert translation["text"] == text
        sentences = [*(it["source"] for it in translation["sentences"]), ""]
        pairs = zip(translation["layout"], sentences, strict=True)
        assert "".join(between + sentence for between, sentence in pairs) == text


def test_a_long_sentence_comes_in_parts(client: TestClient) -> None:
    text = "one two three four five six seven eight nine ten " * 3

    [translation] = translate(client, text=text, details=True)["translations"]

    assert len(translation["sentences"]) > 1
    assert translation["text"] == text


def test_n_best_and_details(client: TestClient) -> None:
    answer = translate(client, text="One two.", n_best=3, details=True)

    [sentence] = answer["translations"][0]["sentences"]
    assert [word["text"] for word in sentence["words"]] == ["One", "two", "."]
    assert [it["text"] for it in sentence["hypotheses"]] == ["One two.", "One two..", "One two..."]
    scores = [it["score"] for it in sentence["hypotheses"]]
    assert scores == sorted(scores, reverse=True)
    for hypothesis in sentence["hypotheses"]:
        words = hypothesis["words"]
        assert "".join(it["before"] + it["text"] for it in words) == hypothesis["text"]
        assert all(0 <= it["confidence"] <= 1 for it in words)
        assert all(0 <= place < 3 for it in words for place, _ in it["attention"])


def test_details_are_left_out_unless_asked_for(client: TestClient) -> None:
    [sentence] = translate(client, text="One.")["translations"][0]["sentences"]

    assert set(sentence) == {"source", "hypotheses"}
    assert set(sentence["hypotheses"][0]) == {"text", "score", "log_probability", "finished"}


def test_recognition_is_told_when_it_took_place(client: TestClient) -> None:
    answer = translate(client, text="A man rides a bicycle.", source="auto")

    assert answer["detected"]["language"] == "en"
    assert "detected" not in translate(client, text="One.", source="en")


def test_no_request_waits_until_a_recogniser_is_loaded() -> None:
    _identifier_of.cache_clear()
    with small_server() as client:
        n_loaded = _identifier_of.cache_info().misses
        for target in ({}, {"target": "de"}):
            client.post("/v1/translate", json={"text": "One.", "source": "auto", **target})
        client.post("/translate", json={"q": "One.", "source": "auto", "target": "de"})
        client.post("/detect", json={"q": "One."})

    assert _identifier_of.cache_info().misses == n_loaded


def test_a_stream_has_a_head_the_sentences_and_an_end(client: TestClient) -> None:
    head, *sentences, end = stream(client, text="One two. Three!\n", source="auto", target="de")

    assert (head["model"], head["layout"], head["sentences"]) == ("tiny", ["", " ", "\n"], 2)
    assert "detected" in head
    assert [it["index"] for it in sentences] == [0, 1]
    assert [it["hypotheses"][0]["text"] for it in sentences] == ["One two.", "Three!"]
    assert end == {"done": True}


def test_a_blank_stream_ends_at_once(client: TestClient) -> None:
    assert stream(client, text=" \n")[1:] == [{"done": True}]


def test_a_stream_that_takes_too_long_ends_with_an_error() -> None:
    # The wait for company alone is longer than a sentence may take.
    with small_server(batch_wait=1.0, timeout=0.2) as client:
        lines = stream(client, text="One. Two.")

    assert "too long" in lines[-1]["error"]


def test_a_request_that_takes_too_long_is_answered() -> None:
    with small_server(batch_wait=1.0, timeout=0.2) as client:
        answer = client.post("/v1/translate", json={"text": "One."})

    assert answer.status_code == 504
    assert "too long" in answer.json()["error"]


def test_a_queue_that_is_full_says_when_to_come_back() -> None:
    two = {"text": ["One.", "Two."]}
    with small_server(batch_wait=0.8, max_waiting=2, max_sentences=2) as client:
        waiting = threading.Thread(target=client.post, args=["/v1/translate"], kwargs={"json": two})
        waiting.start()
        while "allyouneed_waiting_sentences 2.0" not in client.get("/metrics").text:
            pass
        refused = client.post("/v1/translate", json=two)
        before_work = client.post("/v1/translate", json={"text": "One.\n" * 3})  # is too much
        waiting.join()

        assert refused.status_code == before_work.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert client.post("/v1/translate", json=two).is_success


def test_attention_as_data(client: TestClient) -> None:
    answer = client.post("/v1/attention", json={"source": "one two", "target": "two"}).json()

    assert (answer["source"], answer["target"]) == ("one two", "two")
    memory = answer["subwords"]["encoder-decoder"]
    layers, heads, queries, keys = memory["shape"]
    assert (layers, heads) == (2, 2)
    assert (len(memory["queries"]), len(memory["keys"])) == (queries, keys)
    assert len(base64.b64decode(memory["weights"])) == 2 * layers * heads * queries * keys


def test_attention_of_exactly_the_tokens_of_a_hypothesis(client: TestClient) -> None:
    tokens = ["▁", "o", "n", "e"]  # which no tokenizer would make of it

    answer = client.post("/v1/attention", json={"source": "one two", "tokens": tokens}).json()

    assert len(answer["subwords"]["encoder-decoder"]["queries"]) == len(tokens) + 1


def test_attention_as_a_page_that_may_be_framed_by_ours_alone(client: TestClient) -> None:
    fields = {"source": "one two", "tokens": '["▁one", "▁two"]', "format": "html"}

    answer = client.post("/v1/attention", data=fields)

    assert answer.headers["content-type"].startswith("text/html")
    assert "<!DOCTYPE html>" in answer.text
    policy = answer.headers["content-security-policy"]
    assert "sandbox allow-scripts;" in policy
    assert "frame-ancestors 'self'" in policy
    assert "x-frame-options" not in answer.headers


@pytest.mark.parametrize(
    ("path", "fields", "message"),
    [
        ("translate", {}, "missing text"),
        ("translate", {"text": None}, "text: "),
        ("translate", {"text": "a", "model": "x"}, "no model is called x"),
        ("translate", {"text": "a", "source": "xx"}, "not supported"),
        ("translate", {"text": "a", "target": "en"}, "no model translates"),
        ("translate", {"text": "a", "n_best": 0}, "n_best: "),
        ("translate", {"text": "a", "n_best": 17}, "exceeds 16"),
        ("translate", {"text": "a", "beam_size": 17}, "exceeds 16"),
        ("translate", {"text": "a", "beam_size": 2, "n_best": 3}, "cannot give the 3 best"),
        ("translate", {"text": "a", "length_penalty": -1}, "length_penalty: "),
        ("translate", {"text": "a", "length_penalty": 1e308}, "length_penalty: "),
        ("translate", {"text": "x" * 50_001}, "exceeds text limit"),
        ("stream", {"text": ["a"]}, "text: "),
        ("stream", {"text": "x" * 50_001}, "exceeds text limit"),
        ("stream", {"text": "a", "n_best": 17}, "exceeds 16"),
        ("attention", {"source": " "}, "blank text"),
        ("attention", {"source": "one " * 20, "target": "one"}, "one sentence"),
        ("attention", {"source": "one", "target": "one " * 600}, "exceeds 512"),
        ("attention", {"source": "one", "tokens": ["▁one"] * 600}, "exceeds 512"),
        ("attention", {"source": "one", "tokens": ["▁nowhere"]}, "not a token"),
        ("attention", {"source": "one", "tokens": ["</s>"]}, "not a token"),
        ("attention", {"source": "one", "tokens": "nonsense"}, "tokens: "),
        ("attention", {"source": "one", "format": "svg"}, "format: "),
    ],
)
def test_what_is_wrong_is_said(
    client: TestClient, path: str, fields: dict[str, Any], message: str
) -> None:
    answer = client.post(f"/v1/{path}", json=fields)

    assert answer.status_code == 400, answer.text
    assert message in answer.json()["error"]
