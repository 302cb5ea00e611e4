"""Files and folders written whole or not at all."""

import os
from pathlib import Path

import pytest

from allyouneed.atomic import new_file, new_folder


def write(folder: Path, text: str) -> None:
    with new_folder(folder) as unfinished:
        (unfinished / "file").write_text(text)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    with new_folder(tmp_path / "a" / "b") as unfinished:
        (unfinished / "file").write_text("whole")
        assert not (tmp_path / "a" / "b").exists()

    assert (tmp_path / "a" / "b" / "file").read_text() == "whole"
    assert names(tmp_path / "a") == ["b"]


def test_an_interruption_between_the_two_renames_puts_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "it", "old")
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        if path.name == ".it.unfinished":
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path / "it", "new")

    assert (tmp_path / "it" / "file").read_text() == "old"
    assert names(tmp_path) == ["it"]


def test_what_a_killed_process_left_is_put_in_order(tmp_path: Path) -> None:
    write(tmp_path / ".it.replaced", "old")  # it was killed between the renames
    write(tmp_path / ".it.unfinished", "new")

    with pytest.raises(ValueError, match="again"), new_folder(tmp_path / "it"):
        raise ValueError("again")

    assert (tmp_path / "it" / "file").read_text() == "old"
    assert names(tmp_path) == ["it"]


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with new_file(tmp_path / "link") as unfinished:
        unfinished.write_text("new")
    with new_file(Path(os.devnull)) as unfinished:
        unfinished.write_text("new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"
    assert not Path(os.devnull).is_file()


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), new_file(tmp_path):
        pass


def test_a_file_is_the_old_one_until_it_is_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail_halfway() -> None:
        with new_file(path) as unfinished:
            unfinished.write_text("half")
            raise ValueError("halfway")

    with pytest.raises(ValueError, match="halfway"):
        fail_halfway()
    assert path.read_text() == "old"

    with new_file(path) as unfinished:
        unfinished.write_text("new")
    assert path.read_text() == "new"
    assert names(tmp_path) == ["file"]
