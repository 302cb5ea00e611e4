"""Small worlds that several tests live in."""

import os
from pathlib import Path

import pytest
import torch
from toy_world import make_toy_run, write_toy_text

from allyouneed.config import CorpusConfig, RunConfig

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
