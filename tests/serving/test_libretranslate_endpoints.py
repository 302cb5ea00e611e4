from collections.abc import Iterator
from typing import Any

import pytest
from small_server import small_server
from starlette.testclient import TestClient

ENGLISH = "A man is riding a bicycle through the park."
GERMAN = "Ein Mann fährt mit dem Fahrrad durch den Park."


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with small_server(max_characters=2000, max_sentences=50) as client:
        yield client


def translate(client: TestClient, **fields: Any) -> Any:
    answer = client.post("/translate", json={"source": "en", "target": "de", **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def error(client: TestClient, path: str = "/translate", **fields: Any) -> str:
    answer = client.post(path, json=fields)
    assert answer.status_code == 400
    assert list(answer.json()) == ["error"]
    return str(answer.json()["error"])


def test_a_text_for_a_text_and_a_list_for_a_list(client: TestClient) -> None:
    assert translate(client, q="One two.") == {"translatedText": "One two."}
    assert translate(client, q=["One.", "", "Two."]) == {"translatedText": ["One.", "", "Two."]}
    assert translate(client, q=["One."]) == {"translatedText": ["One."]}


def test_layout_is_kept(client: TestClient) -> None:
    text = "\tOne two.  Three!\n\n * four, five\n"

    assert translate(client, q=text)["translatedText"] == text


def test_forms_and_queries_work_as_json_does(client: TestClient) -> None:
    fields = {"q": "One two.", "source": "en", "target": "de"}
    expected = {"translatedText": "One two."}

    assert client.post("/translate", data=fields).json() == expected
    assert (
        client.post("/translate", files={k: (None, v) for k, v in fields.items()}).json()
        == expected
    )
    assert client.post("/translate", params=fields).json() == expected


def test_forms_may_hold_letters_as_they_are(client: TestClient) -> None:
    """As `curl -d` sends them: in UTF-8, not escaped."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}

    answer = client.post(
        "/translate", content="q=Drei Äpfel%3F&source=en&target=de".encode(), headers=form
    )
    assert answer.json() == {"translatedText": "Drei Äpfel?"}
    for latin_1 in ("q=Drei Äpfel".encode("latin-1"), b"q=Drei %C4pfel"):
        refused = client.post("/translate", content=latin_1, headers=form)
        assert refused.status_code == 400
        assert refused.json() == {"error": "Invalid request: the form is not UTF-8"}
    many = "&".join(f"a{number}=1" for number in range(21))
    assert "20 fields" in client.post("/translate", content=many, headers=form).json()["error"]


def test_alternatives_are_others_than_the_best(client: TestClient) -> None:
    answer = translate(client, q="One two.", alternatives=2)

    assert answer["translatedText"] == "One two."
    assert answer["alternatives"] == ["One two..", "One two..."]
    several = translate(client, q=["One.", "Two."], alternatives=1)
    assert several["alternatives"] == [["One.."], ["Two.."]]
    assert "alternatives" not in translate(client, q="One.", alternatives=0)


def test_languages_are_recognised_on_request(client: TestClient) -> None:
    english = translate(client, q=ENGLISH, source="auto")["detectedLanguage"]
    both = translate(client, q=[ENGLISH, GERMAN], source="auto")["detectedLanguage"]

    assert english["language"] == "en"
    assert 50 < english["confidence"] <= 100
    assert [it["language"] for it in both] == ["en", "de"]


def test_what_is_in_the_target_language_already_stays(client: TestClient) -> None:
    answer = translate(client, q=GERMAN, source="auto", alternatives=3)

    assert answer["translatedText"] == GERMAN
    assert answer["alternatives"] == []
    assert translate(client, q="x", source="de")["translatedText"] == "x"


def test_short_texts_are_recognised_by_their_company(client: TestClient) -> None:
    alone = translate(client, q="Hallo", source="auto")
    answer = translate(client, q=[GERMAN, "Hallo"], source="auto")

    assert alone["detectedLanguage"]["language"] == "en"  # as far as five letters tell
    assert [it["language"] for it in answer["detectedLanguage"]] == ["de", "de"]


def test_html_keeps_its_tags(client: TestClient) -> None:
    page = '<ul><li class="a">One two.</li><li>Three &lt; four</li></ul>'

    assert translate(client, q=page, format="html")["translatedText"] == page
    inline = translate(client, q="<p>One <b>two</b></p>", format="html")["translatedText"]
    assert inline.startswith("<p>")
    assert inline.endswith("</p>")


def test_detect_ranks_the_loaded_languages(client: TestClient) -> None:
    found = client.post("/detect", json={"q": GERMAN}).json()

    assert [it["language"] for it in found] == ["de", "en"]
    assert sum(it["confidence"] for it in found) == pytest.approx(100, abs=0.2)
    assert client.post("/detect", data={"q": ENGLISH}).json()[0]["language"] == "en"


def test_languages(client: TestClient) -> None:
    assert client.get("/languages").json() == [
        {"code": "en", "name": "English", "targets": ["de", "en"]},
        {"code": "de", "name": "German", "targets": ["de"]},
    ]


def test_frontend_settings(client: TestClient) -> None:
    settings = client.get("/frontend/settings").json()

    assert settings["charLimit"] == 2000
    assert settings["keyRequired"] is False
    assert settings["supportedFilesFormat"] == [".txt", ".md", ".html"]
    assert settings["language"]["source"] == {"code": "en", "name": "English"}
    assert settings["language"]["target"] == {"code": "de", "name": "German"}


def send_file(client: TestClient, name: str, content: bytes) -> Any:
    return client.post(
        "/translate_file", data={"source": "en", "target": "de"}, files={"file": (name, content)}
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("größe.txt", "One two.\n\nThree ä!\n"),
        ("A.TXT", "\ufeffOne."),
        ("a.md", "# One\n\n- two\n"),
        ("a.html", "<p>One &amp; two.</p>"),
    ],
)
def test_files_are_translated_and_fetched(client: TestClient, name: str, content: str) -> None:
    sent = send_file(client, name, content.encode())

    url = sent.json()["translatedFileUrl"]
    assert url.startswith("http://")
    fetched = client.get(url)
    assert fetched.content.decode() == content.removeprefix("\ufeff")
    assert fetched.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.docx", b"x", "file format not supported"),
        ("a.txt", b"\xff\xfe", "not in UTF-8"),
        ("a.txt", b"", "empty file"),
        ("a.txt", b"x" * 2001, "exceeds text limit"),
    ],
)
def test_files_that_cannot_be_translated(
    client: TestClient, name: str, content: bytes, message: str
) -> None:
    answer = send_file(client, name, content)

    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_a_file_must_be_a_file(client: TestClient) -> None:
    assert "file" in error(client, "/translate_file", file="x", source="en", target="de")
    assert client.get("/download_file/nothing").status_code == 404
    assert client.get("/download_file/..%2F..%2Fsecret").status_code == 404


@pytest.mark.parametrize("missing", ["q", "source", "target"])
def test_missing_fields_are_named_as_libretranslate_does(client: TestClient, missing: str) -> None:
    fields = {"q": "One.", "source": "en", "target": "de"}
    del fields[missing]

    assert error(client, **fields) == f"Invalid request: missing {missing} parameter"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"q": ""}, "missing q"),
        ({"q": []}, "missing q"),
        ({"q": 1}, "q: "),
        ({"q": {"a": 1}}, "q: "),
        ({"q": ["a", 1]}, "q: "),
        ({"source": "xx"}, "xx is not supported"),
        ({"target": "xx"}, "xx is not supported"),
        ({"target": "auto"}, "auto is not supported"),
        ({"source": "de", "target": "en"}, "not available as a target language"),
        ({"format": "pdf"}, "format: "),
        ({"alternatives": -1}, "alternatives: "),
        ({"alternatives": 16}, "beam"),
        ({"alternatives": 10**30}, "beam"),
        ({"alternatives": "many"}, "alternatives: "),
        ({"q": "x" * 2001}, "request (2001) exceeds text limit (2000)"),
        ({"q": ["x" * 1001] * 2}, "request (2002) exceeds text limit (2000)"),
        ({"q": "One.\n" * 51}, "there are more than 50 sentences"),
        ({"q": "<p>One" * 51, "format": "html"}, "there are more than 50 sentences"),
        ({"q": ["One. Two."] * 26}, "there are more than 50 sentences"),
        ({"q": [""] * 51}, "51 texts exceed the limit 50"),
    ],
)
def test_what_is_wrong_is_said(client: TestClient, fields: dict[str, Any], message: str) -> None:
    assert message in error(client, **{"q": "One.", "source": "en", "target": "de", **fields})


def test_suggestions_are_declined(client: TestClient) -> None:
    assert client.post("/suggest", json={}).status_code == 403
