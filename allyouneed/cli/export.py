"""`allyouneed export`: a model for another program, and whether it says the same there."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allyouneed.evaluation.lines import read_lines

if TYPE_CHECKING:  # torch takes seconds to load, and `--help` does without
    from allyouneed.interop import Agreement, Format

FILE = click.Path(path_type=Path)
N_NAMED = 10  # lines that are named when they differ


@click.command()
@click.argument("model")
@click.option(
    "--to",
    "program",
    type=click.Choice(["huggingface", "ctranslate2", "onnx"]),
    required=True,
    help="The program that the model is written for.",
)
@click.option("--output", type=FILE, required=True, help="Folder to write; it must not exist yet.")
@click.option(
    "--quantization", help="How ctranslate2 stores the weights: int8, float16 … Default: float32."
)
@click.option("--check", type=FILE, help="Translate this file in both, and count the same lines.")
def export(
    model: str, program: str, output: Path, quantization: str | None, check: Path | None
) -> None:
    """Write MODEL, a model folder or a shipped model's name, for another program."""
    if quantization and program != "ctranslate2":
        raise click.UsageError("--quantization goes with --to ctranslate2")
    texts = read_lines(check) if check else []

    from allyouneed.checkpoint import load_model
    from allyouneed.interop import compare
    from allyouneed.interop import export as write
    from allyouneed.models import find_model

    form = _format(program, quantization)
    if check:
        form.program()  # what is not installed is missed before anything is written
    loaded = load_model(find_model(model))
    write(loaded, form, output)
    click.echo(f"{output}: {model} for {program}", err=True)
    if check:
        exported = form.load(output)
        beam_size = loaded.manifest.decoding.beam_size
        for size in (1, beam_size) if form.has_beam_search else (1,):
            search = "greedy" if size == 1 else f"beam {size} without length penalty"
            click.echo(f"{search}: {_report(compare(loaded, exported, texts, size))}")


def _format(program: str, quantization: str | None) -> "Format":
    from allyouneed.interop import CTranslate2, HuggingFace, Onnx

    if program == "huggingface":
        return HuggingFace()
    return Onnx() if program == "onnx" else CTranslate2(quantization or "float32")


def _report(agreement: "Agreement") -> str:
    report = f"{agreement.n_same} of {len(agreement.compared)} lines have the same tokens"
    if not agreement.different:
        return report
    named = ", ".join(str(place + 1) for place in agreement.different[:N_NAMED])
    return f"{report}; not line {named}{', …' if len(agreement.different) > N_NAMED else ''}"
