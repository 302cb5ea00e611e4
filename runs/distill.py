"""Sequence-level distillation: a teacher translates the text that its students will learn from.

    python runs/distill.py --model work/en-de-base/model --output work/distilled CORPUS.en.xz …

For every corpus come two files that belong together line by line, CORPUS.source.en and
CORPUS.target.de; the lines are in another order than they were. Several processes share one GPU, so
that it has work while texts are cut and joined on the CPU. With `--minutes`, what cannot be done in
that time is left out, of the largest corpora first.
"""

import argparse
import itertools
import math
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from allyouneed.data.corpus import LineFile
from allyouneed.errors import DataError, UserError
from allyouneed.inference import BeamSearch
from allyouneed.manifest import load_manifest
from allyouneed.models import find_model
from allyouneed.translator import Translator

SHARD = 16_384  # lines


class Shard(NamedTuple):
    corpus: str
    number: int
    lines: list[str]


class Worker:
    """One process' teacher."""

    translator: Translator
    beam_size: int
    deadline: float

    @classmethod
    def start(cls, model: str, beam_size: int, deadline: float) -> None:
        cls.translator, cls.beam_size, cls.deadline = Translator.load(model), beam_size, deadline

    @classmethod
    def translate(cls, shard: Shard) -> tuple[Shard, list[str]]:
        """No translations when the time is over."""
        if time.time() > cls.deadline:
            return shard, []
        alpha = cls.translator.manifest.decoding.length_penalty
        strategy = BeamSearch(cls.beam_size, alpha)
        translations = cls.translator.translate(shard.lines, strategy=strategy)
        return shard, [translation.text for translation in translations]


def corpus_of(file: Path) -> str:
    return file.name.split(".")[0]


def shards(files: Sequence[Path], seed: int = 1) -> Iterator[Shard]:
    """The smallest corpora first; those of one corpus in any order, so that a part is of it all."""
    for file in sorted(files, key=lambda file: file.stat().st_size):
        lines = iter(LineFile(str(file)))
        parts: list[Shard] = []
        while part := list(itertools.islice(lines, SHARD)):
            parts.append(Shard(corpus_of(file), len(parts), part))
        random.Random(seed).shuffle(parts)
        yield from parts


def unfinished(path: Path) -> Path:
    return path.with_name(f".{path.name}.unfinished")


def refuse_what_cannot_work(files: Sequence[Path], outputs: Iterable[Path]) -> None:
    """Before the long work."""
    for file in files:
        LineFile(str(file))  # says what it is that is missing
    for corpus, n_files in Counter(map(corpus_of, files)).items():
        if n_files > 1:
            raise DataError(f"{n_files} files are called {corpus}; give each a name of its own")
    for path in outputs:
        if path.exists():
            raise DataError(f"{path}: is there already; move it away, or set another --output")


def run(options: argparse.Namespace) -> None:
    manifest = load_manifest(find_model(options.model))
    sides = f"source.{manifest.source_language}", f"target.{manifest.target_language}"
    outputs = {
        (corpus, side): options.output / f"{corpus}.{side}"
        for corpus in map(corpus_of, options.files)
        for side in sides
    }
    refuse_what_cannot_work(options.files, outputs.values())
    options.output.mkdir(parents=True, exist_ok=True)
    for path in outputs.values():
        unfinished(path).unlink(missing_ok=True)  # of a run that was stopped
    start = time.time()
    of_worker = options.model, options.beam_size, start + 60 * options.minutes
    n_lines = n_words = 0
    with multiprocessing.get_context("spawn").Pool(
        options.processes, Worker.start, of_worker
    ) as pool:
        for shard, translations in pool.imap_unordered(Worker.translate, shards(options.files)):
            if translations:
                for side, lines in zip(sides, (shard.lines, translations), strict=True):
                    with unfinished(outputs[shard.corpus, side]).open(
                        "a", encoding="utf-8"
                    ) as file:
                        file.writelines(f"{line}\n" for line in lines)
            n_lines += len(translations)
            n_words += sum(len(text.split()) for text in translations)
            seconds = time.time() - start
            print(f"{seconds:.0f} s: {n_lines} lines, {n_words / seconds:.0f} words/s", flush=True)
    for path in outputs.values():
        if unfinished(path).exists():  # not so where there was no time for any of it
            unfinished(path).rename(path)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="the teacher")
    parser.add_argument("--output", type=Path, required=True, help="a folder")
    parser.add_argument("--beam-size", type=int, default=4)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("files", type=Path, nargs="+")
    try:
        run(parser.parse_args(arguments))
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
