"""Files that commands write: whole or not at all."""

import contextlib
from pathlib import Path

from allyouneed.errors import DataError


def write_whole(path: Path, content: str | bytes) -> None:
    data = content.encode() if isinstance(content, str) else content
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
