"""Prepared pairs on disk: ids that are mapped into memory, lengths that are read into it.

For corpus number k a prepared folder holds `k.ids`, the ids of every pair (source, then target,
without marks) one after the other, and `k.lengths.npy`, the two lengths of each pair. Where pairs
were cut into pieces in several ways, those of a pair stand side by side.
`prepared.json` describes them all and is written last.
"""

import bisect
import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from allyouneed.data.ranges import ranges, starts_of
from allyouneed.errors import DataError

FORMAT_VERSION = 1
DESCRIPTION_FILE = "prepared.json"

Ids = npt.NDArray[np.unsignedinteger[Any]]
Lengths = npt.NDArray[np.int32]  # (n, 2): source, target


def dtype_for(vocab_size: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The smallest type that holds every id."""
    return np.dtype(np.uint16 if vocab_size <= 2**16 else np.uint32)


@dataclass(frozen=True, kw_only=True)
class CorpusDescription:
    """One corpus of a prepared folder."""

    name: str
    weight: float
    n_pairs: int
    n_read: int
    filtered: Mapping[str, int]  # pairs that each filter took out


@dataclass(frozen=True, kw_only=True)
class Description:
    """What `prepared.json` says."""

    vocab_size: int
    fingerprint: str  # of the settings and files that the folder was made from
    corpora: tuple[CorpusDescription, ...]
    segmentations: int = 1  # ways that each pair is cut into pieces

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger[Any]]:
        return dtype_for(self.vocab_size)

    def save(self, folder: Path) -> None:
        tree = {"format": FORMAT_VERSION, "dtype": self.dtype.name, **dataclasses.asdict(self)}
        text = json.dumps(tree, indent=2, ensure_ascii=False)
        (folder / DESCRIPTION_FILE).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "Description":
        path = folder / DESCRIPTION_FILE
        try:
            tree = json.loads(path.read_text(encoding="utf-8"))
            if (version := tree.pop("format")) != FORMAT_VERSION:
                raise DataError(
                    f"{path}: has format {version} where this version reads {FORMAT_VERSION}; "
                    "run prepare again"
                )
            del tree["dtype"]  # follows from vocab_size; written for other readers of the folder
            corpora = tuple(CorpusDescription(**corpus) for corpus in tree.pop("corpora"))
            return cls(**tree, corpora=corpora)
        except FileNotFoundError:
            raise DataError(f"{folder}: holds no prepared data; run prepare first") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path}: damaged ({error}); run prepare again") from None


class Span(NamedTuple):
    """The places `start` up to, not at, `stop` are of one corpus, a pair in each of its ways."""

    start: int
    stop: int
    weight: float
    segmentations: int = 1


class PreparedData:
    """All corpora of a run as one sequence of pairs, one corpus after the other.

    A pair that is cut into pieces in several ways takes as many places in a row.
    """

    def __init__(
        self, description: Description, lengths: Sequence[Lengths], ids: Sequence[Ids]
    ) -> None:
        self.description = description
        self.lengths: Lengths = np.concatenate([np.empty((0, 2), np.int32), *lengths])
        stops = np.cumsum([len(corpus) for corpus in lengths]).tolist()
        self.spans = tuple(
            Span(stop - len(rows), stop, corpus.weight, description.segmentations)
            for corpus, rows, stop in zip(description.corpora, lengths, stops, strict=True)
        )
        self._stops = stops
        self._ids = ids
        # Where the ids of each pair begin, among those of its corpus.
        self._offsets = np.concatenate(
            [np.empty(0, np.int64), *(starts_of(corpus.sum(axis=1)) for corpus in lengths)]
        )

    @classmethod
    def open(cls, folder: Path) -> "PreparedData":
        description = Description.load(folder)
        lengths, ids = [], []
        for number, corpus in enumerate(description.corpora):
            n_rows = corpus.n_pairs * description.segmentations
            lengths.append(_read_lengths(folder, number, n_rows))
            ids.append(_map_ids(folder, number, description.dtype, int(lengths[-1].sum())))
        return cls(description, lengths, ids)

    def __len__(self) -> int:
        return len(self.lengths)

    def pair(self, index: int) -> tuple[Ids, Ids]:
        """Source and target ids of one pair: views, without begin or end."""
        if not 0 <= index < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        corpus = bisect.bisect_right(self._stops, index)
        start = self._offsets[index]
        middle = start + self.lengths[index, 0]
        ids = self._ids[corpus]
        return ids[start:middle], ids[middle : middle + self.lengths[index, 1]]

    def texts(self, indices: npt.NDArray[np.int64]) -> tuple[Ids, Ids]:
        """All source ids of these pairs end to end, and all target ids: copies."""
        corpora = np.searchsorted(self._stops, indices, side="right")
        starts = self._offsets[indices]
        src_sizes, tgt_sizes = self.lengths[indices].T
        return (
            self._gather(corpora, starts, src_sizes),
            self._gather(corpora, starts + src_sizes, tgt_sizes),
        )

    def _gather(
        self,
        corpora: npt.NDArray[np.int64],
        starts: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int32],
    ) -> Ids:
        places, corpus_of = ranges(starts, sizes), np.repeat(corpora, sizes)
        gathered = np.empty(len(places), self.description.dtype)
        for corpus in np.unique(corpora):
            members = corpus_of == corpus
            gathered[members] = self._ids[corpus][places[members]]
        return gathered


class ShardWriter:
    """Write the pairs of corpus `number`; leaving the `with` block completes its files."""

    def __init__(self, folder: Path, number: int, dtype: np.dtype[Any]) -> None:
        self._lengths_path = _lengths_path(folder, number)
        self._ids_file = _ids_path(folder, number).open("wb")
        self._dtype = dtype
        self._lengths: list[Lengths] = [np.empty((0, 2), np.int32)]

    def write(self, ids: npt.NDArray[np.integer[Any]], lengths: Lengths) -> None:
        """`ids` holds the sources and targets of `lengths`, end to end."""
        self._ids_file.write(ids.astype(self._dtype, copy=False).tobytes())
        self._lengths.append(lengths)

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ids_file.close()
        if kind is None:
            np.save(self._lengths_path, np.concatenate(self._lengths))


def _ids_path(folder: Path, number: int) -> Path:
    return folder / f"{number}.ids"


def _lengths_path(folder: Path, number: int) -> Path:
    return folder / f"{number}.lengths.npy"


def _read_lengths(folder: Path, number: int, n_pairs: int) -> Lengths:
    path = _lengths_path(folder, number)
    try:
        lengths = np.load(path)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: missing or damaged ({error}); run prepare again") from None
    if lengths.shape != (n_pairs, 2) or lengths.dtype != np.int32:
        raise DataError(
            f"{path}: holds {lengths.dtype}{lengths.shape} where {DESCRIPTION_FILE} says "
            f"{n_pairs} pairs; run prepare again"
        )
    return np.asarray(lengths, np.int32)


def _map_ids(folder: Path, number: int, dtype: np.dtype[Any], n_ids: int) -> Ids:
    path = _ids_path(folder, number)
    try:
        n_bytes = path.stat().st_size
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; run prepare again") from None
    if n_bytes != n_ids * dtype.itemsize:
        raise DataError(
            f"{path}: holds {n_bytes} bytes but its lengths ask for {n_ids * dtype.itemsize}; "
            "run prepare again"
        )
    if n_ids == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r")
