"""Corpora -> a prepared folder: learn the vocabulary, then filter, encode and write every pair."""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from allyouneed.atomic import new_folder
from allyouneed.config import CorpusConfig, RunConfig
from allyouneed.data.corpus import Corpus
from allyouneed.data.encoding import (
    EXAMPLES_KEPT,
    Chunk,
    EncodedChunk,
    Encoder,
    Pair,
    Refusals,
    encode_chunks,
)
from allyouneed.data.filters import DUPLICATE, FILTERS, PairFilters
from allyouneed.data.shards import (
    FORMAT_VERSION,
    CorpusDescription,
    Description,
    PreparedData,
    ShardWriter,
    dtype_for,
)
from allyouneed.errors import ConfigError, DataError
from allyouneed.text.subword_dropout import SubwordDropout
from allyouneed.text.tokenizer import Tokenizer

TOKENIZER_FILE = "tokenizer.model"
_CHUNK_PAIRS = 4096
_BYTES_A_WORKER = 1 << 20  # less than this is encoded before another process has started
_WORKERS_FED = 16  # more would wait for the one process that reads

# Called with what is being done, the share of it that is done, and the pairs read so far.
PrepareProgress = Callable[[str, float, int], None]


@dataclass(frozen=True, kw_only=True)
class CorpusReport:
    """What became of one corpus, with the first few pairs that each filter took."""

    corpus: CorpusDescription
    examples: Mapping[str, Sequence[Pair]]


@dataclass(frozen=True, kw_only=True)
class PrepareReport:
    """What `prepare` read, kept and left out."""

    vocab_size: int
    corpora: tuple[CorpusReport, ...]

    @property
    def n_read(self) -> int:
        return sum(report.corpus.n_read for report in self.corpora)

    @property
    def n_kept(self) -> int:
        return sum(report.corpus.n_pairs for report in self.corpora)


def prepare(
    run: RunConfig,
    folder: Path,
    *,
    progress: PrepareProgress = lambda stage, share, n_pairs: None,
) -> PrepareReport:
    """Write `folder` anew, whole or not at all; learn the vocabulary unless one is named."""
    if not run.data.corpora:
        raise ConfigError("data.corpora names no corpus; give it at least one")
    fingerprint = fingerprint_of(run)  # first, so that a file which changes meanwhile is noticed
    with _new_data_folder(folder) as partial:
        named = run.data.tokenizer
        tokenizer = Tokenizer.load(Path(named)) if named else _learn_tokenizer(run, progress)
        tokenizer.save(partial / TOKENIZER_FILE)
        reports = tuple(_write_corpora(run, tokenizer, partial, progress))
        report = PrepareReport(vocab_size=len(tokenizer), corpora=reports)
        if report.n_kept == 0:
            raise DataError(f"the filters took all {report.n_read} pairs; loosen data.filters")
        Description(
            vocab_size=len(tokenizer),
            fingerprint=fingerprint,
            corpora=tuple(report.corpus for report in reports),
            segmentations=run.data.segmentations,
        ).save(partial)
    return report


def is_prepared(run: RunConfig, folder: Path) -> bool:
    """Whether `folder` holds whole data made from the very files and settings of `run`."""
    try:
        Tokenizer.load(folder / TOKENIZER_FILE)
        return PreparedData.open(folder).description.fingerprint == fingerprint_of(run)
    except DataError:
        return False


def fingerprint_of(run: RunConfig) -> str:
    """Changes with every setting and file that a prepared folder depends on."""
    depends_on = [
        FORMAT_VERSION,
        run.source_language,
        run.target_language,
        run.model.vocab_size,
        run.data.vocab_sample,
        run.data.character_coverage,
        run.data.segmentations,
        run.data.tokenizer and _digest(Path(run.data.tokenizer)),
        run.data.subword_dropout,
        dataclasses.asdict(run.data.filters),
        [(corpus.label, corpus.weight, _content(corpus)) for corpus in run.data.corpora],
    ]
    return hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()


def _content(corpus: CorpusConfig) -> list[str]:
    """Digests of the files, which stay the same when a run moves to another machine."""
    return [_digest(Path(name)) for name in (corpus.source, corpus.target, corpus.tsv) if name]


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "blake2b").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def _learn_tokenizer(run: RunConfig, progress: PrepareProgress) -> Tokenizer:
    n_pairs = sum(len(chunk.pairs) for chunk in _read_chunks(run, "counting pairs", progress))
    step = math.ceil(2 * n_pairs / run.data.vocab_sample)

    def sample() -> Iterator[str]:
        for chunk in _read_chunks(run, "counting words", progress):
            yield from itertools.chain.from_iterable(chunk.pairs[::step])
        progress("learning the vocabulary", 0.0, n_pairs)

    tokenizer = Tokenizer.learn(
        sample(), run.model.vocab_size, character_coverage=run.data.character_coverage
    )
    progress("learning the vocabulary", 1.0, n_pairs)
    return tokenizer


def _read_chunks(run: RunConfig, stage: str, progress: PrepareProgress) -> Iterator[Chunk]:
    corpora = [Corpus(config) for config in run.data.corpora]
    n_bytes = sum(corpus.n_bytes for corpus in corpora)
    n_pairs = 0
    for number, corpus in enumerate(corpora):
        pairs = iter(corpus)
        while chunk := list(itertools.islice(pairs, _CHUNK_PAIRS)):
            n_pairs += len(chunk)
            progress(stage, sum(c.bytes_read for c in corpora) / n_bytes, n_pairs)
            yield Chunk(number, chunk)


def _write_corpora(
    run: RunConfig, tokenizer: Tokenizer, folder: Path, progress: PrepareProgress
) -> Iterator[CorpusReport]:
    encoder = Encoder(
        tokenizer,
        PairFilters(run.data.filters, run.source_language, run.target_language),
        [
            SubwordDropout(tokenizer, run.data.subword_dropout, seed)
            for seed in range(1, run.data.segmentations)
        ],
    )
    chunks = _read_chunks(run, "encoding", progress)
    encoded = encode_chunks(chunks, encoder, _n_workers(run))
    with contextlib.closing(encoded):  # ends the workers, whatever happens here
        unique = _without_duplicates(encoded, tokenizer) if run.data.filters.duplicates else encoded
        for number, corpus_chunks in itertools.groupby(unique, lambda chunk: chunk.corpus):
            with ShardWriter(folder, number, dtype_for(len(tokenizer))) as writer:
                yield _write_corpus(run.data.corpora[number], corpus_chunks, writer)


def _write_corpus(
    config: CorpusConfig, chunks: Iterable[EncodedChunk], writer: ShardWriter
) -> CorpusReport:
    refusals = Refusals()
    n_read = n_kept = 0
    for chunk in chunks:
        writer.write(chunk.ids, chunk.lengths)
        refusals.update(chunk.refusals)
        n_read += chunk.n_read
        n_kept += len(chunk.hashes)
    description = CorpusDescription(
        name=config.label,
        weight=config.weight,
        n_read=n_read,
        n_pairs=n_kept,
        filtered={name: refusals.counts[name] for name in FILTERS},
    )
    return CorpusReport(corpus=description, examples=refusals.examples)


def _without_duplicates(
    chunks: Iterable[EncodedChunk], tokenizer: Tokenizer
) -> Iterator[EncodedChunk]:
    seen: set[int] = set()
    for chunk in chunks:
        is_new = np.zeros(len(chunk.hashes), bool)
        for row, pair_hash in enumerate(chunk.hashes):
            if pair_hash not in seen:
                seen.add(pair_hash)
                is_new[row] = True
        yield chunk if is_new.all() else _keep_rows(chunk, is_new, tokenizer)


def _keep_rows(
    chunk: EncodedChunk, is_new: np.ndarray[tuple[int], np.dtype[np.bool_]], tokenizer: Tokenizer
) -> EncodedChunk:
    ways = len(chunk.lengths) // len(is_new)
    sides = np.split(chunk.ids, np.cumsum(chunk.lengths)[:-1])  # source, target, source, …
    examples = [
        (tokenizer.decode(sides[side].tolist()), tokenizer.decode(sides[side + 1].tolist()))
        for side in 2 * ways * np.flatnonzero(~is_new)[:EXAMPLES_KEPT]
    ]
    n_duplicates = int((~is_new).sum())
    chunk.refusals.update(Refusals(Counter({DUPLICATE: n_duplicates}), {DUPLICATE: examples}))
    kept_rows = np.repeat(is_new, ways)
    kept_ids = np.repeat(kept_rows, chunk.lengths.sum(axis=1))
    return chunk._replace(
        ids=chunk.ids[kept_ids],
        lengths=chunk.lengths[kept_rows],
        hashes=[pair_hash for pair_hash, new in zip(chunk.hashes, is_new, strict=True) if new],
    )


def _n_workers(run: RunConfig) -> int:
    n_bytes = sum(Corpus(config).n_bytes for config in run.data.corpora)
    wanted = run.data.workers or min(os.cpu_count() or 1, _WORKERS_FED)
    return min(wanted, 1 + n_bytes // _BYTES_A_WORKER)


@contextlib.contextmanager
def _new_data_folder(folder: Path) -> Iterator[Path]:
    if folder.exists() and any(folder.iterdir()) and not (folder / TOKENIZER_FILE).exists():
        raise DataError(f"{folder}: holds something else than prepared data; move it away")
    try:
        with new_folder(folder) as unfinished:
            yield unfinished
    except OSError as error:
        raise DataError(
            f"{folder}: cannot be written: {error}; nothing of it was kept. "
            "Make room or set another folder"
        ) from None
