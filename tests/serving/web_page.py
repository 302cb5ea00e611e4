"""The web page of a running server, and what tests do with it in words of the page."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

EXAMPLE = "She gave the child the book that she had bought in Vienna."  # one of the page
TEXT = f"{EXAMPLE}\n\nThree girls in red shirts play on a green field. A woman reads a book."


@dataclass(frozen=True)
class WebPage:
    page: Page

    @property
    def source(self) -> Locator:
        return self.page.get_by_label("Text to translate")

    @property
    def translation(self) -> Locator:
        return self.page.get_by_label("Translation, word by word")

    @property
    def sentences(self) -> Locator:
        return self.translation.locator(".sentence")

    @property
    def words(self) -> Locator:
        return self.translation.get_by_role("button")

    @property
    def problem(self) -> Locator:
        return self.page.locator("main").get_by_role("alert")

    @property
    def threads(self) -> Locator:
        return self.page.locator("#threads path")

    @property
    def explorer(self) -> Locator:
        return self.page.frame_locator("iframe").locator("html")

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name)

    def choose_source_language(self, name: str) -> None:
        self.page.get_by_label("From").select_option(label=name)

    def translate(self, text: str) -> None:
        """Type a text and wait until all of it is translated."""
        self.source.fill(text)
        self.page.keyboard.press("Control+Enter")
        expect(self.page.locator("#right")).to_have_attribute("aria-busy", "false")
        expect(self.page.locator(".earlier")).to_have_count(0)

    def asked_directly(self, text: str) -> dict[str, Any]:
        """What the server says to a program."""
        body = {"model": "en-de", "text": text, "n_best": 4, "details": True}
        answer = self.page.request.post("/v1/translate", data=body)
        [translation] = answer.json()["translations"]
        return dict(translation)

    def refuse(self, status: int, **headers: str) -> None:
        """From now on the server translates nothing."""
        self.page.route(
            "**/v1/stream",
            lambda route: route.fulfill(
                status=status, body=json.dumps({"error": "so it is"}), headers=headers
            ),
        )

    def let_through(self) -> None:
        self.page.unroute("**/v1/stream")


def changed_models(page: Page, **changes: Any) -> None:
    """Let the server describe itself otherwise."""

    def change(route: Route) -> None:
        route.fulfill(json={**route.fetch().json(), **changes})

    page.route("**/v1/models", change)


OpenPage = Callable[..., WebPage]


@pytest.fixture
def open_page(browser: Browser, two_way_server: str) -> Iterator[OpenPage]:
    """Opens the server's page; what it breaks, or asks of another host, is a failure."""
    complaints: list[str] = []

    def open_page(
        width: int = 1100,
        dark: bool = False,
        prepare: Callable[[Page], None] = lambda page: None,
        address: str = two_way_server,
    ) -> WebPage:
        def complain_of_strangers(url: str) -> None:
            if not url.startswith((address, "blob:")):
                complaints.append(url)

        context = browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme="dark" if dark else "light",
            permissions=["clipboard-read", "clipboard-write"],
            base_url=address,
        )
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complain_of_policy(message.text))
        page.on("request", lambda request: complain_of_strangers(request.url))
        prepare(page)
        page.goto("/")
        return WebPage(page)

    def complain_of_policy(message: str) -> None:
        # Refusals of the server stand on the console too; those are what some tests are about.
        if "Content Security Policy" in message:
            complaints.append(message)

    yield open_page
    for context in browser.contexts:
        context.close()
    assert not complaints
