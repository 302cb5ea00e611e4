"""`allyouneed`: commands are imported when they are called, so that `--help` is instant."""

import importlib
import sys

import click

from allyouneed import __version__
from allyouneed.errors import UserError

# In the order of the work; each is the function of the same name in the module of that name.
COMMANDS = {
    "prepare": "Learn a vocabulary and turn parallel text into ids.",
    "train": "Train a model as a run file describes, or go on with a run.",
    "average": "Average the weights of several model folders into one.",
    "quantize": "Store a model's weights in eight bits: smaller, and faster on a CPU.",
    "shortlist": "Learn which pieces a source may become: faster still on a CPU.",
    "translate": "Translate sentences, files or what comes in by a pipe.",
    "evaluate": "Score translations: BLEU, chrF, TER, the paper's BLEU, significance.",
    "score": "Say how probable a model finds given translations.",
    "attention": "Show what every head attends to: a page, a picture or text.",
    "figure": "Draw figures 1 and 2 with a model's sizes, positions, rate and curves.",
    "serve": "Answer over HTTP: LibreTranslate's API, our own, and a page.",
    "export": "Write a model for Hugging Face transformers, CTranslate2 or ONNX.",
}


class LazyCommands(click.Group):
    """A group that knows its commands' names and one-line helps without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"allyouneed.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """The Transformer of "Attention Is All You Need": train it, run it, measure it."""


def main() -> None:
    try:
        cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except UserError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:  # a full disk, a file that may not be read, …
        click.echo(f"error: {error}", err=True)
        sys.exit(UserError.exit_code)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
