"""What the commands that read a run file have in common."""

from pathlib import Path

import click

run_file_argument = click.argument("run_file", type=click.Path(path_type=Path))
overrides_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="SECTION.KEY=VALUE",
    help="Override a value of the run file; may be given several times.",
)
