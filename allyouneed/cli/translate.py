"""`allyouneed translate`: arguments, files or standard input, a sentence a line."""

import contextlib
import functools
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import Progress

from allyouneed.atomic import new_file
from allyouneed.cli.live_input import windows_of_lines
from allyouneed.cli.translation_format import Format
from allyouneed.config import DecodingConfig
from allyouneed.data.corpus import COMPRESSIONS, LineFile
from allyouneed.device import is_cpu
from allyouneed.errors import DataError
from allyouneed.inference.engines import ENGINES

if TYPE_CHECKING:  # torch takes seconds to load, and `--help` does without
    from allyouneed.inference import Strategy
    from allyouneed.translator import Translation, Translator

FILE = click.Path(path_type=Path)
AT_LEAST_ONE = click.IntRange(min=1)
BEAM_SIZE = click.IntRange(1, 256)  # wider ones only cost time
# Lines that are sorted by length and translated together.
WINDOW = 1000
WINDOW_OF_GPU = 32_000  # which has hundreds of them in its batch


@dataclass(frozen=True)
class SearchOptions:
    """How to search, as far as the command line says."""

    beam_size: int | None
    length_penalty: float | None
    greedy: bool
    sample: bool
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None

    def check(self) -> None:
        """Refuse options of which one would be without effect."""
        of_sampling = (self.temperature, self.top_k, self.top_p, self.seed)
        if any(option is not None for option in of_sampling) and not self.sample:
            raise click.UsageError("--temperature, --top-k, --top-p and --seed need --sample")
        if (self.beam_size is not None) + self.greedy + self.sample > 1:
            raise click.UsageError("choose one of --beam-size, --greedy and --sample")

    def strategy(self, defaults: DecodingConfig) -> "Strategy":
        from allyouneed.inference import BeamSearch, Greedy, Sampling

        alpha = defaults.length_penalty if self.length_penalty is None else self.length_penalty
        if self.greedy:
            return Greedy(alpha)
        if self.sample:
            temperature = 1.0 if self.temperature is None else self.temperature
            return Sampling(temperature, self.top_k, self.top_p, self.seed, alpha)
        return BeamSearch(self.beam_size or defaults.beam_size, alpha)


@click.command()
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@click.option(
    "--model", help="A model folder or a shipped model's name. Default: the one for the languages."
)
@click.option("--from", "source", metavar="LANGUAGE", help="Of the text. Default: recognised.")
@click.option("--to", "target", metavar="LANGUAGE", help="Into which, as in: --to de.")
@click.option("--input", "inputs", type=FILE, multiple=True, help="Read this file; repeatable.")
@click.option("--output", type=FILE, help="Write this file, whole or not at all.")
@click.option("--beam-size", type=BEAM_SIZE, help="Default: the model's own (paper: 4).")
@click.option(
    "--length-penalty", type=float, help="α. Default: the model's own (the paper's is 0.6)."
)
@click.option("--greedy", is_flag=True, help="Take the most probable token, without a beam.")
@click.option("--sample", is_flag=True, help="Draw tokens by their probability.")
@click.option(
    "--temperature", type=float, help="With --sample; lower is more cautious. Default: 1."
)
@click.option("--top-k", type=int, help="With --sample: of the k most probable tokens.")
@click.option("--top-p", type=float, help="With --sample: of the fewest with this probability.")
@click.option("--seed", type=int, help="With --sample: the same draws every time.")
@click.option("--n-best", type=BEAM_SIZE, default=1, help="Give this many, line numbers first.")
@click.option("--scores", is_flag=True, help="Put each translation's score before it.")
@click.option("--prefix", default="", help="What every translation must begin with.")
@click.option("--min-length", type=int, default=0, help="In tokens.")
@click.option("--max-length", type=int, help="In tokens with the end mark.")
@click.option(
    "--max-extra-tokens", type=int, help="More than the source. Default: the model's own."
)
@click.option("--document", is_flag=True, help="Split paragraphs into sentences, keep the layout.")
@click.option("--alignments", is_flag=True, help="Add source-target pairs of token places.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a sentence.")
@click.option("--device", default="auto", show_default=True, help="Where the model runs.")
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="auto",
    show_default=True,
    help="What computes. auto: the native engine on a CPU, float16 on a GPU, plain elsewhere.",
)
@click.option(
    "--threads",
    type=AT_LEAST_ONE,
    help="Of the native engine. Default: OMP_NUM_THREADS, or the cores, up to 16.",
)
@click.option(
    "--shortlist/--no-shortlist",
    default=None,
    help="Choose from the pieces that the source may become. Default: as the model says.",
)
def translate(
    texts: tuple[str, ...],
    model: str | None,
    source: str | None,
    target: str | None,
    inputs: tuple[Path, ...],
    output: Path | None,
    beam_size: int | None,
    length_penalty: float | None,
    greedy: bool,
    sample: bool,
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    seed: int | None,
    n_best: int,
    scores: bool,
    prefix: str,
    min_length: int,
    max_length: int | None,
    max_extra_tokens: int | None,
    document: bool,
    alignments: bool,
    as_json: bool,
    device: str,
    engine: str,
    threads: int | None,
    shortlist: bool | None,
) -> None:
    """Translate TEXT, or --input files, or standard input; the latter two a sentence a line."""
    search = SearchOptions(
        beam_size, length_penalty, greedy, sample, temperature, top_k, top_p, seed
    )
    search.check()
    form = Format(n_best, scores, alignments, as_json)
    is_plain = form == Format() and not prefix
    _check_usage(texts, inputs, output, not document or is_plain)
    # Files have a sentence a line; what is given as an argument is often several sentences.
    document = document or bool(texts and is_plain)
    files = [LineFile(str(path)) for path in inputs]  # what is missing is missed at once

    from allyouneed.inference import Limits
    from allyouneed.models import choose_model
    from allyouneed.translator import Translator

    windows = _Windows(
        _document_windows(texts, files) if document else _windows(texts, files, _window(device))
    )
    folder = choose_model(source, target, windows.sample) if model is None else model
    threads = threads or threads_from_environment()
    translator = Translator.load(
        folder, device, engine=engine, threads=threads, shortlist=shortlist
    )
    _check_languages(translator, source, target)
    decoding = translator.manifest.decoding
    extra_tokens = decoding.max_extra_tokens if max_extra_tokens is None else max_extra_tokens
    limits = Limits(extra_tokens, max_length, min_length)
    strategy = search.strategy(decoding)

    with _output(output) as sink, _progress(files, document, sink) as advance:
        of_document = functools.partial(
            translator.translate_document, strategy=strategy, limits=limits, progress=advance
        )
        of_lines = functools.partial(
            translator.translate, strategy=strategy, limits=limits, progress=advance,
            n_best=n_best, alignments=alignments,
        )  # fmt: skip
        for window in windows:
            if document:
                sink.stream.write(of_document(window[0]) + ("\n" if texts else ""))
            else:
                sink.write(of_lines(window, prefixes=[prefix] * len(window)), form)


def threads_from_environment() -> int | None:
    """What OMP_NUM_THREADS says; it may be a list, for threads within threads."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else None


def _check_usage(
    texts: Sequence[str],
    inputs: Sequence[Path],
    output: Path | None,
    is_plain_document: bool,
) -> None:
    if texts and inputs:
        raise click.UsageError("give either TEXT or --input")
    if output in inputs:
        raise click.UsageError(f"{output} is read and written; name another --output")
    if output is not None and output.suffix in COMPRESSIONS:
        raise click.UsageError(f"{output} would not be compressed; name it without {output.suffix}")
    if not is_plain_document:
        raise click.UsageError(
            "--document gives back a text: no n-best, scores, alignments, prefix or JSON"
        )


@dataclass
class _Windows:
    """Texts that are translated together; the first of them may be looked at beforehand."""

    rest: Iterator[list[str]]
    seen: list[list[str]] = field(default_factory=list)

    def sample(self) -> str:
        self.seen = list(itertools.islice(self.rest, 1))
        return "\n".join(itertools.chain.from_iterable(self.seen))

    def __iter__(self) -> Iterator[list[str]]:
        return itertools.chain(self.seen, self.rest)


def _check_languages(translator: "Translator", source: str | None, target: str | None) -> None:
    its = translator.source_language, translator.target_language
    if source not in (None, its[0]) or target not in (None, its[1]):
        raise click.UsageError(
            f"the model translates {its[0]} to {its[1]}; leave out --from and --to, or --model"
        )


def _window(device: str) -> int:
    return WINDOW if is_cpu(device) else WINDOW_OF_GPU


def _windows(texts: Sequence[str], files: Sequence[LineFile], size: int) -> Iterator[list[str]]:
    if texts:
        yield list(texts)
    elif not files:
        yield from windows_of_lines(sys.stdin.buffer, size)
    lines = itertools.chain.from_iterable(files)
    while window := list(itertools.islice(lines, size)):
        yield window


def _document_windows(texts: Sequence[str], files: Sequence[LineFile]) -> Iterator[list[str]]:
    """Each text, or file, or standard input, to the last carriage return."""
    yield from ([text] for text in texts)
    for file in files:
        yield [_decoded(file.content(), str(file.path))]
    if not texts and not files:
        yield [_decoded(sys.stdin.buffer.read(), "standard input")]


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{name}, line {line}: not UTF-8 ({error.reason}); convert the text to UTF-8"
        ) from None


@dataclass
class _Sink:
    """Where translations go, and of how many texts they have gone there."""

    stream: IO[str]
    n_texts: int = 0

    def write(self, translations: Sequence["Translation"], form: Format) -> None:
        for translation in translations:
            self.n_texts += 1
            self.stream.writelines(f"{line}\n" for line in form.lines(self.n_texts, translation))
        self.stream.flush()  # who waits at the other end of a pipe has the answer now


@contextlib.contextmanager
def _output(path: Path | None) -> Iterator[_Sink]:
    """Standard output, or a file that appears when all is written and not before."""
    if path is None:
        with click.open_file("-", "w", encoding="utf-8") as stream:
            yield _Sink(stream)
        return
    if path.is_dir() or not path.parent.is_dir():
        raise DataError(f"{path}: cannot be written: name a file in a folder that exists")
    with (
        new_file(path) as unfinished,
        unfinished.open("w", encoding="utf-8", newline="\n") as stream,
    ):
        sink = _Sink(stream)
        try:
            yield sink
        except KeyboardInterrupt:
            click.echo(f"stopped after {sink.n_texts} lines; {path} was not written", err=True)
            raise


@contextlib.contextmanager
def _progress(
    files: Sequence[LineFile], document: bool, sink: _Sink
) -> Iterator[Callable[[int], None]]:
    """A bar for files, unless it would stand among the translations; yields what moves it."""
    console = Console(stderr=True)
    if not files or not console.is_terminal or sink.stream.isatty():
        yield lambda _: None
        return
    countable = not document and all(file.path.is_file() for file in files)
    total = sum(1 for file in files for _ in file) if countable else None
    with Progress(console=console) as progress:
        task = progress.add_task("translating", total=total)
        yield lambda n_texts: progress.advance(task, n_texts)
