"""The web page in Chromium: hypotheses, words, what they attended to, and the explorer."""

import math

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Page, expect
from web_page import EXAMPLE, TEXT, OpenPage, open_page

__all__ = ["open_page"]  # a fixture


def percent(share: float) -> str:
    return f"{math.floor(100 * share + 0.5)}\u202f%"  # as JavaScript rounds


def test_another_hypothesis_takes_the_place_of_the_best(open_page: OpenPage) -> None:
    it = open_page()
    it.translate(EXAMPLE)
    [sentence] = it.asked_directly(EXAMPLE)["sentences"]
    best, second, *_ = [hypothesis["text"] for hypothesis in sentence["hypotheses"]]
    expect(it.translation).to_have_text(best)
    choices = it.page.get_by_role("group", name="Other ways to say it").get_by_role("radio")
    expect(choices).to_have_count(len(sentence["hypotheses"]))
    choices.nth(1).check()

    expect(it.translation).to_have_text(second)
    expect(choices.nth(1)).to_be_focused()
    it.button("Copy").click()
    expect(it.button("Copied")).to_be_visible()
    assert it.page.evaluate("navigator.clipboard.readText()") == second


def test_alternatives_mark_where_they_differ(open_page: OpenPage) -> None:
    it = open_page()
    it.translate("I don't know where he lives.")
    best, other = it.page.locator("#hypotheses label").all()[:2]
    expect(best).to_contain_text("Ich weiß nicht, wo er wohnt.")
    expect(other).to_contain_text("Ich weiß nicht, wo er lebt.")

    expect(other.locator("em")).to_have_text(["lebt"])
    expect(best.locator("em")).to_have_count(0)
    other.get_by_role("radio").check()
    expect(best.locator("em")).to_have_text(["wohnt"])


def test_a_choice_outlives_typing_on(open_page: OpenPage) -> None:
    it = open_page()
    it.translate(TEXT)
    second = it.asked_directly(TEXT)["sentences"][1]["hypotheses"][1]["text"]
    it.sentences.nth(1).get_by_role("button").first.click()
    others = it.page.get_by_role("group", name="Other ways to say sentence 2")
    others.get_by_role("radio").nth(1).check()
    it.translate(f"{TEXT} A dog runs.")

    expect(it.sentences).to_have_count(4)
    expect(it.sentences.nth(1)).to_have_text(second)


def test_words_say_how_sure_the_model_was(open_page: OpenPage) -> None:
    it = open_page()
    it.translate(TEXT)
    confidences = [
        word["confidence"]
        for sentence in it.asked_directly(TEXT)["sentences"]
        for word in sentence["hypotheses"][0]["words"]
    ]

    descriptions = it.words.evaluate_all("all => all.map(it => it.ariaDescription)")
    assert descriptions == [f"{percent(confidence)} sure" for confidence in confidences]
    doubts = it.words.evaluate_all("all => all.map(it => it.dataset.doubt)")
    assert doubts[confidences.index(max(confidences))] == "none"
    assert doubts[confidences.index(min(confidences))] != "none"


def test_a_word_shows_what_it_attended_to(open_page: OpenPage) -> None:
    it = open_page()
    it.translate(TEXT)
    sentence = it.asked_directly(TEXT)["sentences"][1]
    word = sentence["hypotheses"][0]["words"][1]
    shares = [share for _, share in word["attention"]]
    place = word["attention"][0][0]
    attended = sentence["words"][place]
    it.sentences.nth(1).get_by_role("button").nth(1).click()

    expect(it.page.locator("#readout")).to_contain_text(
        f"{word['text']} {percent(word['confidence'])} sure; "
        f"attended to {attended['text']} {percent(shares[0])}, "
    )
    opacities = it.threads.evaluate_all("all => all.map(it => Number(it.getAttribute('opacity')))")
    assert opacities == pytest.approx([share / shares[0] for share in shares], abs=1e-3)
    before = "".join(it["before"] + it["text"] for it in sentence["words"][:place])
    start = TEXT.index(sentence["source"]) + len(before + attended["before"])
    assert corner_of_end(it.page) == pytest.approx(corner_of_character(it.page, start), abs=3)


def test_text_in_capitals_is_shown_as_it_is_copied(open_page: OpenPage) -> None:
    it = open_page()
    it.translate("I AM SO HAPPY TODAY!")

    expect(it.words).to_have_text(["ICH", "BIN", "HEUTE", "SO", "GLÜCKLICH", "!"])
    it.button("Copy").click()
    expect(it.button("Copied")).to_be_visible()
    copied = it.page.evaluate("navigator.clipboard.readText()")
    assert copied == it.translation.text_content() == "ICH BIN HEUTE SO GLÜCKLICH!"
    it.words.nth(4).click()
    expect(it.page.locator("#readout")).to_contain_text("attended to HAPPY")
    it.button("Explore attention").click()
    expect(it.explorer).to_contain_text("Ich bin heute so glücklich!")  # what the model wrote


def corner_of_end(page: Page) -> list[float]:
    """Where the word that the strongest thread leads to is marked."""
    box = page.locator("#threads .end").first.bounding_box()
    assert box
    return [box["x"], box["y"]]


def corner_of_character(page: Page, place: int) -> list[float]:
    corner: list[float] = page.evaluate(
        """place => {
            const range = new Range();
            range.setStart(document.getElementById("mirror").firstChild, place);
            range.setEnd(document.getElementById("mirror").firstChild, place + 1);
            const { x, y } = range.getBoundingClientRect();
            return [x, y];
        }""",
        place,
    )
    return corner


@pytest.mark.parametrize("n_texts", [1, 3, 8])  # of three sizes of type
def test_the_mirror_lies_exactly_under_the_text(open_page: OpenPage, n_texts: int) -> None:
    it = open_page()
    it.source.fill(TEXT * n_texts)

    assert it.source.bounding_box() == it.page.locator("#mirror").bounding_box()
    source, mirror = it.page.evaluate(
        "['source', 'mirror'].map(id => getComputedStyle(document.getElementById(id)).font)"
    )
    assert source == mirror


def test_a_word_is_held_until_escape(open_page: OpenPage) -> None:
    it = open_page()
    it.translate(EXAMPLE)
    it.words.nth(1).click()
    it.page.mouse.move(5, 5)
    expect(it.threads).not_to_have_count(0)
    it.words.nth(1).press("Escape")

    expect(it.threads).to_have_count(0)
    it.words.nth(2).hover()
    expect(it.threads).not_to_have_count(0)
    it.page.mouse.move(5, 5)
    expect(it.threads).to_have_count(0)


def test_only_a_held_word_changes_the_alternatives(open_page: OpenPage) -> None:
    it = open_page()
    it.translate(TEXT)
    first = it.page.get_by_role("group", name="Other ways to say sentence 1")
    it.sentences.nth(1).get_by_role("button").first.hover()
    expect(it.threads).not_to_have_count(0)
    expect(first).to_be_visible()
    it.sentences.nth(1).get_by_role("button").first.click()

    expect(first).to_be_hidden()


def test_threads_do_not_outlive_their_text(open_page: OpenPage) -> None:
    it = open_page()
    it.translate(EXAMPLE)
    it.words.nth(1).hover()
    it.refuse(400)
    it.source.fill("A man.\n\n\n\n\n\n")

    expect(it.threads).to_have_count(0)
    expect(it.problem).to_be_visible()
    it.words.nth(2).hover()
    expect(it.page.locator("#readout")).to_contain_text("attended to")
    expect(it.threads).to_have_count(0)


def test_the_keyboard_is_enough(open_page: OpenPage) -> None:
    it = open_page()
    expect(it.source).to_be_focused()
    it.page.keyboard.type(EXAMPLE)
    it.page.keyboard.press("Control+Enter")
    expect(it.translation).to_have_text(it.asked_directly(EXAMPLE)["text"])
    for _ in range(3):  # open a file, clear, the words
        it.page.keyboard.press("Tab")
    expect(it.words.first).to_be_focused()
    it.page.keyboard.press("ArrowRight")
    it.page.keyboard.press("Enter")
    expect(it.words.nth(1)).to_have_attribute("aria-pressed", "true")
    it.page.keyboard.press("Tab")
    expect(it.button("Copy")).to_be_focused()
    it.page.keyboard.press("Enter")
    expect(it.button("Copied")).to_be_focused()
    it.page.keyboard.press("Shift+Tab")

    expect(it.words.nth(1)).to_be_focused()
    assert it.page.evaluate("navigator.clipboard.readText()") == it.translation.text_content()


# ---- the explorer ------------------------------------------------------------------------------


def test_the_explorer_shows_the_chosen_hypothesis(open_page: OpenPage) -> None:
    it = open_page()
    it.translate(EXAMPLE)
    it.page.get_by_role("radio").nth(1).check()
    it.button("Explore attention").click()
    chosen = it.translation.text_content()
    expect(it.explorer.locator("#pair")).to_have_text(f"{EXAMPLE} → {chosen}")
    lines = it.explorer.locator(".lines line")
    of_all_heads = lines.count()
    it.explorer.get_by_label("Layer 1", exact=True).check(force=True)
    it.explorer.get_by_label("Every head").uncheck(force=True)
    expect(lines).to_have_count(0)
    it.explorer.get_by_label("Head 2").check(force=True)

    expect(lines).not_to_have_count(0)
    assert lines.count() < of_all_heads
    it.button("Close").click()
    expect(it.page.get_by_role("dialog")).to_be_hidden()
    expect(it.button("Explore attention")).to_be_focused()


def test_the_explorer_says_why_it_stays_away(open_page: OpenPage) -> None:
    it = open_page()
    it.translate(EXAMPLE)
    problem = it.page.get_by_role("dialog").get_by_role("alert")
    it.page.route("**/v1/attention*", lambda route: route.continue_(post_data="source="))
    it.button("Explore attention").click()
    expect(problem).to_contain_text("A blank text has no tokens")
    it.button("Close").click()
    it.page.unroute("**/v1/attention*")
    it.page.route("**/health", lambda route: route.abort())
    it.button("Explore attention").click()
    expect(problem).to_contain_text("The server does not answer")
    it.button("Close").click()
    it.page.unroute("**/health")
    it.button("Explore attention").click()

    expect(it.explorer.get_by_role("heading", name="Attention")).to_be_visible()
    expect(problem).to_be_hidden()


# ---- colours and sizes -------------------------------------------------------------------------


def is_dark(page: Page) -> bool:
    brightness = "Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"
    return float(page.evaluate(brightness)) < 128


@pytest.mark.parametrize("dark", [False, True])
def test_the_theme_follows_the_system_and_can_be_changed(open_page: OpenPage, dark: bool) -> None:
    it = open_page(dark=dark)
    assert is_dark(it.page) == dark
    it.button("Change to light" if dark else "Change to dark").click()
    assert is_dark(it.page) != dark
    it.page.reload()

    assert is_dark(it.page) != dark
    it.translate(EXAMPLE)
    it.button("Explore attention").click()
    expect(it.explorer).to_have_attribute("data-theme", "light" if dark else "dark")


def test_a_telephone_is_wide_enough(open_page: OpenPage) -> None:
    it = open_page(width=360)
    it.translate(f"{TEXT} {'Rhubarb' * 12}")
    it.words.nth(2).click()

    assert it.page.evaluate("document.documentElement.scrollWidth") <= 360
    left = it.page.locator("#left").evaluate("it => it.getBoundingClientRect().bottom")
    assert it.page.locator("#right").evaluate("it => it.getBoundingClientRect().top") >= left
