"""Shards: what was written is read, and damage is noticed."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.data.shards import CorpusDescription, Description, PreparedData, ShardWriter
from allyouneed.errors import DataError

Pair = tuple[list[int], list[int]]
ids = st.lists(st.integers(0, 299), max_size=5)


def write_folder(folder: Path, corpora: list[list[Pair]], vocab_size: int = 300) -> None:
    descriptions = tuple(
        CorpusDescription(name=f"c{k}", weight=k + 1.0, n_pairs=len(pairs), n_read=9, filtered={})
        for k, pairs in enumerate(corpora)
    )
    description = Description(vocab_size=vocab_size, fingerprint="f", corpora=descriptions)
    for number, pairs in enumerate(corpora):
        with ShardWriter(folder, number, description.dtype) as writer:
            for src, tgt in pairs:
                writer.write(np.array(src + tgt), np.array([[len(src), len(tgt)]], np.int32))
    description.save(folder)


@given(st.lists(st.lists(st.tuples(ids, ids), max_size=4), min_size=1, max_size=4))
def test_every_pair_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, corpora: list[list[Pair]]
) -> None:
    folder = tmp_path_factory.mktemp("prepared")
    write_folder(folder, corpora)

    data = PreparedData.open(folder)

    written = [pair for corpus in corpora for pair in corpus]
    read = [data.pair(index) for index in range(len(data))]
    assert [(src.tolist(), tgt.tolist()) for src, tgt in read] == written
    assert data.lengths.tolist() == [[len(src), len(tgt)] for src, tgt in written]


def test_the_texts_of_many_pairs_are_theirs_in_the_order_asked_for(tmp_path: Path) -> None:
    write_folder(tmp_path, [[([5], [6, 7]), ([8, 9], [10])], [], [([11], [12]), ([13], [14, 15])]])

    src, tgt = PreparedData.open(tmp_path).texts(np.array([3, 1, 0, 1, 2]))

    assert src.tolist() == [13, 8, 9, 5, 8, 9, 11]
    assert tgt.tolist() == [14, 15, 10, 6, 7, 10, 12]


def test_spans_give_each_corpus_its_pairs_and_weight(tmp_path: Path) -> None:
    write_folder(tmp_path, [[([5], [6])] * 3, [], [([7], [8])] * 2])

    assert PreparedData.open(tmp_path).spans == ((0, 3, 1.0, 1), (3, 3, 2.0, 1), (3, 5, 3.0, 1))


@pytest.mark.parametrize(("vocab_size", "n_bytes"), [(65_536, 2), (65_537, 4)])
def test_ids_take_two_bytes_when_the_vocabulary_fits(
    tmp_path: Path, vocab_size: int, n_bytes: int
) -> None:
    write_folder(tmp_path, [[([vocab_size - 1], [4])]], vocab_size)

    assert (tmp_path / "0.ids").stat().st_size == 2 * n_bytes
    assert PreparedData.open(tmp_path).pair(0)[0].tolist() == [vocab_size - 1]


def test_an_index_outside_the_data_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path, [[([5], [6])]])
    data = PreparedData.open(tmp_path)

    for index in (-1, 1):
        with pytest.raises(IndexError):
            data.pair(index)


def test_a_pair_is_a_view_and_not_a_copy(tmp_path: Path) -> None:
    write_folder(tmp_path, [[([5, 6], [7])]])

    src, tgt = PreparedData.open(tmp_path).pair(0)

    assert isinstance(src, np.memmap)
    assert isinstance(tgt, np.memmap)


def test_the_description_survives_the_disk(tmp_path: Path) -> None:
    corpus = CorpusDescription(name="ä", weight=0.5, n_pairs=2, n_read=3, filtered={"empty": 1})
    description = Description(vocab_size=300, fingerprint="f", corpora=(corpus,))

    description.save(tmp_path)

    assert Description.load(tmp_path) == description


def test_a_failed_writer_leaves_no_lengths(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), ShardWriter(tmp_path, 0, np.dtype(np.uint16)):
        raise ZeroDivisionError

    assert not (tmp_path / "0.lengths.npy").exists()


def test_a_folder_without_a_description_asks_for_prepare(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="run prepare first"):
        PreparedData.open(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["0.ids", "0.lengths.npy", "prepared.json"])
@pytest.mark.parametrize("damage", ["cut", "removed", "emptied"])
def test_damage_to_any_file_is_noticed(tmp_path: Path, name: str, damage: str) -> None:
    write_folder(tmp_path, [[([5, 6], [7])] * 10])
    path = tmp_path / name
    if damage == "removed":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-2] if damage == "cut" else b"")
    if name == "prepared.json" and damage == "cut":
        path.write_text("[1, 2]")

    with pytest.raises(DataError, match="run prepare"):
        PreparedData.open(tmp_path)


def test_lengths_that_disagree_with_the_description_are_noticed(tmp_path: Path) -> None:
    write_folder(tmp_path, [[([5, 6], [7])] * 10])
    np.save(tmp_path / "0.lengths.npy", np.full((15, 2), 1, np.int32))  # as many ids, more pairs

    with pytest.raises(DataError, match="10 pairs"):
        PreparedData.open(tmp_path)


def test_a_folder_of_another_format_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path, [[([5], [6])]])
    path = tmp_path / "prepared.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))

    with pytest.raises(DataError, match="has format 99"):
        PreparedData.open(tmp_path)
