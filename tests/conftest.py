"""Small worlds that several tests live in."""

import dataclasses
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from toy_world import make_toy_run, write_toy_text

from allyouneed.checkpoint import save_model
from allyouneed.config import CorpusConfig, RunConfig

if TYPE_CHECKING:
    from playwright.sync_api import Browser

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # where kernels run in tests if there is no GPU


@pytest.fixture
def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def _one_seed_and_thread() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # models this small are slowed down by more


@pytest.fixture
def toy_text(tmp_path: Path) -> CorpusConfig:
    return write_toy_text(tmp_path)


@pytest.fixture
def toy_run(tmp_path: Path, toy_text: CorpusConfig) -> RunConfig:
    return make_toy_run(tmp_path, toy_text)


@pytest.fixture(scope="session")
def two_way_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one with the shipped model and, for the way back, one that knows nothing."""
    from live_server import running_server
    from tiny_translator import tiny_translator

    folder = tmp_path_factory.mktemp("server")
    tiny = tiny_translator()
    manifest = dataclasses.replace(tiny.manifest, source_language="de", target_language="en")
    save_model(folder / "de-en", tiny.model.state_dict(), tiny.tokenizer, manifest)
    models = ("--model", "en-de", "--model", f"de-en={folder / 'de-en'}")
    with running_server(folder, *models) as server:
        yield server.url


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Chromium; tests that look at pages are skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api")
    names = ("chromium", "chromium-browser", "google-chrome")
    executable = next(filter(None, map(shutil.which, names)), None)
    if not executable:
        pytest.skip("no Chromium is installed")
    flags = ["--disable-gpu", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync"]  # fmt: skip
    if os.geteuid() == 0:  # Chromium's sandbox cannot be set up by root
        flags.append("--no-sandbox")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=flags)
        yield browser
        browser.close()
