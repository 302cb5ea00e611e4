"""The native engine, compiled once by the user's own compiler for the processor at hand."""

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parent / "native"
COMPILERS = ("c++", "g++", "clang++")
PATIENCE = 120  # seconds, of which a compiler needs four
KEPT_UNUSED = 30 * 24 * 3600  # seconds that a build for other sources or processors is kept
# -ffp-contract joins a product and a sum into one instruction, which not all do unasked.
FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC", "-pthread")


@dataclass(frozen=True)
class NoLibrary:
    """Instead of one that cannot be had."""

    why: str


@functools.cache
def native_library(cache: Path | None = None) -> ctypes.CDLL | NoLibrary:
    """The library, compiled where this is its first use.

    Where nothing can be kept in `cache`, it is compiled every time.
    """
    if os.name != "posix":
        return NoLibrary("it is made for Linux and macOS")
    try:
        try:
            return _kept((cache or _users_cache()).expanduser())
        except (OSError, RuntimeError):  # no home, no room, somebody else's, …
            with tempfile.TemporaryDirectory() as folder:
                return _compiled(Path(folder) / "engine.so")  # needs no file once it is loaded
    except (OSError, subprocess.SubprocessError) as error:
        return NoLibrary(_explained(error))


def _users_cache() -> Path:
    """Where XDG_CACHE_HOME says; a path that is not absolute counts as none."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path("~/.cache")) / "allyouneed"


def _kept(cache: Path) -> ctypes.CDLL:
    _keep_others_out(cache)
    library = cache / f"engine-{_fingerprint()}.so"
    if library.exists():
        try:
            loaded = ctypes.CDLL(str(library))
        except OSError:  # damaged, or from a system with other libraries that has the same home
            pass
        else:
            with contextlib.suppress(OSError):
                library.touch()  # which says that it is in use
            return loaded
    _forget_unused(cache)
    return _compiled(library)


def _forget_unused(cache: Path) -> None:
    """Whoever has loaded one keeps it, and whoever wants it again compiles it again."""
    for build in cache.glob("engine-*.so"):
        with contextlib.suppress(FileNotFoundError):  # another process has forgotten it already
            if time.time() - build.stat().st_mtime > KEPT_UNUSED:
                build.unlink()


def _keep_others_out(folder: Path) -> None:
    """What lies in the folder will be run: nobody else may put anything there."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = folder.stat()
    if state.st_uid not in (os.geteuid(), 0):
        raise PermissionError(f"{folder} belongs to somebody else")
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        folder.chmod(0o700)


def _compiled(library: Path) -> ctypes.CDLL:
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise FileNotFoundError(f"there is no C++ compiler ({', '.join(COMPILERS)})")
    # In a folder of its own, since others may be compiling the same.
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        unfinished = Path(folder) / library.name
        command = [compiler, *FLAGS, str(SOURCES / "engine.cpp"), "-o", str(unfinished)]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
        unfinished.replace(library)
    return ctypes.CDLL(str(library))


def _explained(error: OSError | subprocess.SubprocessError) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = error.stderr.decode(errors="replace").splitlines()
        said = next((line for line in lines if "error" in line), "nothing of an error")
        return f"{error.cmd[0]} cannot compile it and says: {said}"
    if isinstance(error, subprocess.TimeoutExpired):
        return f"{error.cmd[0]} had not compiled it after {PATIENCE} seconds"
    return str(error)


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
