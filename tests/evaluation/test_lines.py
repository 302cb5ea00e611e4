"""Files of one sentence a line."""

from pathlib import Path

import pytest

from allyouneed.errors import DataError
from allyouneed.evaluation.lines import read_aligned, read_lines, write_lines


def test_only_newlines_end_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.de"
    path.write_bytes("eins\u2028zwei\x0b\r\n\ndrei".encode())

    assert read_lines(path) == ["eins\u2028zwei\x0b", "", "drei"]


def test_written_lines_are_read_back(tmp_path: Path) -> None:
    lines = ["für", "", "a\u2028b"]
    write_lines(tmp_path / "a.de", lines)

    assert read_lines(tmp_path / "a.de") == lines
    assert [path.name for path in tmp_path.iterdir()] == ["a.de"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.de"
    write_lines(path, ["alt"])

    def full_disk(*_paths: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(DataError, match="No space left"):
        write_lines(path, ["neu"])

    assert read_lines(path) == ["alt"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.de"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "No such file"), (b"", "is empty"), (b"gut\nschl\xffcht\n", "line 2: .*not UTF-8")],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "a.de"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(DataError, match=f"a.de.*{problem}"):
        read_lines(path)


def test_unequal_files_are_named_with_their_counts(tmp_path: Path) -> None:
    write_lines(tmp_path / "hyp.de", ["eins", "zwei"])

    with pytest.raises(DataError, match=r"hyp.de has 2 lines but ref.de has 3"):
        read_aligned(tmp_path / "hyp.de", Path("ref.de"), 3)
