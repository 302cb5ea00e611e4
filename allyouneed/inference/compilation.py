"""The native engine, compiled once by the user's own compiler for the processor at hand."""

import ctypes
import functools
import hashlib
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parent / "native"
CACHE = Path.home() / ".cache" / "allyouneed"
COMPILERS = ("c++", "g++", "clang++")
# The last but two joins a product and a sum into one instruction, which not all do unasked.
FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC", "-pthread")


@functools.cache
def native_library(cache: Path = CACHE) -> ctypes.CDLL | None:
    """The library, compiled where this is its first use; None where that cannot be done."""
    library = cache / f"engine-{_fingerprint()}.so"
    try:
        if not library.exists():
            _compile(library)
        return ctypes.CDLL(str(library))
    except (OSError, subprocess.CalledProcessError):  # no compiler, an old one, no room, …
        return None


def _compile(library: Path) -> None:
    compiler = next(filter(None, map(shutil.which, COMPILERS)), COMPILERS[0])
    library.parent.mkdir(parents=True, exist_ok=True)
    # In a folder of its own, since others may be compiling the same.
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        unfinished = Path(folder) / library.name
        command = [compiler, *FLAGS, str(SOURCES / "engine.cpp"), "-o", str(unfinished)]
        subprocess.run(command, check=True, capture_output=True)
        unfinished.replace(library)


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
