"""`allyouneed figure`: the paper's figures and the curves of a run."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allyouneed.cli.output_file import write_whole
from allyouneed.errors import ConfigError

if TYPE_CHECKING:  # torch takes seconds to load, and `--help` does without
    from allyouneed.translator import Translator
    from allyouneed.visualization.drawing import Drawing

OF_A_MODEL = ("architecture", "multi-head", "positions")
OF_A_RUN = ("rate", "curves")
N_POSITIONS = 100


@click.command()
@click.argument("name", type=click.Choice((*OF_A_MODEL, *OF_A_RUN)))
@click.option("--model", help="A model folder or a shipped model's name. Default: en-de.")
@click.option(
    "--run",
    "folder",
    type=click.Path(path_type=Path),
    help="A run's folder; for rate, its run file will do.",
)
@click.option(
    "--output", type=click.Path(path_type=Path), help="A .svg or .png file. Default: NAME.svg."
)
def figure(name: str, model: str | None, folder: Path | None, output: Path | None) -> None:
    """Draw one of the figures.

    architecture and multi-head are the paper's figures 1 and 2 with a model's own sizes; positions
    are its position vectors; rate and curves are a run's learning rate and learning curves.
    """
    path = output or Path(f"{name}.svg")
    form = path.suffix.lower().removeprefix(".")
    if form not in ("svg", "png"):
        raise ConfigError(f"{path}: pictures are .png or .svg, not {path.suffix!r}")
    if name in OF_A_RUN and (folder is None or model is not None):
        raise click.UsageError(f"{name} is drawn from a run: give --run FOLDER, without --model")
    if name in OF_A_MODEL and folder is not None:
        raise click.UsageError(f"{name} is drawn from a model: give --model instead of --run")
    if name == "curves" and folder is not None:
        from allyouneed.visualization.curves import draw_curves

        draw_curves(folder / "log.jsonl", path)
    else:
        from allyouneed.visualization.pictures import picture

        drawing = _rate(folder) if folder is not None else _of_model(name, model)
        write_whole(path, picture(drawing, form))
    click.echo(f"wrote {path}", err=True)


def _rate(folder: Path) -> "Drawing":
    from allyouneed.run_file import SETTINGS, load_run
    from allyouneed.training.optimizer import rate
    from allyouneed.visualization.plots import rate_plot

    run = load_run(folder if folder.is_file() else folder / SETTINGS)
    training, d_model = run.training, run.model.d_model
    rates = [rate(step, d_model, training) for step in range(1, training.steps + 1)]
    name = folder.resolve().stem if folder.is_file() else folder.resolve().name
    return rate_plot(rates, f"{name}: learning rate")


def _of_model(name: str, model: str | None) -> "Drawing":
    from allyouneed.models import find_model
    from allyouneed.translator import Translator
    from allyouneed.visualization.figures import architecture_figure, multi_head_figure

    translator = Translator.load(model, "cpu", engine="plain")
    title, config = find_model(model).resolve().name, translator.manifest.model
    if name == "architecture":
        n_parameters = sum(weight.numel() for weight in translator.model.parameters())
        return architecture_figure(config, f"{title}: {n_parameters:,} parameters")
    if name == "multi-head":
        return multi_head_figure(config, f"{title}: attention in {config.n_heads} heads")
    return _positions(title, translator)


def _positions(title: str, translator: "Translator") -> "Drawing":
    import torch

    from allyouneed.visualization.plots import positions_plot

    model = translator.model
    places = torch.arange(min(N_POSITIONS, model.max_length or N_POSITIONS))
    with torch.inference_mode():
        vectors = model.positions(places.unsqueeze(0)).squeeze(0).numpy()
    return positions_plot(vectors, f"{title}: {model.config.positions} positions")
