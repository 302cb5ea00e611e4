"""Lists of pieces, on disk and in memory."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save

from allyouneed.errors import CheckpointError
from allyouneed.shortlist import Shortlist

# Of ten pieces: piece 4 becomes 7 or 3, piece 6 becomes 8, 3 or 9, the others nothing.
COUNTS = np.array([0, 0, 0, 0, 2, 0, 3, 0, 0, 0])
SMALL = Shortlist(np.array([2, 3]), COUNTS, np.array([7, 3, 8, 3, 9]))


def test_a_source_may_become_what_its_pieces_become_and_these_themselves() -> None:
    assert SMALL.choices([4], []).tolist() == [4, 7]
    assert SMALL.choices([6, 4, 6], []).tolist() == [4, 6, 7, 8, 9]
    assert SMALL.choices([5], [9, 1]).tolist() == [1, 5, 9]
    assert SMALL.choices([], []).tolist() == []


def test_a_list_is_the_same_after_it_was_stored(tmp_path: Path) -> None:
    SMALL.save(tmp_path / "list")

    loaded = Shortlist.load(tmp_path / "list", 10)

    for name in ("always", "counts", "pieces"):
        assert getattr(loaded, name).tolist() == getattr(SMALL, name).tolist()
    assert loaded.always.dtype == loaded.choices([4], []).dtype == np.int32
    assert (tmp_path / "list").stat().st_size < 300


def test_ids_beyond_sixteen_bits_are_kept(tmp_path: Path) -> None:
    vocab_size = 2**16 + 5
    large = Shortlist(np.array([2, 2**16 + 4]), np.zeros(vocab_size), np.empty(0, np.int32))
    large.save(tmp_path / "list")

    assert Shortlist.load(tmp_path / "list", vocab_size).always.tolist() == [2, 2**16 + 4]


@pytest.mark.parametrize(
    "changed",
    [
        {"always": np.array([2, 10], np.uint16)},  # no such piece
        {"pieces": np.array([7, 3, 8, 3], np.uint16)},  # one too few
        {"pieces": np.array([7, 3, 8, 3, 10], np.uint16)},
        {"counts": np.append(COUNTS, 0).astype(np.uint16)},  # of another vocabulary
        {"counts": COUNTS.astype(np.float32)},
        {"always": np.array([[2, 3]], np.uint16)},
        {"more": np.array([1], np.uint16)},
    ],
)
def test_a_list_for_another_model_is_refused(
    tmp_path: Path, changed: dict[str, NDArray[np.uint16]]
) -> None:
    parts = {"always": SMALL.always, "counts": SMALL.counts, "pieces": SMALL.pieces}
    whole = {name: part.astype(np.uint16) for name, part in parts.items()} | changed
    (tmp_path / "list").write_bytes(save(whole))

    with pytest.raises(CheckpointError, match="not a shortlist for 10 pieces; learn it anew"):
        Shortlist.load(tmp_path / "list", 10)


@pytest.mark.parametrize("always", [[], [3, 4], [2, 3, 3]], ids=["none", "endless", "repeated"])
def test_a_list_without_an_end_or_with_repetitions_is_refused(
    tmp_path: Path, always: list[int]
) -> None:
    Shortlist(np.array(always, np.int32), COUNTS, SMALL.pieces).save(tmp_path / "list")

    with pytest.raises(CheckpointError, match="lack the end mark or repeat one; learn it anew"):
        Shortlist.load(tmp_path / "list", 10)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list").write_bytes(b"no safetensors")

    with pytest.raises(CheckpointError, match="damaged"):
        Shortlist.load(tmp_path / "list", 10)
