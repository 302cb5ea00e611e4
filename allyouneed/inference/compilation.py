"""The native engine, compiled once by the user's own compiler for the processor at hand."""

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parent / "native"
CACHE = Path("~/.cache/allyouneed")
COMPILERS = ("c++", "g++", "clang++")
PATIENCE = 120  # seconds, of which a compiler needs four
# The last but two joins a product and a sum into one instruction, which not all do unasked.
FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC", "-pthread")


@functools.cache
def native_library(cache: Path = CACHE) -> ctypes.CDLL | None:
    """The library, compiled where this is its first use; None where that cannot be done.

    Where nothing can be kept in `cache`, it is compiled every time.
    """
    if os.name != "posix":
        return None
    try:
        try:
            return _kept(cache.expanduser())
        except (OSError, RuntimeError):  # no home, no room, somebody else's, …
            with tempfile.TemporaryDirectory() as folder:
                return _compiled(Path(folder) / "engine.so")  # needs no file once it is loaded
    except (OSError, subprocess.SubprocessError):  # no compiler, an old one, …
        return None


def _kept(cache: Path) -> ctypes.CDLL:
    _keep_others_out(cache)
    library = cache / f"engine-{_fingerprint()}.so"
    if library.exists():
        try:
            return ctypes.CDLL(str(library))
        except OSError:  # damaged, or from a system with other libraries that has the same home
            pass
    return _compiled(library)


def _keep_others_out(folder: Path) -> None:
    """What lies in the folder will be run: nobody else may put anything there."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = folder.stat()
    if state.st_uid not in (os.geteuid(), 0):
        raise PermissionError(f"{folder} belongs to somebody else")
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        folder.chmod(0o700)


def _compiled(library: Path) -> ctypes.CDLL:
    compiler = next(filter(None, map(shutil.which, COMPILERS)), COMPILERS[0])
    # In a folder of its own, since others may be compiling the same.
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        unfinished = Path(folder) / library.name
        command = [compiler, *FLAGS, str(SOURCES / "engine.cpp"), "-o", str(unfinished)]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
        unfinished.replace(library)
    return ctypes.CDLL(str(library))


def _fingerprint() -> str:
    """Of the sources and of what the processor can do."""
    digest = hashlib.blake2b(repr((FLAGS, platform.machine())).encode(), digest_size=8)
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.read_bytes())
    processors = Path("/proc/cpuinfo")
    if processors.exists():
        lines = processors.read_text(encoding="utf-8").splitlines()
        features = {line for line in lines if line.startswith(("flags", "Features"))}
        digest.update("".join(sorted(features)).encode())
    return digest.hexdigest()
