"""Learning curves: a run's log as one picture."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allyouneed.atomic import new_file
from allyouneed.errors import ConfigError, DataError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette: distinct to every kind of colour vision, and on paper.
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
INK, PALE = "#333333", "#DDDDDD"

Record = dict[str, Any]


@dataclass(frozen=True)
class Curve:
    """One line of a panel, with the points the log holds for it."""

    label: str
    colour: str
    steps: list[int]
    values: list[float]
    number: str = ".2f"  # how its last value is written
    marker: str = ""


@dataclass(frozen=True)
class Panel:
    title: str
    curves: tuple[Curve, ...]
    logarithmic: bool = False


def draw_curves(log: Path, picture: Path) -> None:
    """Draw losses, perplexity, BLEU and rate of a `log.jsonl` into a PNG or SVG file."""
    kind = picture.suffix.lower().removeprefix(".")
    if kind not in ("png", "svg"):
        raise ConfigError(f"{picture}: pictures are .png or .svg, not {picture.suffix!r}")
    steps, validations = read_log(log)
    panels = _panels(steps, validations)
    if not panels:
        raise DataError(f"{log}: holds no training steps; is it the log.jsonl of a run?")
    figure = _figure(_title(log, steps, validations), panels)
    try:
        with new_file(picture) as unfinished:
            figure.savefig(unfinished, format=kind, dpi=150)
    except OSError as error:
        raise DataError(f"{picture}: cannot be written: {error.strerror}") from None


def read_log(log: Path) -> tuple[list[Record], list[Record]]:
    """The training steps and the validations, each once and in order."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise DataError(f"{log}: cannot be read: {error.strerror}") from None
    found: dict[str, dict[int, Record]] = {"step": {}, "validation": {}}
    for line in lines:
        record = _parse(line)
        if record.get("event") in found and isinstance(record.get("step"), int):
            found[record["event"]][record["step"]] = record  # a resumed run says a step again
    steps, validations = ([by_step[step] for step in sorted(by_step)] for by_step in found.values())
    return steps, validations


def _parse(line: str) -> Record:
    """An empty record for a line that a killed run left torn."""
    try:
        record = json.loads(line)
    except json.JSONDecodeError:
        return {}
    return record if isinstance(record, dict) else {}


def _curve(label: str, colour: str, records: Iterable[Record], key: str, **style: Any) -> Curve:
    points = [
        (record["step"], record[key])
        for record in records
        if isinstance(record.get(key), (int, float)) and math.isfinite(record[key])
    ]
    return Curve(label, colour, [step for step, _ in points], [y for _, y in points], **style)


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
    return [panel for panel in panels if any(curve.steps for curve in panel.curves)]


def _title(log: Path, steps: list[Record], validations: list[Record]) -> str:
    last = max(record["step"] for record in (*steps, *validations))
    title = f"{log.resolve().parent.name}: {last:,} steps"
    bleu = _curve("", "", validations, "bleu")
    if bleu.values:
        best, step = max(zip(bleu.values, bleu.steps, strict=True))
        title += f", best BLEU {best:.1f} at step {step:,}"
    return title


def _figure(title: str, panels: list[Panel]) -> "Figure":
    try:
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError:
        raise MissingExtraError("matplotlib", "plots", "drawing learning curves") from None

    n_columns = 2 if len(panels) == 4 else 1
    n_rows = len(panels) // n_columns
    size = (5.5 * n_columns, 3.0 * n_rows + 0.6)
    # A Figure of our own, not pyplot's, leaves the caller's global state and backend alone.
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08))
    figure.suptitle(title, x=0.02, ha="left", fontsize=13, fontweight="bold", color=INK)
    axes = figure.subplots(n_rows, n_columns, sharex=True, squeeze=False)
    for panel, ax in zip(panels, axes.flat, strict=True):
        _draw(panel, ax)
    for ax in axes[-1]:
        ax.set_xlabel("step", fontsize=9, color=INK)
        ax.xaxis.set_major_formatter("{x:,.0f}")
    return figure


def _draw(panel: Panel, ax: "Axes") -> None:
    ax.set_title(panel.title, loc="left", fontsize=10, color=INK)
    ax.grid(color=PALE, linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(PALE)
    ax.margins(x=0.02)
    ax.tick_params(color=PALE, labelcolor=INK, labelsize=8)
    if panel.logarithmic:
        _set_log_scale(ax)
    curves = sorted((curve for curve in panel.curves if curve.steps), key=lambda c: c.values[-1])
    for curve in curves:
        ax.plot(
            curve.steps, curve.values, color=curve.colour, linewidth=1.3,
            marker=curve.marker, markersize=3,
        )  # fmt: skip
        # Of two labels that could meet, the lower one hangs and the upper one stands.
        aligned = "center" if len(curves) == 1 else "top" if curve is curves[0] else "bottom"
        ax.annotate(
            f"{curve.label} {curve.values[-1]:{curve.number}}".strip(),
            (curve.steps[-1], curve.values[-1]), xytext=(6, 0), textcoords="offset points",
            va=aligned, fontsize=9, color=curve.colour,
        )  # fmt: skip


def _set_log_scale(ax: "Axes") -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter("{x:g}")  # 20, not 2 × 10¹
