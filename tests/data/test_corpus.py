"""Corpora: every line once, whatever the file; what is wrong with a file is said with its line."""

import gzip
import lzma
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.config import CorpusConfig
from allyouneed.data.corpus import Corpus
from allyouneed.errors import DataError, MissingExtraError

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}
LINES = b"".join(b"line %d with words\n" % number for number in range(20_000))


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def read_tsv(path: Path, content: str | bytes) -> list[tuple[str, str]]:
    return list(Corpus(CorpusConfig(tsv=write(path, content))))


def read_files(folder: Path, src: str | bytes, tgt: str | bytes) -> list[tuple[str, str]]:
    source, target = write(folder / "train.en", src), write(folder / "train.de", tgt)
    return list(Corpus(CorpusConfig(source=source, target=target)))


@given(
    st.lists(st.tuples(*[st.text(st.characters(exclude_characters="\n\r\t", codec="utf-8"))] * 2))
)
def test_lines_end_at_newlines_only(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    pairs = [("first", "erste"), *pairs]  # so that no byte order mark is in the first place
    content = "".join(f"{src}\t{tgt}\n" for src, tgt in pairs)

    assert read_tsv(tmp_path_factory.mktemp("corpus") / "c.tsv", content) == pairs


@pytest.mark.parametrize(
    "content", ["a\tb\nc\td\n", "a\tb\r\nc\td\r\n", "a\tb\nc\td", "\ufeffa\tb\nc\td"]
)
def test_line_ends_and_byte_order_marks_do_not_reach_the_text(tmp_path: Path, content: str) -> None:
    assert read_tsv(tmp_path / "c.tsv", content) == [("a", "b"), ("c", "d")]


def test_two_files_are_read_side_by_side(tmp_path: Path) -> None:
    assert read_files(tmp_path, "a\n\nb c\n", "x\ny\t1\nz") == [
        ("a", "x"),
        ("", "y\t1"),
        ("b c", "z"),
    ]


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_compressed_files_hold_the_same_lines(tmp_path: Path, suffix: str) -> None:
    half = len(LINES) // 2  # compressed files may be put end to end
    content = COMPRESSORS[suffix](LINES[:half]) + COMPRESSORS[suffix](LINES[half:])
    source = write(tmp_path / f"train.en{suffix}", content)
    target = write(tmp_path / "train.de", LINES)
    corpus = Corpus(CorpusConfig(source=source, target=target))

    pairs = list(corpus)

    assert all(src == tgt for src, tgt in pairs)
    assert len(pairs) == 20_000
    assert corpus.bytes_read == corpus.n_bytes == len(content) + len(LINES)


@pytest.mark.parametrize("suffix", COMPRESSORS)
@pytest.mark.parametrize("damage", ["cut", "not compressed"])
def test_a_damaged_compressed_file_is_refused(tmp_path: Path, suffix: str, damage: str) -> None:
    content = COMPRESSORS[suffix](LINES)[:-12] if damage == "cut" else LINES
    name = write(tmp_path / f"c.tsv{suffix}", content)

    with pytest.raises(DataError, match=rf"c\.tsv\{suffix}: cannot be read after line"):
        for _ in Corpus(CorpusConfig(source=name, target=name)):
            pass


def test_zstd_without_its_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)

    with pytest.raises(MissingExtraError, match=r"pip install zstandard"):
        read_tsv(tmp_path / "c.tsv.zst", COMPRESSORS[".zst"](b"a\tb\n"))


@pytest.mark.parametrize(("n_src", "n_tgt"), [(3, 5), (5, 3), (0, 2), (4, 5)])
def test_files_of_unequal_length_are_refused_with_both_counts(
    tmp_path: Path, n_src: int, n_tgt: int
) -> None:
    with pytest.raises(DataError, match=rf"en has {n_src} lines but .*de has {n_tgt};"):
        read_files(tmp_path, "a\n" * n_src, "b\n" * n_tgt)


def test_bad_utf8_is_refused_with_its_line_and_byte(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.de, line 3: byte 2 of the line is not UTF-8"):
        read_files(tmp_path, "a\nb\nc\n", b"a\nb\nx\xff\n")


@pytest.mark.parametrize(("line", "n_columns"), [("a\tb\tc", 3), ("a", 1), ("", 1)])
def test_a_line_without_two_columns_is_refused(tmp_path: Path, line: str, n_columns: int) -> None:
    with pytest.raises(DataError, match=rf"c\.tsv, line 2: {n_columns} columns"):
        read_tsv(tmp_path / "c.tsv", f"a\tb\n{line}\n")


def test_an_empty_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"c\.tsv: the corpus is empty"):
        read_tsv(tmp_path / "c.tsv", "")
    with pytest.raises(DataError, match=r"train\.en: the corpus is empty"):
        read_files(tmp_path, "", "")


def test_a_missing_file_or_a_folder_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.tsv: cannot be read: No such file"):
        Corpus(CorpusConfig(tsv=str(tmp_path / "nowhere.tsv")))
    with pytest.raises(DataError, match="is a folder"):
        Corpus(CorpusConfig(tsv=str(tmp_path)))
