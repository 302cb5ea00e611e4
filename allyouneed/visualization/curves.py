"""Learning curves: a run's log, or those of several runs, as one picture."""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from allyouneed.errors import DataError
from allyouneed.visualization.drawing import HEAD_COLOURS
from allyouneed.visualization.panels import (
    Curve,
    Panel,
    check_picture,
    figure_of_curves,
    save_figure,
)

BLUE, ORANGE, GREEN, PURPLE = HEAD_COLOURS[:4]

Record = dict[str, Any]


class Log(NamedTuple):
    """What a run has reported, each step once and in order."""

    steps: list[Record]
    validations: list[Record]
    finishes: list[Record]  # one at most, unless the run was made longer


def draw_curves(log: Path, picture: Path) -> None:
    """Draw losses, perplexity, BLEU and rate of a `log.jsonl` into a PNG or SVG file."""
    check_picture(picture)
    found = read_log(log)
    panels = _panels(found.steps, found.validations)
    if not panels:
        raise DataError(f"{log}: holds no training steps; is it the log.jsonl of a run?")
    title = _title(log, found.steps, found.validations)
    save_figure(figure_of_curves(title, panels, "step"), picture)


def compare_runs(
    logs: Mapping[str, Path], picture: Path, title: str, against: Literal["step", "time"]
) -> None:
    """Draw validation BLEU of several runs over time, or with the losses over the steps.

    Where a run has finished, the last point is that of its averaged model.
    """
    check_picture(picture)
    read = {name: read_log(log) for name, log in logs.items()}
    panels = [_bleu_of_runs(read, against)]
    if against == "step":
        panels += [_losses_of_runs(read, "validation"), _losses_of_runs(read, "training")]
    panels = [panel for panel in panels if any(curve.x for curve in panel.curves)]
    if not panels:
        raise DataError(
            f"{', '.join(map(str, logs.values()))}: hold nothing to draw; name the log.jsonl of "
            "runs with validations"
        )
    across = "step" if against == "step" else "minutes of training"
    save_figure(figure_of_curves(title, panels, across), picture)


def read_log(log: Path) -> Log:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise DataError(f"{log}: cannot be read: {error.strerror}") from None
    found: dict[str, dict[int, Record]] = {"step": {}, "validation": {}, "finish": {}}
    for line in lines:
        record = _parse(line)
        if record.get("event") in found and isinstance(record.get("step"), int):
            found[record["event"]][record["step"]] = record  # a resumed run says a step again
    return Log(*([by_step[step] for step in sorted(by_step)] for by_step in found.values()))


def _parse(line: str) -> Record:
    """An empty record for a line that a killed run left torn."""
    try:
        record = json.loads(line)
    except json.JSONDecodeError:
        return {}
    return record if isinstance(record, dict) else {}


def _curve(
    label: str,
    colour: str,
    records: Iterable[Record],
    key: str,
    against: Literal["step", "time"] = "step",
    **style: Any,
) -> Curve:
    points = [
        (record[against], record[key])
        for record in records
        if _is_number(record.get(against)) and _is_number(record.get(key))
    ]
    scale = 60 if against == "time" else 1  # seconds are logged, minutes are drawn
    return Curve(label, colour, [x / scale for x, _ in points], [y for _, y in points], **style)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _panels(steps: list[Record], validations: list[Record]) -> list[Panel]:
    """Those of the four panels that the log has points for."""
    # Label smoothing puts a floor under its loss; the plain one compares with validation.
    plain = any("nll" in record for record in steps)
    kind = "loss" if plain else "loss (training: label-smoothed)"
    loss = _curve("training", BLUE, steps, "nll" if plain else "loss")
    rate = _curve("", PURPLE, steps, "rate", number=".2g")
    panels = [
        Panel(
            f"{kind}, nats a token",
            (loss, _curve("validation", ORANGE, validations, "loss", marker="o")),
        ),
        Panel(
            "validation BLEU", (_curve("", GREEN, validations, "bleu", number=".1f", marker="o"),)
        ),
        Panel(
            "validation perplexity",
            (_curve("", ORANGE, validations, "perplexity", marker="o"),),
            logarithmic=True,
        ),
        Panel("learning rate", (rate,)),
    ]
    return [panel for panel in panels if any(curve.x for curve in panel.curves)]


def _bleu_of_runs(logs: Mapping[str, Log], against: Literal["step", "time"]) -> Panel:
    curves = (
        _curve(
            name, _colour(number), [*log.validations, *log.finishes[-1:]], "bleu", against,
            number=".1f", marker="o",
        )
        for number, (name, log) in enumerate(logs.items())
    )  # fmt: skip
    return Panel("validation BLEU", tuple(curves))


def _losses_of_runs(logs: Mapping[str, Log], kind: Literal["training", "validation"]) -> Panel:
    curves = (
        _curve(name, _colour(number), log.steps, "nll")
        if kind == "training"
        else _curve(name, _colour(number), log.validations, "loss", marker="o")
        for number, (name, log) in enumerate(logs.items())
    )
    return Panel(f"{kind} loss, nats a token", tuple(curves))


def _colour(number: int) -> str:
    return HEAD_COLOURS[number % len(HEAD_COLOURS)]


def _title(log: Path, steps: list[Record], validations: list[Record]) -> str:
    last = max(record["step"] for record in (*steps, *validations))
    title = f"{log.resolve().parent.name}: {last:,} steps"
    bleu = _curve("", "", validations, "bleu")
    if bleu.y:
        best, step = max(zip(bleu.y, bleu.x, strict=True))
        title += f", best BLEU {best:.1f} at step {step:,.0f}"
    return title
