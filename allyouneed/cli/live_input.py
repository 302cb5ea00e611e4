"""Lines from a pipe or a terminal, handed on as soon as no more are waiting."""

import queue
import threading
from collections.abc import Iterator
from typing import IO

from allyouneed.errors import DataError

_BLOCK_SIZE = 1 << 16
_BLOCKS_AHEAD = 64


def windows_of_lines(stream: IO[bytes], size: int) -> Iterator[list[str]]:
    """Up to `size` lines at a time, fewer when the writer pauses; a line ends at a newline."""
    n_before = 0
    for window in _raw_windows(_blocks(stream), size):
        yield [_decode(line, number) for number, line in enumerate(window, n_before + 1)]
        n_before += len(window)


def _raw_windows(blocks: "queue.Queue[bytes | OSError]", size: int) -> Iterator[list[bytes]]:
    lines: list[bytes] = []
    rest = b""
    while block := blocks.get():
        if isinstance(block, OSError):
            raise DataError(f"standard input: cannot be read: {block.strerror}")
        *whole, rest = (rest + block).split(b"\n")
        lines += whole
        while len(lines) >= size or (lines and blocks.empty()):
            yield lines[:size]
            del lines[:size]
    lines += [rest] if rest else []
    if lines:
        yield lines


def _blocks(stream: IO[bytes]) -> "queue.Queue[bytes | OSError]":
    """What comes in, block by block, read by a thread; an empty block is the end."""
    blocks: queue.Queue[bytes | OSError] = queue.Queue(_BLOCKS_AHEAD)
    # Unbuffered: a read returns what is there, and a thread that waits in it forever holds no
    # lock that the interpreter needs when it exits.
    raw = getattr(stream, "raw", stream)

    def read() -> None:
        try:
            while block := raw.read(_BLOCK_SIZE):
                blocks.put(block)
            blocks.put(b"")
        except OSError as error:
            blocks.put(error)

    threading.Thread(target=read, daemon=True).start()
    return blocks


def _decode(line: bytes, number: int) -> str:
    try:
        return line.removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"standard input, line {number}: byte {error.start + 1} of the line is not UTF-8 "
            f"({error.reason}); convert the text to UTF-8"
        ) from None
