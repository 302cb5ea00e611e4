"""Preparation: every pair that passes the filters, once, in order; a whole folder or none."""

import dataclasses
import errno
import multiprocessing
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from allyouneed.config import CorpusConfig, DataConfig, FilterConfig, ModelConfig, RunConfig
from allyouneed.data import encoding
from allyouneed.data import prepare as preparation
from allyouneed.data.prepare import TOKENIZER_FILE, is_prepared, prepare
from allyouneed.data.shards import PreparedData, ShardWriter
from allyouneed.errors import ConfigError, DataError
from allyouneed.text.tokenizer import Tokenizer

Pair = tuple[str, str]
PAIRS: list[Pair] = [
    (f"the cat saw {number} big dogs", f"die Katze sah {number} große Hunde")
    for number in range(50)
]
TOKENIZER = Tokenizer.learn(["other words entirely"] * 3, 280)


def write_tsv(path: Path, pairs: list[Pair]) -> CorpusConfig:
    path.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs), encoding="utf-8")
    return CorpusConfig(tsv=str(path))


def make_run(*corpora: CorpusConfig, workers: int | None = 1, **filters: Any) -> RunConfig:
    return RunConfig(
        model=ModelConfig(vocab_size=310),
        data=DataConfig(corpora=corpora, workers=workers, filters=FilterConfig(**filters)),
    )


def prepared_texts(folder: Path) -> list[Pair]:
    data, tokenizer = PreparedData.open(folder), Tokenizer.load(folder / TOKENIZER_FILE)
    pairs = (data.pair(index) for index in range(len(data)))
    return [(tokenizer.decode(src.tolist()), tokenizer.decode(tgt.tolist())) for src, tgt in pairs]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_good_pairs_are_kept_in_order_and_normalised(tmp_path: Path) -> None:
    corpus = write_tsv(tmp_path / "c.tsv", [(f" {src}  x", f"{tgt}\u200b x") for src, tgt in PAIRS])

    report = prepare(make_run(corpus), tmp_path / "data")

    assert prepared_texts(tmp_path / "data") == [(f"{src} x", f"{tgt} x") for src, tgt in PAIRS]
    assert (report.n_read, report.n_kept, report.vocab_size) == (50, 50, 310)


def test_each_filter_is_counted_with_examples_for_each_corpus(tmp_path: Path) -> None:
    bad: dict[str, Pair] = {
        "empty": ("", "leer"),
        "too long": ("cat " * 300, "Katze " * 300),
        "length ratio": ("the cat", "die Katze sah die Katze und die Hunde"),
        "copy": ("the cat", "the cat"),
        "wrong script": ("the cat", "кошка"),
        "duplicate": PAIRS[0],
    }
    first = write_tsv(tmp_path / "first.tsv", [*PAIRS, *bad.values(), *[("a b", "a b")] * 4])
    second = write_tsv(tmp_path / "second.tsv", [PAIRS[1], ("new cat", "neue Katze")])

    report = prepare(make_run(first, second), tmp_path / "data")

    counts = [corpus_report.corpus.filtered for corpus_report in report.corpora]
    assert counts[0] == {**dict.fromkeys(bad, 1), "copy": 5}
    assert counts[1] == {**dict.fromkeys(bad, 0), "duplicate": 1}
    examples = report.corpora[0].examples
    assert {name: shown[0] for name, shown in examples.items()} == {
        name: (src.strip(), tgt.strip()) for name, (src, tgt) in bad.items()
    }
    assert len(examples["copy"]) == 3
    assert prepared_texts(tmp_path / "data") == [*PAIRS, ("new cat", "neue Katze")]
    assert PreparedData.open(tmp_path / "data").spans == ((0, 50, 1.0, 1), (50, 51, 1.0, 1))


def test_duplicates_stay_when_their_filter_is_off(tmp_path: Path) -> None:
    corpus = write_tsv(tmp_path / "c.tsv", [*PAIRS, PAIRS[0]])

    prepare(make_run(corpus, duplicates=False), tmp_path / "data")

    assert prepared_texts(tmp_path / "data") == [*PAIRS, PAIRS[0]]


def test_the_number_of_workers_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "_CHUNK_PAIRS", 4)
    monkeypatch.setattr(preparation, "_BYTES_A_WORKER", 1)
    corpora = [write_tsv(tmp_path / name, [*PAIRS, *PAIRS[:9]]) for name in ("a.tsv", "b.tsv")]

    for workers in (1, 2):
        prepare(make_run(*corpora, workers=workers), tmp_path / f"data{workers}")

    assert contents(tmp_path / "data1") == contents(tmp_path / "data2")
    assert multiprocessing.active_children() == []


def test_a_little_text_starts_no_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(encoding, "ProcessPoolExecutor", refuse)

    prepare(make_run(write_tsv(tmp_path / "c.tsv", PAIRS), workers=8), tmp_path / "data")


@pytest.mark.parametrize(("n_cores", "n_workers"), [(3, 3), (64, 16)])
def test_every_core_works_unless_reading_could_not_feed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_cores: int, n_workers: int
) -> None:
    started: list[int] = []

    def encode(chunks: Any, encoder: encoding.Encoder, n: int) -> Any:
        started.append(n)
        return encoding.encode_chunks(chunks, encoder, 1)

    monkeypatch.setattr(preparation, "encode_chunks", encode)
    monkeypatch.setattr(preparation, "_BYTES_A_WORKER", 1)
    monkeypatch.setattr("os.cpu_count", lambda: n_cores)

    prepare(make_run(write_tsv(tmp_path / "c.tsv", PAIRS), workers=None), tmp_path / "data")

    assert started == [n_workers]


def test_a_given_tokenizer_is_used(tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path / "given.model")
    run = make_run(write_tsv(tmp_path / "c.tsv", PAIRS))
    given = dataclasses.replace(run.data, tokenizer=str(tmp_path / "given.model"))

    report = prepare(dataclasses.replace(run, data=given), tmp_path / "data")

    assert (tmp_path / "data" / TOKENIZER_FILE).read_bytes() == TOKENIZER.serialized
    assert report.vocab_size == 280


def test_the_vocabulary_is_learned_from_evenly_spread_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []

    def learn(sentences: Iterable[str], *_: object, **__: object) -> Tokenizer:
        heard.extend(sentences)
        return TOKENIZER

    monkeypatch.setattr(Tokenizer, "learn", learn)
    corpora = [
        write_tsv(
            tmp_path / f"{name}.tsv", [(f"{name}{n}", f"{name.upper()}{n}") for n in range(5)]
        )
        for name in "ab"
    ]
    run = make_run(*corpora)

    prepare(
        dataclasses.replace(run, data=dataclasses.replace(run.data, vocab_sample=9)),
        tmp_path / "data",
    )

    assert heard == ["a0", "A0", "a3", "A3", "b0", "B0", "b3", "B3"]


def test_progress_tells_stages_shares_and_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "_CHUNK_PAIRS", 20)
    calls: list[tuple[str, float, int]] = []

    prepare(
        make_run(write_tsv(tmp_path / "c.tsv", PAIRS)),
        tmp_path / "data",
        progress=lambda *call: calls.append(call),
    )

    reading = [(1.0, 20), (1.0, 40), (1.0, 50)]  # the file is so small that it is read at once
    assert calls == [
        *(("counting pairs", *call) for call in reading),
        *(("counting words", *call) for call in reading),
        ("learning the vocabulary", 0.0, 50),
        ("learning the vocabulary", 1.0, 50),
        *(("encoding", *call) for call in reading),
    ]


def test_data_is_up_to_date_until_a_file_or_a_setting_changes(tmp_path: Path) -> None:
    corpus = write_tsv(tmp_path / "c.tsv", PAIRS)
    run, folder = make_run(corpus), tmp_path / "data"
    assert not is_prepared(run, folder)

    prepare(run, folder)

    assert is_prepared(run, folder)
    assert is_prepared(make_run(corpus, workers=2), folder)  # which makes no difference
    assert not is_prepared(make_run(corpus, max_tokens=9), folder)
    assert not is_prepared(dataclasses.replace(run, model=ModelConfig(vocab_size=300)), folder)
    assert not is_prepared(dataclasses.replace(run, target_language="ru"), folder)
    (tmp_path / "c.tsv").write_text("the cat\tdie Katze\n")
    assert not is_prepared(run, folder)
    (tmp_path / "c.tsv").unlink()
    assert not is_prepared(run, folder)


@pytest.mark.parametrize("name", [TOKENIZER_FILE, "0.ids", "prepared.json"])
def test_data_that_lacks_a_file_is_not_up_to_date(tmp_path: Path, name: str) -> None:
    run = make_run(write_tsv(tmp_path / "c.tsv", PAIRS))
    prepare(run, tmp_path / "data")

    (tmp_path / "data" / name).unlink()

    assert not is_prepared(run, tmp_path / "data")


def test_preparing_again_replaces_the_folder(tmp_path: Path) -> None:
    prepare(make_run(write_tsv(tmp_path / "c.tsv", PAIRS)), tmp_path / "data")

    prepare(make_run(write_tsv(tmp_path / "c.tsv", PAIRS[:30])), tmp_path / "data")

    assert prepared_texts(tmp_path / "data") == PAIRS[:30]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.tsv", "data"]


def test_a_folder_of_other_things_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thesis.tex").write_text("years of work")

    with pytest.raises(DataError, match="holds something else"):
        prepare(make_run(write_tsv(tmp_path / "c.tsv", PAIRS)), tmp_path / "data")

    assert (tmp_path / "data" / "thesis.tex").read_text() == "years of work"


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def ctrl_c(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("failure", "seen_as"), [(full_disk, DataError), (ctrl_c, KeyboardInterrupt)]
)
def test_a_failure_leaves_the_old_folder_and_nothing_else(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: Callable[..., None],
    seen_as: type[BaseException],
) -> None:
    run = make_run(write_tsv(tmp_path / "c.tsv", PAIRS))
    prepare(run, tmp_path / "data")
    before = contents(tmp_path / "data")
    monkeypatch.setattr(ShardWriter, "write", failure)

    with pytest.raises(seen_as, match="No space left" if seen_as is DataError else None):
        prepare(run, tmp_path / "data")

    assert contents(tmp_path / "data") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.tsv", "data"]


def test_a_bad_line_late_in_a_corpus_leaves_nothing(tmp_path: Path) -> None:
    good, bad = write_tsv(tmp_path / "good.tsv", PAIRS), write_tsv(tmp_path / "bad.tsv", PAIRS)
    with (tmp_path / "bad.tsv").open("ab") as file:
        file.write(b"\xff\tbad\n")
    with pytest.raises(DataError, match=r"bad\.tsv, line 51"):
        prepare(make_run(good, bad), tmp_path / "data")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.tsv", "good.tsv"]


def test_no_corpus_and_nothing_left_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.corpora names no corpus"):
        prepare(make_run(), tmp_path / "data")
    with pytest.raises(DataError, match="the filters took all 50 pairs"):
        prepare(make_run(write_tsv(tmp_path / "c.tsv", PAIRS), max_tokens=1), tmp_path / "data")

    assert not (tmp_path / "data").exists()


def test_segmentations_are_the_same_pairs_in_other_pieces_side_by_side(
    tmp_path: Path,
) -> None:
    once = make_run(write_tsv(tmp_path / "c.tsv", PAIRS))
    ways = dataclasses.replace(once.data, segmentations=3, subword_dropout=0.5)

    report = prepare(dataclasses.replace(once, data=ways), tmp_path / "data")

    data = PreparedData.open(tmp_path / "data")
    assert report.n_read == report.n_kept == 50
    assert data.spans == ((0, 150, 1.0, 3),)
    assert prepared_texts(tmp_path / "data") == [pair for pair in PAIRS for _ in range(3)]
    pieces = [[data.pair(pair * 3 + way)[0].tolist() for pair in range(50)] for way in range(3)]
    assert pieces[0] != pieces[1] != pieces[2] != pieces[0]
