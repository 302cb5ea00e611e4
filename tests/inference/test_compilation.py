"""The native engine is compiled and kept, and every processor's path computes the same."""

import ctypes
import os
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from native_models import CONFIG, engine_of, needs_compiler, random_model, sources

from allyouneed.inference import Greedy, Limits, compilation, search
from allyouneed.inference.compilation import NoLibrary, native_library
from allyouneed.inference.engine import ROW
from allyouneed.inference.fast_engine import FastEngine
from allyouneed.inference.fast_search import fast_search
from allyouneed.text.tokenizer import BEGIN, PAD


@pytest.mark.parametrize(
    ("compiler", "why"),
    [
        ("#!/bin/sh\necho warning: old >&2; echo 'x.h:1: error: no such' >&2; exit 1", "x.h:1:"),
        ("#!/bin/sh\nexit 1", "nothing of an error"),
        ("#!/bin/sh\nexec sleep 60", "had not compiled it after 0.1 seconds"),
        (None, "there is no C++ compiler (cc)"),
    ],
    ids=["error", "failure", "endless", "none"],
)
def test_a_compiler_that_fails_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str | None, why: str
) -> None:
    if compiler is not None:
        (tmp_path / "cc").write_text(compiler)
        (tmp_path / "cc").chmod(0o755)
    monkeypatch.setattr(compilation, "COMPILERS", ("cc",))
    monkeypatch.setattr(compilation, "PATIENCE", 0.1)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin" if compiler else str(tmp_path))

    library = native_library(tmp_path / "cache")

    assert isinstance(library, NoLibrary)
    assert why in library.why
    assert not list((tmp_path / "cache").glob("*"))


@pytest.fixture(autouse=True)
def _no_library_outlives_its_test() -> Iterator[None]:
    native_library.cache_clear()
    yield
    native_library.cache_clear()


@pytest.fixture
def _quick_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "FLAGS", (*compilation.FLAGS, "-O0"))


@needs_compiler
@pytest.mark.usefixtures("_quick_compilation")
def test_what_was_compiled_is_kept_where_nobody_else_can_write(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    assert isinstance(native_library(cache), ctypes.CDLL)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    [library] = cache.iterdir()

    native_library.cache_clear()
    made = library.stat()
    os.utime(library, (0, 0))
    assert isinstance(native_library(cache), ctypes.CDLL)
    assert library.stat().st_ino == made.st_ino  # the same file
    assert library.stat().st_mtime > time.time() - 60  # and marked as used


@needs_compiler
@pytest.mark.usefixtures("_quick_compilation")
def test_builds_that_nobody_has_used_for_long_are_removed(tmp_path: Path) -> None:
    days = {"engine-old.so": 40, "engine-other.so": 20, "notes.txt": 40}
    for name, age in days.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age * 24 * 3600,) * 2)
    (tmp_path / "engine-gone.so").symlink_to("nowhere")  # as if another process had removed it

    assert isinstance(native_library(tmp_path), ctypes.CDLL)

    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "engine-gone.so",
        "engine-other.so",
        "notes.txt",
        f"engine-{compilation._fingerprint()}.so",
    }


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("/elsewhere", "/elsewhere/allyouneed"),
        (None, "~/.cache/allyouneed"),
        ("", "~/.cache/allyouneed"),
        ("here", "~/.cache/allyouneed"),
    ],
)
def test_builds_are_kept_in_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, named: str | None, expected: str
) -> None:
    if named is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", named)
    asked: list[Path] = []

    def fails(cache: Path) -> None:
        asked.append(cache)
        raise subprocess.SubprocessError

    monkeypatch.setattr(compilation, "_kept", fails)
    native_library.__wrapped__()

    assert asked == [Path(expected).expanduser()]


@needs_compiler
@pytest.mark.usefixtures("_quick_compilation")
def test_what_cannot_be_loaded_is_compiled_anew(tmp_path: Path) -> None:
    library = tmp_path / f"engine-{compilation._fingerprint()}.so"
    library.write_bytes(b"damaged")

    assert isinstance(native_library(tmp_path), ctypes.CDLL)
    assert library.stat().st_size > len(b"damaged")


@needs_compiler
@pytest.mark.usefixtures("_quick_compilation")
@pytest.mark.parametrize("cache", ["a file", "somebody else's", "~nobody-of-this-name/cache"])
def test_without_a_place_to_keep_it_the_engine_is_compiled_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    place = tmp_path / cache if not cache.startswith("~") else Path(cache)
    if cache == "a file":
        place.touch()
    elif cache == "somebody else's":
        place.mkdir()
        if os.geteuid() == 0:
            os.chown(place, 12345, -1)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: 12345)

    assert isinstance(native_library(place), ctypes.CDLL)
    assert not place.is_dir() or not list(place.iterdir())


def _runs_here(flag: str) -> bool:
    features = Path("/proc/cpuinfo")
    return "v3" not in flag or (features.exists() and " avx2 " in features.read_text())


def _first_log_probs(engine: FastEngine, source: list[int]) -> dict[int, float]:
    """log P of every token that may come first."""
    engine.reserve(1, 1, len(source) + 1, 1)
    engine.encode([source], [0])
    row = np.array([(0, 0, 0, BEGIN, -1, 1)], dtype=ROW)
    n_tokens = CONFIG.vocab_size - len((PAD, BEGIN))
    ids, log_probs = engine.step(row, np.zeros((1, 1, 1), dtype=np.int32), n_tokens)
    return dict(zip(ids[0].tolist(), log_probs[0].tolist(), strict=True))


@needs_compiler
@pytest.mark.parametrize("flag", ["-march=x86-64-v3", "-march=x86-64"])
def test_older_processors_compute_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    flags = [it for it in compilation.FLAGS if it not in ("-O3", "-march=native")]
    monkeypatch.setattr(compilation, "FLAGS", (*flags, "-O1", flag))
    if not _runs_here(flag) or isinstance(library := native_library(tmp_path), NoLibrary):
        pytest.skip(f"{flag} is for other processors")
    model, texts, limits = random_model(), sources(6), Limits(10)
    newer = engine_of(model, eight_bits=True)
    monkeypatch.setattr("allyouneed.inference.fast_engine.native_library", lambda: library)
    older = engine_of(model, eight_bits=True)

    for text in texts:  # sums are whole numbers; what is rounded before and after differs a little
        assert _first_log_probs(older, text) == pytest.approx(
            _first_log_probs(newer, text), abs=0.2
        )
    plain = search(model, texts, Greedy(), limits)
    for place, [best] in fast_search(engine_of(model), texts, Greedy(), limits, 1, [()] * 6, 500):
        assert best.score == pytest.approx(plain[place][0].score, abs=1e-4)
