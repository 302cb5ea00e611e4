"""`allyouneed attention`: what every head attends to, as a page, a picture or text."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allyouneed.cli.output_file import write_whole
from allyouneed.visualization.attention import KINDS
from allyouneed.visualization.heads import SCORES
from allyouneed.visualization.selection import VIEWS, Selection

if TYPE_CHECKING:
    from allyouneed.visualization.attention import Attention

FORMATS = ("html", "svg", "png", "text")


@click.command()
@click.argument("sentence")
@click.option(
    "--model", help="A model folder or a shipped model's name. Default: the one for the language."
)
@click.option("--target", help="Look at this translation. Default: the model's best.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Default: by --output, or html.")
@click.option(
    "--output", type=click.Path(path_type=Path), help="Default: attention.html, .svg or .png."
)
@click.option("--kind", type=click.Choice(KINDS), help="Default: encoder-decoder.")
@click.option(
    "--layer", type=int, help="Counted from 1. Default: the last but one of four or more."
)
@click.option("--heads", help="Such as 1,3; counted from 1. Default: all.")
@click.option("--words", is_flag=True, help="Whole words instead of subwords.")
@click.option("--view", type=click.Choice(VIEWS[:-1]), help="Default: lines; as text, heatmap.")
@click.option("--rank", type=click.Choice(list(SCORES)), help="Show the heads that are most so.")
@click.option("--device", default="auto", show_default=True, help="Where the model runs.")
def attention(
    sentence: str,
    model: str | None,
    target: str | None,
    form: str | None,
    output: Path | None,
    kind: str | None,
    layer: int | None,
    heads: str | None,
    words: bool,
    view: str | None,
    rank: str | None,
    device: str,
) -> None:
    """Show what every head attends to in SENTENCE and its translation.

    One HTML file with everything in it, unless --format says otherwise.
    """
    form = form or _format_of(output)
    if rank and view:
        raise click.UsageError("give either --view or --rank, which is a view of its own")
    if form == "text" and view == "lines":
        raise click.UsageError("text shows no lines; leave --view out for the heat map")
    if form != "html" and (rank or view == "grid") and (layer is not None or heads is not None):
        raise click.UsageError("--view grid and --rank show all layers and heads")
    selection = Selection(
        view="ranking" if rank else view or "lines",
        kind=kind,
        layer=None if layer is None else layer - 1,
        heads=None if heads is None else _places(heads),
        words=words,
        by=rank or "sharp",
    )

    from allyouneed.models import choose_model
    from allyouneed.translator import Translator

    folder = choose_model(None, None, lambda: sentence) if model is None else model
    found = Translator.load(folder, device).attention(sentence, target)
    content = _rendered(found, selection, form)
    if form == "text" and output is None:
        click.echo(content, nl=False)
        return
    path = output or Path(f"attention.{form}")
    write_whole(path, content)
    advice = ", to be opened in a browser" if form == "html" else ""
    click.echo(f"{found.source} → {found.target}\nwrote {path}{advice}", err=True)


def _format_of(output: Path | None) -> str:
    if output is None:
        return "html"
    suffix = output.suffix.lower().removeprefix(".")
    form = {"txt": "text", "htm": "html"}.get(suffix, suffix)
    if form not in FORMATS:
        raise click.UsageError(f"{output}: say with --format which of {', '.join(FORMATS)} it is")
    return form


def _places(heads: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(number) - 1 for number in heads.split(",")}))
    except ValueError:
        raise click.UsageError(f"--heads is {heads!r}; give numbers with commas: 1,3") from None


def _rendered(found: "Attention", selection: Selection, form: str) -> str | bytes:
    if form == "html":
        from allyouneed.visualization.page import page

        return page(found, selection)
    if form == "text":
        from allyouneed.visualization.terminal import write_attention

        return f"{write_attention(found, selection)}\n"
    from allyouneed.visualization.attention_drawing import draw_attention
    from allyouneed.visualization.pictures import picture

    return picture(draw_attention(found, selection), form)
