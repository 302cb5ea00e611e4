"""The page in Chromium; skipped where there is none."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_attention import SOURCE, TARGET, small_attention

from allyouneed.visualization.attention import Attention
from allyouneed.visualization.heads import rank_heads
from allyouneed.visualization.page import page as make_page
from allyouneed.visualization.selection import Selection

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Browser, Locator, Page

ATTENTION = small_attention()
MAP = ATTENTION.map("encoder-decoder")  # what is shown first
VISIBLE = 0.01


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator["Opened"]:
    opened = Opened(browser, tmp_path)
    yield opened
    opened.close()


class Opened:
    """A page from a file, of which every complaint and every request is a failure."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser, self._folder = browser, folder
        self.complaints: list[str] = []

    def __call__(
        self,
        attention: Attention = ATTENTION,
        selection: Selection | None = None,
        width: int = 1000,
        dark: bool = False,
    ) -> Page:
        file = self._folder / "page.html"
        file.write_text(make_page(attention, selection), encoding="utf-8")
        page = self._browser.new_page(
            viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light"
        )
        page.set_default_timeout(5000)
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        page.goto(file.as_uri())
        page.on("request", lambda request: self.complaints.append(request.url))
        return page

    def close(self) -> None:
        for context in self._browser.contexts:
            context.close()
        assert not self.complaints


def choose(page: Page, name: str) -> None:
    page.get_by_label(name, exact=True).check(force=True)


def uncheck(page: Page, name: str) -> None:
    page.get_by_label(name, exact=True).uncheck(force=True)


def opacities(page: Page) -> list[float]:
    lines = page.locator(".lines line")
    found: list[str] = lines.evaluate_all("all => all.map(it => it.getAttribute('stroke-opacity'))")
    return sorted(map(float, found))


def token(page: Page, side: str, place: int) -> Locator:
    return page.locator(f'[data-side="{side}"][data-place="{place}"]')


def test_every_line_is_as_opaque_as_its_weight(opened: Opened) -> None:
    page = opened()

    weights = MAP.weights[1].ravel()
    assert opacities(page) == pytest.approx(sorted(weights[weights >= VISIBLE].tolist()), abs=1e-3)


def test_head_layer_and_kind_are_chosen(opened: Opened) -> None:
    page = opened()
    choose(page, "encoder")
    choose(page, "Layer 3")
    uncheck(page, "Every head")
    assert opacities(page) == []
    choose(page, "Head 3")

    weights = ATTENTION.map("encoder").weights[2, 2].ravel()
    assert opacities(page) == pytest.approx(sorted(weights[weights >= VISIBLE].tolist()), abs=1e-3)


def test_a_layer_that_another_kind_lacks_becomes_its_last(opened: Opened) -> None:
    page = opened(selection=Selection(kind="encoder", layer=2))
    choose(page, "decoder")

    assert page.get_by_label("Layer 2", exact=True).is_checked()
    assert page.get_by_label("Layer 3", exact=True).count() == 0
    weights = ATTENTION.map("decoder").weights[1].ravel()
    assert opacities(page) == pytest.approx(sorted(weights[weights >= VISIBLE].tolist()), abs=1e-3)


@pytest.mark.parametrize("way", ["hover", "focus", "click"])
def test_a_token_shows_only_its_lines_and_says_them(opened: Opened, way: str) -> None:
    page = opened()
    getattr(token(page, "query", 1), way)()

    weights = MAP.weights[1, :, 1].ravel()
    assert opacities(page) == pytest.approx(sorted(weights[weights >= VISIBLE].tolist()), abs=1e-3)
    mean = MAP.weights[1, :, 1].mean(0)
    best = f"{MAP.keys[mean.argmax()]} {mean.max():.0%}"
    assert page.get_by_role("status").inner_text().startswith(f"Feuer attends to {best}")


def test_a_key_shows_who_attends_to_it(opened: Opened) -> None:
    page = opened()
    token(page, "key", 2).hover()

    weights = MAP.weights[1, :, :, 2].ravel()
    assert opacities(page) == pytest.approx(sorted(weights[weights >= VISIBLE].tolist()), abs=1e-3)
    assert "·man is attended to by" in page.get_by_role("status").inner_text()


def test_a_click_holds_a_token_until_escape(opened: Opened) -> None:
    page = opened()
    everything = opacities(page)
    token(page, "query", 0).click()
    page.mouse.move(5, 5)
    page.get_by_role("heading", name="Attention").click()
    held = opacities(page)
    token(page, "query", 0).press("Escape")
    page.get_by_role("heading", name="Attention").click()

    assert len(held) < len(everything)
    assert opacities(page) == everything


def test_arrow_keys_walk_through_the_tokens(opened: Opened) -> None:
    page = opened()
    token(page, "query", 0).press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")

    assert page.evaluate("({...document.activeElement.dataset})") == {"side": "key", "place": "0"}


def test_controls_keep_the_focus_and_obey_the_arrow_keys(opened: Opened) -> None:
    page = opened()
    page.get_by_label("Layer 1", exact=True).focus()
    page.keyboard.press("ArrowRight")

    assert page.get_by_label("Layer 2", exact=True).is_checked()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Layer 2"


def test_whole_words_replace_their_pieces(opened: Opened) -> None:
    page = opened()
    choose(page, "words")

    names = page.locator(".queries .name").all_inner_texts()
    assert names == ["Ein", "Feuerwehrmann", "</s>"]


def test_heat_maps_answer_to_pointer_and_keys(opened: Opened) -> None:
    page = opened(selection=Selection(view="heatmap", heads=(1,)))
    canvas = page.get_by_role("img", name="Heat map of head 2")
    canvas.press("ArrowDown")  # the first key enters the map
    canvas.press("ArrowRight")

    weight = MAP.weights[1, 1, 0, 1]
    expected = f"Ein attends to fire with {100 * weight:.1f}% (head 2)."
    assert page.get_by_role("status").inner_text() == expected
    box = canvas.bounding_box()
    assert box is not None
    canvas.hover(position={"x": box["width"] - 8, "y": box["height"] - 8})
    assert page.get_by_role("status").inner_text().startswith("</s> attends to </s>")


def test_a_thumbnail_opens_its_head(opened: Opened) -> None:
    page = opened(selection=Selection(view="grid"))
    assert page.locator(".thumbnail").count() == 2 * 3
    page.get_by_role("button", name="Open layer 2, head 3").click()

    assert page.get_by_label("Lines", exact=True).is_checked()
    assert page.get_by_label("Layer 2", exact=True).is_checked()
    checked = page.locator("#choose-heads input:checked")
    assert checked.evaluate_all("all => all.map(it => it.value)") == ["2"]


def test_the_ranking_is_that_of_the_library(opened: Opened) -> None:
    page = opened(selection=Selection(view="ranking", by="far"))
    choose(page, "diagonal")

    expected = [
        f"Open layer {head.layer + 1}, head {head.head + 1}: diagonal {head.scores['diagonal']:.2f}"
        for head in rank_heads({"encoder-decoder": MAP}, "diagonal")
    ]
    cards = page.locator(".card")
    assert cards.evaluate_all("all => all.map(it => it.ariaLabel)") == expected


@pytest.mark.parametrize("dark", [False, True])
def test_the_theme_follows_the_system_and_can_be_changed(opened: Opened, dark: bool) -> None:
    page = opened(dark=dark)
    brightness = "Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"

    assert (page.evaluate(brightness) < 128) == dark
    page.get_by_role("button", name="Change to light" if dark else "Change to dark").click()
    assert (page.evaluate(brightness) < 128) != dark


@pytest.mark.parametrize("view", ["lines", "heatmap", "grid", "ranking"])
def test_a_telephone_is_wide_enough(opened: Opened, view: str) -> None:
    page = opened(
        small_attention(SOURCE * 8, TARGET * 8, heads=16), Selection(view=view), width=360
    )

    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_sentence_of_markup_is_harmless(opened: Opened) -> None:
    wicked = "<img/src=x/onerror=alert(1)></script><script>alert(2)</script>"
    page = opened(small_attention((*SOURCE, f"▁{wicked}"), TARGET))
    for view in ("Heat map", "All heads", "Ranking", "Lines"):
        choose(page, view)
    token(page, "key", 5).hover()

    assert wicked in page.locator("#pair").inner_text()
    assert page.locator("main img, main script, #pair > :not(b)").count() == 0
    assert wicked in page.get_by_role("status").inner_text()


def test_a_notebook_shows_the_page(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content(ATTENTION._repr_html_())

    frame = page.frame_locator("iframe")
    frame.locator(".lines line").first.wait_for(state="attached")
    assert frame.get_by_role("heading", name="Attention").is_visible()
    page.close()
