"""Files and folders that are written whole or not at all."""

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a name to write to; the file there becomes `path` once the block has ended well.

    A device or a named pipe cannot be replaced: it is written to as it is.
    """
    path = path.resolve()  # a link stays a link
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file", str(path))
    if path.exists() and not path.is_file():
        yield path
        return
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder to fill; it takes the place of `folder` once the block has ended well.

    Whatever interrupts the block, `folder` is then as it was before. Where a process was killed,
    the next call clears up.
    """
    folder = folder.absolute()
    unfinished, replaced = (
        folder.with_name(f".{folder.name}.{state}") for state in ("unfinished", "replaced")
    )
    _put_back(replaced, folder)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        for path in (*unfinished.iterdir(), unfinished):
            _flush_to_disk(path)
        if folder.exists():  # a folder that is not empty cannot be replaced in one step
            folder.rename(replaced)
        unfinished.rename(folder)
        _flush_to_disk(folder.parent)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        _put_back(replaced, folder)


def _put_back(replaced: Path, folder: Path) -> None:
    """Undo half a replacement; of a whole one, remove what was replaced."""
    if replaced.exists():
        if folder.exists():
            shutil.rmtree(replaced, ignore_errors=True)
        else:
            replaced.rename(folder)


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
