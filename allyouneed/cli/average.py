"""`allyouneed average`."""

from pathlib import Path

import click


@click.command()
@click.argument("models", nargs=-1, required=True)
@click.option("--output", required=True, type=click.Path(path_type=Path), help="Folder to write.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float16", "bfloat16", "int8"]),
    default="float32",
    show_default=True,
    help="How the weights are stored; int8 keeps a scale for each row of a matrix.",
)
def average(models: tuple[str, ...], output: Path, dtype: str) -> None:
    """Average the weights of MODELS into one model folder.

    They are checkpoints, model folders or shipped models' names. The first one's settings are
    kept. One model alone can be averaged, too: that stores it in another precision.
    """
    import torch

    from allyouneed.checkpoint import TOKENIZER, average_weights, load_manifest, save_model
    from allyouneed.models import find_model
    from allyouneed.text.tokenizer import Tokenizer

    folders = [find_model(model) for model in models]
    manifest = load_manifest(folders[0])
    tokenizer = Tokenizer.load(folders[0] / TOKENIZER)
    save_model(output, average_weights(folders), tokenizer, manifest, getattr(torch, dtype))
    click.echo(f"{output}: the mean of {len(folders)}", err=True)
