"""Folders that are written whole or not at all."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder to fill; it takes the place of `folder` once the block has ended well.

    Whatever interrupts the block, `folder` is then as it was before. What a killed process
    leaves, `.NAME.unfinished`, the next call removes.
    """
    unfinished, replaced = (
        folder.with_name(f".{folder.name}.{state}") for state in ("unfinished", "replaced")
    )
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
        shutil.rmtree(replaced, ignore_errors=True)


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
