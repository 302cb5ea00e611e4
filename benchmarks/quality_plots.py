"""Pictures of quality: over training time, over training steps, and against speed.

time and curves are drawn from run folders or their log.jsonl; speed from what quality.py wrote.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from allyouneed.errors import ConfigError, DataError, UserError
from allyouneed.visualization.curves import compare_runs
from allyouneed.visualization.trade_off import System, draw_trade_off


def named_logs(runs: list[str]) -> dict[str, Path]:
    """FOLDER, or NAME=FOLDER, or the same with the log itself."""
    logs: dict[str, Path] = {}
    for run in runs:
        name, equals, place = run.rpartition("=")
        path = Path(place)
        log = path / "log.jsonl" if path.is_dir() else path
        name = name if equals else log.resolve().parent.name
        if name in logs:
            raise ConfigError(f"two runs are called {name}; name them, as NAME=FOLDER")
        logs[name] = log
    return logs


def systems(figures: Path, test_set: str) -> list[System]:
    """Those of quality.py's figures that were tried on this test set."""
    try:
        records: list[dict[str, Any]] = json.loads(figures.read_text(encoding="utf-8"))
        return [
            System(
                record["system"],
                record["languages"],
                record["times_as_fast"],
                record["scores"][test_set]["bleu"]["value"],
                record["megabytes"],
            )
            for record in records
            if test_set in record["scores"]
        ]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(f"{figures}: not the figures of quality.py: {error!r}") from None


def parse_arguments(parser: argparse.ArgumentParser) -> argparse.Namespace:
    pictures = parser.add_subparsers(dest="picture", required=True)
    for name, against, about, title in (
        ("time", "time", "BLEU over minutes of training", "BLEU against training time"),
        ("curves", "step", "BLEU and losses over steps", "Learning curves"),
    ):
        runs = pictures.add_parser(name, help=about)
        runs.add_argument("runs", nargs="+", help="FOLDER or NAME=FOLDER")
        runs.set_defaults(against=against, title=title)
    speed = pictures.add_parser("speed", help="BLEU against speed, dots as large as the files")
    speed.add_argument("figures", type=Path, help="the JSON file of quality.py")
    speed.add_argument("--set", default="newstest2014", help="default: newstest2014")
    speed.set_defaults(title="BLEU against speed of translation")
    for picture in pictures.choices.values():
        picture.add_argument("--output", type=Path, required=True, help="a .png or .svg file")
        picture.add_argument("--title")
    return parser.parse_args()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    arguments = parse_arguments(parser)
    output, title = arguments.output, arguments.title
    try:
        if arguments.picture == "speed":
            draw_trade_off(systems(arguments.figures, arguments.set), output, title)
        else:
            compare_runs(named_logs(arguments.runs), output, title, arguments.against)
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
