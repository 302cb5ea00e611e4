"""Text files of one sentence a line, read whole because every line is scored."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

from allyouneed.data.corpus import LineFile
from allyouneed.errors import DataError


def read_lines(path: Path) -> list[str]:
    """Every line of a file, plain or compressed."""
    lines = list(LineFile(str(path)))
    if not lines:
        raise DataError(f"{path}: the file is empty; it should hold one sentence a line")
    return lines


def read_aligned(path: Path, partner: Path, n_lines: int) -> list[str]:
    """Read a file whose line n belongs to line n of `partner`, which has `n_lines`."""
    lines = read_lines(path)
    if len(lines) != n_lines:
        raise DataError(
            f"{path} has {len(lines)} lines but {partner} has {n_lines}; "
            "line n of one must belong to line n of the other"
        )
    return lines


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write all the lines or, when that fails, leave what was there before."""
    partial = path.with_name(f".{path.name}.partial")
    content = "".join(f"{line}\n" for line in lines)
    try:
        partial.write_text(content, encoding="utf-8", newline="\n")
        partial.replace(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
