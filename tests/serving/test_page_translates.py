"""The web page in Chromium: text, languages and files."""

import json
from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import FilePayload, Page, expect
from web_page import EXAMPLE, TEXT, OpenPage, WebPage, changed_models, open_page

__all__ = ["open_page"]  # a fixture


def test_typing_is_enough(open_page: OpenPage) -> None:
    it = open_page()
    it.source.press_sequentially("A man")

    expect(it.translation).to_have_text(it.asked_directly("A man")["text"])


def test_paragraphs_stay_paragraphs(open_page: OpenPage) -> None:
    it = open_page()
    it.translate(TEXT)

    assert it.translation.text_content() == it.asked_directly(TEXT)["text"]


def test_an_example_and_a_cleared_page(open_page: OpenPage) -> None:
    it = open_page()
    it.button(EXAMPLE).click()
    expect(it.words).not_to_have_count(0)
    it.button("Clear").click()

    expect(it.translation).to_be_empty()
    expect(it.source).to_be_focused()
    expect(it.button("Copy")).to_be_hidden()


def test_markup_is_text(open_page: OpenPage) -> None:
    it = open_page()
    it.translate("A man <img src=x onerror=alert(1)> <script>alert(2)</script> reads.")
    for word in it.words.all():
        word.hover()

    assert it.page.locator("main img, main script").count() == 0


def test_half_a_character_is_not_sent(open_page: OpenPage) -> None:
    it = open_page()
    it.source.evaluate("it => { it.value = 'A man \\ud800'; }")
    it.source.press("End")
    it.page.keyboard.type(" reads.")

    expect(it.words).not_to_have_count(0)
    expect(it.problem).to_be_hidden()


# ---- sentence by sentence ----------------------------------------------------------------------

# In place of the server: `feed` hands lines to the page.
FEED = """
    const reach = window.fetch;
    window.fetch = (path, options) => path !== "v1/stream" ? reach(path, options) :
      Promise.resolve(new Response(new ReadableStream({ start(controller) {
        options.signal.addEventListener("abort", () => { window.gaveUp = true; });
        window.feed = (line) => controller.enqueue(new TextEncoder().encode(line));
        window.end = () => controller.close();
      } })));
"""


def fed(open_page: OpenPage, n_sentences: int) -> WebPage:
    """A page that has heard how many sentences will come."""
    it = open_page(prepare=lambda page: page.add_init_script(FEED))
    it.source.fill("word " * n_sentences)
    it.page.wait_for_function("() => window.feed")
    layout = ["", *[" "] * n_sentences]
    feed(it.page, json.dumps({"model": "m", "layout": layout, "sentences": n_sentences}) + "\n")
    return it


def feed(page: Page, text: str) -> None:
    page.evaluate("text => window.feed(text)", text)


def sentence(index: int, text: str) -> str:
    word = {"before": "", "text": text, "confidence": 0.5, "attention": [[0, 0.9]]}
    hypothesis = {"text": text, "score": -1.0, "words": [word], "tokens": []}
    words = [{"before": "", "text": "word"}]
    line = {"index": index, "source": "word", "words": words, "hypotheses": [hypothesis]}
    return json.dumps(line) + "\n"


def test_sentences_appear_one_by_one(open_page: OpenPage) -> None:
    it = fed(open_page, 2)
    second = sentence(1, "zwei")
    feed(it.page, sentence(0, "eins") + second[:20])
    expect(it.translation).to_have_text("eins")
    feed(it.page, second[20:] + '{"done": true}\n')

    expect(it.translation).to_have_text("eins zwei")
    expect(it.problem).to_be_hidden()


def test_an_answer_that_breaks_off_is_a_problem(open_page: OpenPage) -> None:
    it = fed(open_page, 2)
    feed(it.page, sentence(0, "eins"))
    it.page.evaluate("window.end()")

    expect(it.problem).to_contain_text("The server does not answer")
    expect(it.translation).to_have_text("eins")


def test_an_error_on_the_way_is_shown(open_page: OpenPage) -> None:
    it = fed(open_page, 2)
    feed(it.page, '{"error": "not done in time"}\n')

    expect(it.problem).to_contain_text("Not done in time.")


def test_typing_on_gives_up_what_was_asked(open_page: OpenPage) -> None:
    it = fed(open_page, 2)
    it.source.fill("word")

    assert it.page.wait_for_function("() => window.gaveUp").json_value() is True


# ---- languages ---------------------------------------------------------------------------------


def test_languages_are_detected_and_swapped(open_page: OpenPage) -> None:
    it = open_page()
    origin, target = it.page.get_by_label("From"), it.page.get_by_label("To", exact=True)
    expect(origin.locator(":checked")).to_have_text("Detect language")
    it.translate(EXAMPLE)
    expect(origin.locator(":checked")).to_have_text("Detected: English")
    expect(it.translation).to_have_attribute("lang", "de")
    said = it.translation.text_content() or ""
    it.page.keyboard.press("Control+Shift+S")

    expect(origin).to_have_value("de")
    expect(target).to_have_value("en")
    expect(it.source).to_have_value(said)
    expect(it.source).to_have_attribute("lang", "de")
    expect(it.translation).to_have_attribute("lang", "en")


def test_what_is_detected_decides_where_to(open_page: OpenPage) -> None:
    it = open_page()
    it.translate("Ein Mann liest eine Zeitung und trinkt dabei Kaffee.")

    chosen = it.page.get_by_label("To", exact=True).locator(":checked")
    expect(chosen).to_have_text("Automatic: English")
    expect(it.source).to_have_attribute("lang", "de")


def test_swapping_finds_the_way_back_among_several(open_page: OpenPage) -> None:
    names = {"en": "English", "de": "German", "fr": "French"}
    pairs = [("en", "de"), ("de", "fr"), ("de", "en")]
    models = [
        {"name": source + target, "source": source, "source_name": names[source],
         "target": target, "target_name": names[target]}
        for source, target in pairs
    ]  # fmt: skip
    it = open_page(prepare=lambda page: changed_models(page, models=models))
    it.page.get_by_label("From").select_option("en")
    it.button("Swap languages").click()

    expect(it.page.get_by_label("From")).to_have_value("de")
    expect(it.page.get_by_label("To", exact=True)).to_have_value("en")


def test_there_is_no_way_back_without_a_model(open_page: OpenPage) -> None:
    model = {"name": "m", "source": "en", "source_name": "English"}
    model |= {"target": "de", "target_name": "German"}
    it = open_page(prepare=lambda page: changed_models(page, models=[model]))

    expect(it.page.get_by_label("From").locator("option")).to_have_text(["English"])
    expect(it.button("Swap languages")).to_be_disabled()


def test_models_of_the_same_languages_can_be_chosen(open_page: OpenPage) -> None:
    languages = {"source": "en", "source_name": "English", "target": "de", "target_name": "German"}
    models = [{"name": name, **languages} for name in ("en-de", "another")]
    it = open_page(prepare=lambda page: changed_models(page, models=models))
    it.page.get_by_label("by", exact=True).select_option("another")
    it.source.fill(EXAMPLE)

    expect(it.problem).to_contain_text("another")  # which the server does not know


# ---- files -------------------------------------------------------------------------------------


def test_a_file_is_opened_and_its_translation_saved(open_page: OpenPage, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text(TEXT, encoding="utf-8")
    it = open_page()
    with it.page.expect_file_chooser() as chooser:
        it.button("Open a file").click()
    chooser.value.set_files(file)
    expect(it.source).to_have_value(TEXT)
    expect(it.sentences).to_have_count(3)
    with it.page.expect_download() as download:
        it.page.keyboard.press("Control+s")

    assert download.value.suggested_filename == "notes.de.txt"
    assert download.value.path().read_text(encoding="utf-8") == it.asked_directly(TEXT)["text"]


def test_a_dropped_file_is_opened(open_page: OpenPage) -> None:
    it = open_page()
    transfer = it.page.evaluate_handle(
        """text => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([text], "notes.txt"));
            return transfer;
        }""",
        EXAMPLE,
    )
    it.source.dispatch_event("drop", {"dataTransfer": transfer})

    expect(it.source).to_have_value(EXAMPLE)


@pytest.mark.parametrize("content", [b"caf\xe9", b"A\0man"])
def test_what_is_no_text_is_refused(open_page: OpenPage, content: bytes) -> None:
    it = open_page()
    it.source.fill(EXAMPLE)
    file = FilePayload(name="image.png", mimeType="image/png", buffer=content)
    it.page.locator("#file").set_input_files(file)

    expect(it.problem).to_contain_text("image.png is not a text file")
    expect(it.source).to_have_value(EXAMPLE)
