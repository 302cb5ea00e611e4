"""Files that commands write: whole or not at all."""

from pathlib import Path

from allyouneed.atomic import new_file
from allyouneed.errors import DataError


def write_whole(path: Path, content: str | bytes) -> None:
    data = content.encode() if isinstance(content, str) else content
    try:
        with new_file(path) as unfinished:
            unfinished.write_bytes(data)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from None
