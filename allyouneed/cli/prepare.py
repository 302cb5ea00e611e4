"""`allyouneed prepare`."""

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allyouneed.cli.run_options import overrides_option, run_file_argument

if TYPE_CHECKING:
    from allyouneed.data.prepare import PrepareProgress, PrepareReport

EXAMPLES_SHOWN = 3
EXAMPLE_WIDTH = 60


@click.command()
@run_file_argument
@overrides_option
@click.option("--force", is_flag=True, help="Prepare again what is up to date.")
@click.option(
    "--show-examples/--quiet", default=True, help="Show some of the pairs that were left out."
)
def prepare(run_file: Path, overrides: tuple[str, ...], force: bool, show_examples: bool) -> None:
    """Learn the vocabulary of RUN_FILE and turn its corpora into ids.

    `train` does the same by itself; this shows first what the filters leave out.
    """
    from allyouneed.data import prepare as preparation
    from allyouneed.run_file import load_run
    from allyouneed.training.starting import with_start

    run = with_start(load_run(run_file, overrides))
    folder = Path(run.folder) / "data"
    if not force and preparation.is_prepared(run, folder):
        click.echo(f"{folder} is up to date; --force prepares it again")
        return
    with show_progress() as progress:
        report = preparation.prepare(run, folder, progress=progress)
    click.echo("\n".join(table(report)))
    if show_examples:
        click.echo("\n".join(examples(report)))
    click.echo(f"{folder}: {report.n_kept:,} pairs in {report.vocab_size:,} pieces")


@contextlib.contextmanager
def show_progress() -> Iterator["PrepareProgress"]:
    """A bar a stage on a terminal, a line a stage elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[n_pairs]:,} pairs"),
        TimeRemainingColumn(),
    )
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:

        def progress(stage: str, share: float, n_pairs: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=None, n_pairs=n_pairs)
                if not console.is_terminal:
                    click.echo(stage, err=True)
            # No total yet: the bar pulses, for a stage that cannot say how far it is.
            bar.update(tasks[stage], completed=share, total=1.0 if share else None, n_pairs=n_pairs)

        yield progress


def table(report: "PrepareReport") -> Iterator[str]:
    """Pairs read, taken by each filter and kept: a line a corpus, then the sums."""
    corpora = [corpus_report.corpus for corpus_report in report.corpora]
    numbers = [[corpus.n_read, *corpus.filtered.values(), corpus.n_pairs] for corpus in corpora]
    rows = [
        ["corpus", "read", *corpora[0].filtered, "kept"],
        *(
            [corpus.name, *(f"{number:,}" for number in row)]
            for corpus, row in zip(corpora, numbers, strict=True)
        ),
        ["all", *(f"{sum(column):,}" for column in zip(*numbers, strict=True))],
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        right = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join([name.ljust(widths[0]), *right])


def examples(report: "PrepareReport") -> Iterator[str]:
    """The first pairs that each filter took."""
    for filter_name in report.corpora[0].corpus.filtered:
        shown = [
            f"  {corpus_report.corpus.name}: {shorten(src)} ||| {shorten(tgt)}"
            for corpus_report in report.corpora
            for src, tgt in corpus_report.examples.get(filter_name, ())
        ]
        if shown:
            yield f"left out as {filter_name}:"
            yield from itertools.islice(shown, EXAMPLES_SHOWN)


def shorten(text: str) -> str:
    return text if len(text) <= EXAMPLE_WIDTH else f"{text[: EXAMPLE_WIDTH - 1]}…"
