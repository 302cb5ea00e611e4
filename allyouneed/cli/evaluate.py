"""`allyouneed evaluate`: score translations, or translate and score."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from allyouneed.errors import ConfigError, DataError, UserError
from allyouneed.evaluation.lines import read_aligned, read_lines, write_lines
from allyouneed.evaluation.metrics import METRICS, Scores, score_corpus
from allyouneed.evaluation.paper_bleu import paper_bleu
from allyouneed.evaluation.significance import COMPARED, Comparison, System, compare_systems

ALL_METRICS = (*METRICS, "paper")

FILE = click.Path(path_type=Path)


@dataclass(frozen=True)
class Report:
    """What the command shows; `--json` shows just this."""

    reference: str
    systems: dict[str, Scores]
    comparisons: dict[str, Comparison]  # by metric, of every further system with the first
    notes: tuple[str, ...]


def _metrics(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    if value is None:
        return None
    metrics = tuple(value.split(","))
    for metric in metrics:
        if metric not in ALL_METRICS:
            raise click.BadParameter(f"{metric!r} is none of {', '.join(ALL_METRICS)}")
    return metrics


@click.command()
@click.argument("hypotheses", nargs=-1, type=FILE)
@click.option("--reference", type=FILE, required=True, help="What humans wrote, a sentence a line.")
@click.option("--model", help="Translate with this model first; needs --source.")
@click.option("--source", type=FILE, help="What the model translates, a sentence a line.")
@click.option("--output", type=FILE, help="Keep the model's translations in this file.")
@click.option("--beam-size", type=click.IntRange(min=1), help="Default: the model's own.")
@click.option("--length-penalty", type=click.FloatRange(min=0), help="Default: the model's own.")
@click.option("--device", default="auto", show_default=True, help="Where the model runs.")
@click.option(
    "--language", help="Of the reference. Default: the model's, or the reference's suffix."
)
@click.option(
    "--metrics",
    callback=_metrics,
    help=f"Some of {','.join(ALL_METRICS)}, joined by commas. Default: all that are installed.",
)
@click.option(
    "--lowercase",
    is_flag=True,
    help="Instead of the paper's BLEU, that of tokenised, lower-cased text (as for Multi30k).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def evaluate(
    hypotheses: tuple[Path, ...],
    reference: Path,
    model: str | None,
    source: Path | None,
    output: Path | None,
    beam_size: int | None,
    length_penalty: float | None,
    device: str,
    language: str | None,
    metrics: tuple[str, ...] | None,
    lowercase: bool,
    as_json: bool,
) -> None:
    """Score HYPOTHESES (files of translations), or what a model makes of --source.

    Two files or more are also compared: is each better or worse than the first, or is the
    difference luck (paired bootstrap resampling)?
    """
    references = read_lines(reference)
    systems: list[System]
    if model is not None and source is not None and not hypotheses:
        sources = read_aligned(source, reference, len(references))
        lines, model_language = _translate(
            model, device, sources, output, beam_size, length_penalty
        )
        systems = [(str(output or model), lines)]
        language = language or model_language
    elif hypotheses and model is None and source is None:
        if not (output is None and beam_size is None and length_penalty is None):
            raise click.UsageError("--output, --beam-size and --length-penalty go with --model")
        systems = [
            (str(path), read_aligned(path, reference, len(references))) for path in hypotheses
        ]
    else:
        raise click.UsageError("give either files of translations, or --model and --source")
    report = _score(systems, references, reference, language, metrics, lowercase)
    if as_json:
        click.echo(json.dumps(asdict(report), ensure_ascii=False, indent=2))
    else:
        _show(report)


def _translate(
    model: str,
    device: str,
    sources: Sequence[str],
    output: Path | None,
    beam_size: int | None,
    length_penalty: float | None,
) -> tuple[list[str], str]:
    """The translations, kept in `output` if there is one, and the language they are in."""
    from allyouneed.inference.strategies import BeamSearch
    from allyouneed.translator import Translator

    if output is not None and not output.parent.is_dir():
        raise DataError(f"{output}: there is no folder {output.parent}; make it first")
    translator = Translator.load(model, device=device)
    own = translator.manifest.decoding
    strategy = BeamSearch(
        own.beam_size if beam_size is None else beam_size,
        own.length_penalty if length_penalty is None else length_penalty,
    )
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("translating", total=len(sources))
        translations = translator.translate(
            sources, strategy=strategy, progress=lambda n_more: bar.advance(task, n_more)
        )
    lines = [translation.text for translation in translations]
    if output is not None:
        write_lines(output, lines)
    return lines, translator.target_language


def _score(
    systems: Sequence[System],
    references: Sequence[str],
    reference: Path,
    language: str | None,
    metrics: tuple[str, ...] | None,
    lowercase: bool,
) -> Report:
    chosen = ALL_METRICS if metrics is None else metrics
    plain = [metric for metric in chosen if metric in METRICS]
    scores = {name: score_corpus(lines, references, plain) for name, lines in systems}
    notes = []
    if "paper" in chosen:
        try:
            language = language or _language_of(reference)
            for name, lines in systems:
                scores[name]["paper"] = paper_bleu(
                    lines,
                    references,
                    language,
                    lowercase=lowercase,
                    # Only German was scored with its compounds split.
                    split_compounds=language == "de" and not lowercase,
                )
        except UserError as error:
            if metrics is not None or lowercase:  # it was asked for
                raise
            notes.append(str(error))
    compared = [metric for metric in COMPARED if metric in chosen]
    comparisons = (
        compare_systems(systems, references, metrics=compared)
        if len(systems) > 1 and compared
        else {}
    )
    return Report(str(reference), scores, comparisons, tuple(notes))


def _language_of(reference: Path) -> str:
    """The "de" of "test.de" or "test.de.gz"."""
    plain = reference.with_suffix("") if reference.suffix in (".gz", ".xz", ".zst") else reference
    code = plain.suffix.removeprefix(".").lower()
    if len(code) != 2:
        raise ConfigError(f"the name {reference} does not end in a language; give --language")
    return code


def _show(report: Report) -> None:
    click.echo(f"reference: {report.reference}")
    console = Console(highlight=False)
    first = next(iter(report.systems.values()))

    table = Table("metric", box=SIMPLE_HEAD)
    for name in report.systems:
        table.add_column(escape(name), justify="right", overflow="fold")
    for key, score in first.items():
        values = (f"{scores[key].value:.2f}" for scores in report.systems.values())
        table.add_row(score.name + (" (lower is better)" if key == "ter" else ""), *values)
    console.print(table)

    for comparison in report.comparisons.values():
        console.print(_comparison_table(comparison))
    for score in first.values():
        click.echo(f"{score.name}: {score.signature}")
    for comparison in report.comparisons.values():
        click.echo(f"{comparison.name}, resampled: {comparison.signature}")
    for note in report.notes:
        click.echo(note)


def _comparison_table(comparison: Comparison) -> Table:
    title = f"{comparison.name}, paired bootstrap against the first"
    table = Table(box=SIMPLE_HEAD, title=title)
    table.add_column("system", overflow="fold")
    for heading in ("score", "mean ± 95 %", "difference", "p"):
        table.add_column(heading, justify="right")
    baseline = comparison.results[0]
    for result in comparison.results:
        spread = f"{result.mean:.2f} ± {result.interval:.2f}"
        versus = (
            ("", "")
            if result.p_value is None
            else (f"{result.score - baseline.score:+.2f}", f"{result.p_value:.3f}")
        )
        table.add_row(escape(result.system), f"{result.score:.2f}", spread, *versus)
    return table
