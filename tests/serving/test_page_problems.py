"""The web page in Chromium when something is wrong: limits, keys, a server that is gone."""

import json
import subprocess
from pathlib import Path

import pytest
from live_server import running_server

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import Page, Route, expect
from web_page import EXAMPLE, OpenPage, changed_models, open_page

__all__ = ["open_page"]  # a fixture


def test_a_server_that_is_gone_is_missed_until_it_is_back(
    open_page: OpenPage, tmp_path: Path
) -> None:
    with running_server(tmp_path) as server:
        it = open_page(address=server.url)
        it.translate("A dog.")
        server.stop()
        it.source.fill(EXAMPLE)
        expect(it.problem).to_contain_text("The server does not answer")
        expect(it.button("Try again")).to_be_visible()
        again = subprocess.Popen(server.process.args, stderr=subprocess.DEVNULL)
        try:
            expect(it.problem).to_be_hidden(timeout=60_000)
            expect(it.translation).to_have_text(it.asked_directly(EXAMPLE)["text"])
        finally:
            again.kill()
            again.wait()


def test_too_long_a_text_is_not_sent(open_page: OpenPage) -> None:
    it = open_page(prepare=lambda page: changed_models(page, limits={"characters": 10}))
    it.refuse(500)  # would be seen
    it.source.fill("A man reads")
    expect(it.problem).to_contain_text("11 characters; this server takes 10")
    it.let_through()
    it.source.fill("🙂 man read")  # ten, as the server counts

    expect(it.problem).to_be_hidden()
    expect(it.words).not_to_have_count(0)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (429, "too much for one minute"),
        (502, "So it is."),
        (503, "is busy"),
        (504, "took too long"),
    ],
)
def test_what_may_pass_is_tried_again_when_the_server_says(
    open_page: OpenPage, status: int, said: str
) -> None:
    it = open_page(prepare=count_requests)
    it.refuse(status, **{"Retry-After": "7"})
    it.source.fill(EXAMPLE)
    it.page.clock.run_for(1000)
    expect(it.problem).to_contain_text(said)
    it.let_through()
    it.page.clock.run_for(5000)
    assert it.page.evaluate("window.asked") == 1
    it.page.clock.run_for(2000)
    assert it.page.evaluate("window.asked") == 2

    expect(it.problem).to_be_hidden()
    expect(it.translation).to_have_text(it.asked_directly(EXAMPLE)["text"])


def count_requests(page: Page) -> None:
    """Count translations asked for, on a clock that goes only when it is told to."""
    page.clock.install()
    page.add_init_script("""
        const reach = window.fetch;
        window.asked = 0;
        window.fetch = (path, options) => {
          if (path === "v1/stream") window.asked += 1;
          return reach(path, options);
        };
    """)


def test_what_will_not_pass_is_not_tried_again(open_page: OpenPage) -> None:
    it = open_page(prepare=count_requests)
    it.refuse(400)
    it.source.fill(EXAMPLE)
    it.page.clock.run_for(1000)
    expect(it.problem).to_contain_text("So it is.")
    it.page.clock.run_for(100_000)

    assert it.page.evaluate("window.asked") == 1
    expect(it.button("Try again")).to_be_hidden()


def test_an_earlier_translation_is_shown_as_such(open_page: OpenPage) -> None:
    it = open_page()
    it.translate(EXAMPLE)
    it.refuse(400)
    it.source.fill("A dog runs.")

    expect(it.page.locator(".sentence.earlier")).to_have_count(1)


def test_a_key_is_asked_for_and_kept_for_the_tab(open_page: OpenPage) -> None:
    def check_key(route: Route) -> None:
        if route.request.headers.get("authorization") == "Bearer secret":
            route.continue_()
        else:
            route.fulfill(status=403, json={"error": "no"})

    def guard(page: Page) -> None:
        changed_models(page, key_required=True)
        page.route("**/v1/stream", check_key)

    it = open_page(prepare=guard)
    key = it.page.get_by_label("This server asks for a key")
    key.fill("wrong")
    key.press("Enter")
    it.source.fill(EXAMPLE)
    expect(it.problem).to_contain_text("does not know this key")
    key.fill("secret")
    key.press("Enter")

    expect(it.words).not_to_have_count(0)
    expect(key).to_be_hidden()
    assert "secret" not in json.dumps(it.page.evaluate("({...localStorage})"))
    it.page.reload()
    it.translate(EXAMPLE)
    expect(key).to_be_hidden()


def test_no_key_is_asked_for_where_none_is_needed(open_page: OpenPage) -> None:
    it = open_page()
    it.translate(EXAMPLE)

    expect(it.page.get_by_label("This server asks for a key")).to_be_hidden()
