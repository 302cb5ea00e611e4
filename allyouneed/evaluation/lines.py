"""Text files of one sentence a line, read whole because every line is scored."""

from collections.abc import Iterable
from pathlib import Path

from allyouneed.atomic import new_file
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
    content = "".join(f"{line}\n" for line in lines)
    try:
        with new_file(path) as unfinished:
            unfinished.write_text(content, encoding="utf-8", newline="\n")
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from None
