"""Encoding on several processes: they end when they should, and a lost one is noticed."""

import itertools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from allyouneed.config import FilterConfig
from allyouneed.data.encoding import Chunk, EncodedChunk, Encoder, encode_chunks
from allyouneed.data.filters import PairFilters
from allyouneed.errors import DataError
from allyouneed.text.tokenizer import Tokenizer

PAIRS = [("the cat", "die Katze"), ("the dog", "der Hund")]


def encode_endlessly() -> Generator[EncodedChunk, None, None]:
    tokenizer = Tokenizer.learn([text for pair in PAIRS for text in pair], 280)
    encoder = Encoder(tokenizer, PairFilters(FilterConfig(), "en", "de"))
    return encode_chunks(itertools.repeat(Chunk(0, PAIRS)), encoder, n_workers=2)


def test_no_worker_outlives_a_consumer_that_stops() -> None:
    encoded = encode_endlessly()
    next(encoded)
    assert len(multiprocessing.active_children()) == 2

    encoded.close()

    assert multiprocessing.active_children() == []


def test_a_killed_worker_is_an_error_that_says_what_to_lower() -> None:
    encoded = encode_endlessly()
    next(encoded)
    pid = multiprocessing.active_children()[0].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    with pytest.raises(DataError, match=r"lower data\.workers"):
        for _ in encoded:
            pass


def test_workers_end_with_a_parent_that_is_killed() -> None:
    script = (
        "import json, multiprocessing, time\n"
        "from test_encoding import encode_endlessly\n"
        "encoded = encode_endlessly()\n"
        "next(encoded)\n"
        "print(json.dumps([p.pid for p in multiprocessing.active_children()]), flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=Path(__file__).parent, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        workers: list[int] = json.loads(parent.stdout.readline())
        parent.kill()

    deadline = time.monotonic() + 20
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [pid for pid in workers if is_running(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
