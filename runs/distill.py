"""Sequence-level distillation: a teacher translates the text that its students will learn from.

    python runs/distill.py --model work/en-de-base/model --output work/distilled CORPUS.en.xz …

For every corpus come two files that belong together line by line, CORPUS.source and CORPUS.target.
Several processes share one GPU, so that it has work while texts are cut and joined on the CPU. With
`--minutes`, what cannot be done in that time is left out, of the largest corpora first.
"""

import argparse
import itertools
import math
import multiprocessing
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from allyouneed.data.corpus import LineFile
from allyouneed.inference import BeamSearch
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


def shards(files: list[Path], seed: int = 1) -> Iterator[Shard]:
    """The smallest corpora first; those of one corpus in any order, so that a part is of it all."""
    for file in sorted(files, key=lambda file: file.stat().st_size):
        lines, parts = iter(LineFile(str(file))), []
        while part := list(itertools.islice(lines, SHARD)):
            parts.append(Shard(file.name.split(".")[0], len(parts), part))
        random.Random(seed).shuffle(parts)
        yield from parts


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--model", required=True, help="the teacher")
    arguments.add_argument("--output", type=Path, required=True, help="a folder")
    arguments.add_argument("--beam-size", type=int, default=4)
    arguments.add_argument("--processes", type=int, default=4)
    arguments.add_argument("--minutes", type=float, default=math.inf)
    arguments.add_argument("files", type=Path, nargs="+")
    options = arguments.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    start = time.time()
    of_worker = options.model, options.beam_size, start + 60 * options.minutes
    n_lines = n_words = 0
    with multiprocessing.get_context("spawn").Pool(
        options.processes, Worker.start, of_worker
    ) as pool:
        for shard, translations in pool.imap_unordered(Worker.translate, shards(options.files)):
            for side, lines in (("source", shard.lines), ("target", translations)):
                if translations:
                    with (options.output / f"{shard.corpus}.{side}").open("a") as file:
                        file.writelines(f"{line}\n" for line in lines)
            n_lines += len(translations)
            n_words += sum(len(text.split()) for text in translations)
            seconds = time.time() - start
            print(f"{seconds:.0f} s: {n_lines} lines, {n_words / seconds:.0f} words/s", flush=True)


if __name__ == "__main__":
    main()
