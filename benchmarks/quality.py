"""How good models are: sacreBLEU and chrF on test sets, beside their speed and size.

A test set is named without its language: newstest2014 is newstest2014.en and newstest2014.de, and
the languages of each model say which of the two it translates. The systems take turns on each set,
and speed is told as a multiple of the first one between the same languages, since the figures of a
busy machine compare only within one run.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from allyouneed.errors import ConfigError, DataError, MissingExtraError, UserError
from allyouneed.evaluation.lines import read_aligned, read_lines, write_lines
from allyouneed.evaluation.metrics import Scores, score_corpus
from allyouneed.evaluation.paper_bleu import paper_bleu
from allyouneed.inference.strategies import BeamSearch
from allyouneed.models import find_model
from allyouneed.translator import Translator

WARM_UP = 32  # lines that a system translates before the clock runs
MEGABYTE = 1e6


@dataclass
class System:
    """A model and the beam it searches with."""

    name: str
    translator: Translator
    strategy: BeamSearch
    megabytes: float  # of all files in its folder
    n_words: int = 0  # of the source, that is: the same for all that take turns
    seconds: float = 0.0
    scores: dict[str, Scores] = field(default_factory=dict)  # by test set

    @property
    def languages(self) -> tuple[str, str]:
        return self.translator.source_language, self.translator.target_language

    @property
    def direction(self) -> str:
        return "→".join(self.languages)

    def translate(self, sources: Sequence[str]) -> list[str]:
        translations = self.translator.translate(sources, strategy=self.strategy)
        return [translation.text for translation in translations]

    def translate_on_time(self, sources: Sequence[str]) -> list[str]:
        start = time.perf_counter()
        translations = self.translate(sources)
        self.seconds += time.perf_counter() - start
        self.n_words += sum(len(source.split()) for source in sources)
        return translations


class Text(NamedTuple):
    """A test set between two languages."""

    name: str
    sources: list[str]
    references: list[str]


@dataclass(frozen=True)
class Quality:
    """What is reported of a system."""

    system: str
    languages: str
    megabytes: float
    beam_size: int
    length_penalty: float
    words_a_second: float  # of the source
    times_as_fast: float  # as the first system between the same languages
    scores: dict[str, Scores]


def load_systems(arguments: argparse.Namespace) -> Iterator[System]:
    for given in arguments.models:
        name, equals, folder = given.rpartition("=")
        path = find_model(folder)
        translator = Translator.load(path, arguments.device, threads=arguments.threads)
        decoding = translator.manifest.decoding
        size = sum(file.stat().st_size for file in path.iterdir()) / MEGABYTE
        for beam_size in arguments.beam_sizes or [None]:
            yield System(
                (name if equals else path.resolve().name)
                + (f"-beam{beam_size}" if beam_size else ""),
                translator,
                BeamSearch(beam_size or decoding.beam_size, decoding.length_penalty),
                size,
            )


def load_text(test_set: Path, system: System, n_lines: int | None) -> Text:
    source, reference = (
        test_set.with_name(f"{test_set.name}.{language}") for language in system.languages
    )
    references = read_lines(reference)
    sources = read_aligned(source, reference, len(references))
    return Text(test_set.name, sources[:n_lines], references[:n_lines])


def evaluate(system: System, text: Text, in_paper_form: bool) -> list[str]:
    """Translate and score a text; the translations are handed on."""
    if not system.n_words:
        system.translate(text.sources[:WARM_UP])
    translations = system.translate_on_time(text.sources)
    scores = score_corpus(translations, text.references, ("bleu", "chrf"))
    if in_paper_form:
        target = system.languages[1]
        try:
            scores["paper"] = paper_bleu(
                translations, text.references, target, split_compounds=target == "de"
            )
        except MissingExtraError as error:
            print(error)
    system.scores[text.name] = scores
    shown = ", ".join(f"{score.name} {score.value:.2f}" for score in scores.values())
    print(f"{text.name}, {system.direction}, {system.name}: {shown}", flush=True)
    return translations


def qualities(systems: Sequence[System]) -> list[Quality]:
    first: dict[tuple[str, str], System] = {}
    for system in systems:
        first.setdefault(system.languages, system)
    return [
        Quality(
            system.name,
            system.direction,
            system.megabytes,
            system.strategy.size,
            system.strategy.length_penalty,
            system.n_words / system.seconds,
            first[system.languages].seconds / system.seconds,
            system.scores,
        )
        for system in systems
    ]


def markdown(found: Sequence[Quality], n_lines: int | None) -> Iterator[str]:
    """A table for each pair of languages, a row a system, then what the figures are."""
    for languages in dict.fromkeys(it.languages for it in found):
        rows = [it for it in found if it.languages == languages]
        columns = [
            (test_set, key)
            for test_set, scores in rows[0].scores.items()
            for key in (("bleu", "paper") if "paper" in scores else ("bleu",))
        ]
        names = [f"{test_set}, paper" if key == "paper" else test_set for test_set, key in columns]
        yield f"| {languages} | beam | MB | times as fast | {' | '.join(names)} |"
        yield "|---" * (4 + len(columns)) + "|"
        for row in rows:
            cells = [_cell(row.scores[test_set], key) for test_set, key in columns]
            figures = f"{row.beam_size} | {row.megabytes:.1f} | {row.times_as_fast:.2f}"
            yield f"| {row.system} | {figures} | {' | '.join(cells)} |"
        yield ""
    every = [score for it in found for scores in it.scores.values() for score in scores.values()]
    lines = "all lines" if n_lines is None else f"the first {n_lines} lines"
    yield f"sacreBLEU / chrF2, or the paper's form of BLEU, of {lines} of each set. Signatures:"
    yield ""
    yield from dict.fromkeys(f"- {score.name}: `{score.signature}`" for score in every)


def _cell(scores: Scores, key: str) -> str:
    if key == "paper":
        return f"{scores['paper'].value:.2f}"
    return f"{scores['bleu'].value:.2f} / {scores['chrf'].value:.2f}"


def parse_arguments(parser: argparse.ArgumentParser) -> argparse.Namespace:
    parser.add_argument("models", nargs="+", help="FOLDER, NAME=FOLDER or a shipped model's name")
    parser.add_argument("--sets", nargs="+", type=Path, required=True, help="test sets, as above")
    parser.add_argument(
        "--paper", nargs="*", default=["newstest2014"], metavar="SET",
        help="names of sets to score in the paper's form as well; default: newstest2014",
    )  # fmt: skip
    parser.add_argument("--beam-sizes", type=int, nargs="+", help="default: each model's own")
    parser.add_argument("--lines", type=int, help="only so many first lines of each set")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, help="of the native engine; default: all cores")
    parser.add_argument("--translations", type=Path, help="keep the translations in this folder")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--markdown", type=Path, help="write the tables here")
    return parser.parse_args()


def run(arguments: argparse.Namespace) -> None:
    check_outputs(arguments)
    systems = list(load_systems(arguments))
    names = [(system.direction, system.name) for system in systems]
    if len(set(names)) < len(names):
        raise ConfigError(f"{names}: two share a name; give them others, as NAME=FOLDER")
    sets = [Path(test_set).name for test_set in arguments.sets]
    if len(set(sets)) < len(sets):
        raise ConfigError(f"{sets}: two test sets share a name; link one of them by another")
    # All texts are read before the first is translated: a name that is wrong shows at once.
    turns = [
        (system, load_text(test_set, system, arguments.lines))
        for test_set in arguments.sets
        for system in systems
    ]
    for system, text in turns:
        translations = evaluate(system, text, text.name in arguments.paper)
        if arguments.translations:
            name = f"{system.name}.{text.name}.{system.languages[1]}"
            write_lines(arguments.translations / name, translations)
    found = qualities(systems)
    table = list(markdown(found, arguments.lines))
    print("", *table, sep="\n")
    if arguments.markdown:
        write_lines(arguments.markdown, table)
    if arguments.json:
        records = [asdict(quality) for quality in found]
        write_lines(arguments.json, [json.dumps(records, ensure_ascii=False, indent=2)])


def check_outputs(arguments: argparse.Namespace) -> None:
    """An hour may pass before they are written."""
    folders = [path.parent for path in (arguments.json, arguments.markdown) if path]
    for folder in [*folders, *filter(None, [arguments.translations])]:
        if not folder.is_dir():
            raise DataError(f"{folder}: no such folder; make it first")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    try:
        run(parse_arguments(parser))
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
