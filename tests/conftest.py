"""Small worlds that several tests live in."""

import dataclasses
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from allyouneed.checkpoint import save_model
from allyouneed.config import CorpusConfig, DataConfig, ModelConfig, RunConfig, TrainingConfig

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WORDS = ["ein", "zwei", "drei", "rot", "grün", "hund", "katze", "haus", "läuft", "sieht", "über"]


@pytest.fixture(autouse=True)
def _one_seed_and_thread() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # models this small are slowed down by more


@pytest.fixture
def toy_text(tmp_path: Path) -> CorpusConfig:
    """Pairs whose target is the source backwards, in capitals."""
    rng = random.Random(0)
    sources = [" ".join(rng.choices(WORDS, k=rng.randint(2, 6))) for _ in range(200)]
    targets = [" ".join(reversed(source.upper().split())) for source in sources]
    (tmp_path / "text.src").write_text("\n".join(sources) + "\n", encoding="utf-8")
    (tmp_path / "text.tgt").write_text("\n".join(targets) + "\n", encoding="utf-8")
    return CorpusConfig(source=str(tmp_path / "text.src"), target=str(tmp_path / "text.tgt"))


@pytest.fixture
def toy_run(tmp_path: Path, toy_text: CorpusConfig) -> RunConfig:
    """A run that takes a second or two on one core."""
    return RunConfig(
        folder=str(tmp_path / "run"),
        model=ModelConfig(vocab_size=400, n_layers=1, d_model=16, d_ff=32, n_heads=2, d_k=8, d_v=8),
        data=DataConfig(corpora=(toy_text,), workers=1),
        training=TrainingConfig(
            steps=12,
            batch_tokens=256,
            row_width=32,
            warmup_steps=10,
            log_every=3,
            save_every=4,
            validate_every=6,
            device="cpu",
        ),
    )


@pytest.fixture(scope="session")
def two_way_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one with the shipped model and, for the way back, one that knows nothing."""
    from live_server import running_server
    from tiny_translator import tiny_translator

    folder = tmp_path_factory.mktemp("server")
    tiny = tiny_translator()
    manifest = dataclasses.replace(tiny.manifest, source_language="de", target_language="en")
    save_model(folder / "de-en", tiny.model.state_dict(), tiny.tokenizer, manifest)
    models = ("--model", "multi30k-en-de", "--model", f"de-en={folder / 'de-en'}")
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
