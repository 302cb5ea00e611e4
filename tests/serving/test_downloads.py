import pytest

from allyouneed.serving.downloads import Downloads


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_file_is_there_for_a_while() -> None:
    clock = Clock()
    downloads = Downloads(clock)
    name = downloads.add("a.txt", b"text")

    clock.now = 599
    file = downloads.get(name)
    assert file is not None
    assert (file.filename, file.content) == ("a.txt", b"text")
    clock.now = 601
    assert downloads.get(name) is None


def test_names_are_not_those_of_the_files() -> None:
    downloads = Downloads()
    names = {downloads.add("a.txt", b"") for _ in range(10)}

    assert len(names) == 10
    assert downloads.get("a.txt") is None


def test_the_oldest_go_when_there_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allyouneed.serving.downloads._MOST_BYTES", 10)
    downloads = Downloads()
    old, new = downloads.add("a", b"123456"), downloads.add("b", b"123456")

    assert downloads.get(old) is None
    assert downloads.get(new) is not None
