"""Parallel text on disk -> pairs of lines.

A line ends at a newline, with a carriage return before it or not, and nowhere else: U+2028, form
feeds and the like are part of the line, so that line n here is line n for every other tool.
"""

import gzip
import itertools
import lzma
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from allyouneed.config import CorpusConfig
from allyouneed.errors import DataError, MissingExtraError

_BYTE_ORDER_MARK = "\ufeff"
_BLOCK_SIZE = 1 << 17
COMPRESSIONS = (".gz", ".xz", ".zst")  # that files are read from, by the ends of their names


class LineFile:
    """The lines of one text file, plain or compressed; errors name file and line."""

    def __init__(self, name: str) -> None:
        self.path = Path(name)
        if self.path.is_dir():
            raise DataError(f"{self.path}: is a folder; name a text file")
        try:
            with self.path.open("rb"):  # a file that is missing stops a run before its long work
                self.n_bytes = self.path.stat().st_size
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read: {error.strerror}") from None
        self.bytes_read = 0  # of the file as it lies on disk

    def __iter__(self) -> Iterator[str]:
        number = 0
        try:
            for number, line in enumerate(_lines(self._blocks()), 1):
                yield self._decode(line, number)
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            raise DataError(f"{self.path}: cannot be read after line {number}: {error}") from None

    def content(self) -> bytes:
        """The whole text, line ends and all, undecoded."""
        try:
            return b"".join(self._blocks())
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            raise DataError(f"{self.path}: cannot be read: {error}") from None

    def _blocks(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            for block in _decompressed_blocks(file, self.path):
                self.bytes_read = file.tell()
                yield block

    def _decode(self, line: bytes, number: int) -> str:
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self.path}, line {number}: byte {error.start + 1} of the line is not UTF-8 "
                f"({error.reason}); convert the file to UTF-8"
            ) from None
        if number == 1:
            text = text.removeprefix(_BYTE_ORDER_MARK)
        return text.removesuffix("\r")


class Corpus:
    """The pairs of one corpus, first to last."""

    def __init__(self, config: CorpusConfig) -> None:
        names = (config.tsv,) if config.tsv else (config.source, config.target)
        self._files = [LineFile(name) for name in names if name]

    @property
    def n_bytes(self) -> int:
        return sum(file.n_bytes for file in self._files)

    @property
    def bytes_read(self) -> int:
        return sum(file.bytes_read for file in self._files)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        pairs = _columns(*self._files) if len(self._files) == 1 else _aligned(*self._files)
        first = next(pairs, None)
        if first is None:
            raise DataError(f"{self._files[0].path}: the corpus is empty; give one that has lines")
        yield first
        yield from pairs


def _aligned(sources: LineFile, targets: LineFile) -> Iterator[tuple[str, str]]:
    src_lines, tgt_lines = iter(sources), iter(targets)
    for n_before, (src, tgt) in enumerate(itertools.zip_longest(src_lines, tgt_lines)):
        if src is None or tgt is None:
            n_longer = n_before + 1 + sum(1 for _ in itertools.chain(src_lines, tgt_lines))
            n_src, n_tgt = (n_before, n_longer) if src is None else (n_longer, n_before)
            raise DataError(
                f"{sources.path} has {n_src} lines but {targets.path} has {n_tgt}; "
                "line n of one must belong to line n of the other"
            )
        yield src, tgt


def _columns(file: LineFile) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(file, 1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise DataError(
                f"{file.path}, line {number}: {len(columns)} columns; "
                "a line is a source, one tab and a target"
            )
        yield columns[0], columns[1]


def _lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _decompressed_blocks(file: IO[bytes], path: Path) -> Iterator[bytes]:
    if path.suffix == ".zst":
        return _zstd_blocks(file, path)
    reader: IO[bytes] | gzip.GzipFile | lzma.LZMAFile = file
    if path.suffix == ".gz":
        reader = gzip.GzipFile(fileobj=file)
    elif path.suffix == ".xz":
        reader = lzma.LZMAFile(file)  # noqa: SIM115 - the caller closes the file
    return iter(lambda: reader.read(_BLOCK_SIZE), b"")


def _zstd_blocks(file: IO[bytes], path: Path) -> Iterator[bytes]:
    """Frame by frame: zstandard's own reader takes a file that was cut short for a whole one."""
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError("zstandard", "zstd", f"reading {path}") from None
    frame = zstandard.ZstdDecompressor().decompressobj()
    try:
        while block := file.read(_BLOCK_SIZE):
            while block:
                if frame.eof:
                    frame = zstandard.ZstdDecompressor().decompressobj()
                yield frame.decompress(block)
                block = frame.unused_data
    except zstandard.ZstdError as error:
        raise EOFError(str(error)) from None
    if not frame.eof:
        raise EOFError("the compressed file was cut short")
