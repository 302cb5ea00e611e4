"""Panels of curves under one title, drawn by matplotlib into a PNG or SVG file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from allyouneed.atomic import new_file
from allyouneed.errors import ConfigError, DataError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

INK, PALE = "#333333", "#DDDDDD"


@dataclass(frozen=True)
class Curve:
    """One line of a panel."""

    label: str
    colour: str
    x: list[float]
    y: list[float]
    number: str = ".2f"  # how its last value is written
    marker: str = ""


@dataclass(frozen=True)
class Panel:
    title: str
    curves: tuple[Curve, ...]
    logarithmic: bool = False


def check_picture(picture: Path) -> None:
    """Refuse what cannot be drawn before anything is read for it."""
    if picture.suffix.lower() not in (".png", ".svg"):
        raise ConfigError(f"{picture}: pictures are .png or .svg, not {picture.suffix!r}")


def save_figure(figure: "Figure", picture: Path) -> None:
    try:
        with new_file(picture) as unfinished:
            kind = picture.suffix.lower().removeprefix(".")
            figure.savefig(unfinished, format=kind, dpi=150)
    except OSError as error:
        raise DataError(f"{picture}: cannot be written: {error.strerror}") from None


def figure_of_curves(title: str, panels: Sequence[Panel], across: str) -> "Figure":
    """The panels above one another, or four in a square; `across` is what they have in common."""
    n_columns = 2 if len(panels) == 4 else 1
    figure, axes = figure_of_axes(title, len(panels) // n_columns, n_columns)
    for panel, ax in zip(panels, axes, strict=True):
        _draw(panel, ax)
    for ax in axes[-n_columns:]:
        ax.set_xlabel(across, fontsize=9, color=INK)
        ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.10g}")  # 0.5 and 7,000
    return figure


def figure_of_axes(title: str, n_rows: int, n_columns: int) -> "tuple[Figure, list[Axes]]":
    """Empty axes in the style of all pictures, row by row."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError:
        raise MissingExtraError("matplotlib", "plots", "drawing curves") from None

    size = (5.5 * n_columns, 3.0 * n_rows + 0.6)
    # A Figure of our own, not pyplot's, leaves the caller's global state and backend alone.
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08))
    figure.suptitle(title, x=0.02, ha="left", fontsize=13, fontweight="bold", color=INK)
    axes = list(figure.subplots(n_rows, n_columns, sharex=True, squeeze=False).flat)
    for ax in axes:
        ax.grid(color=PALE, linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color(PALE)
        ax.margins(x=0.02)
        ax.tick_params(color=PALE, labelcolor=INK, labelsize=8)
    return figure, axes


def set_title(ax: "Axes", title: str) -> None:
    ax.set_title(title, loc="left", fontsize=10, color=INK)


def mark_at_125(axis: "Axis") -> None:
    """Ticks at 1, 2, 5, 10, 20, … of a logarithmic axis, written as they are spoken."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")  # 20, not 2 × 10¹


def _draw(panel: Panel, ax: "Axes") -> None:
    set_title(ax, panel.title)
    if panel.logarithmic:
        ax.set_yscale("log")
        mark_at_125(ax.yaxis)
    curves = sorted((curve for curve in panel.curves if curve.x), key=lambda curve: curve.y[-1])
    for curve in curves:
        ax.plot(
            curve.x, curve.y, color=curve.colour, linewidth=1.3, marker=curve.marker, markersize=3,
            label=_label(curve),
        )  # fmt: skip
    if len(curves) > 2:
        handles, _ = ax.get_legend_handles_labels()
        legend = {"frameon": False, "fontsize": 8, "labelcolor": "linecolor"}
        ax.legend(handles=handles[::-1], loc="center left", bbox_to_anchor=(1, 0.5), **legend)
        return
    for curve in curves:
        # Of two labels that could meet, the lower one hangs and the upper one stands.
        aligned = "center" if len(curves) == 1 else "top" if curve is curves[0] else "bottom"
        ax.annotate(
            _label(curve), (curve.x[-1], curve.y[-1]), xytext=(6, 0),
            textcoords="offset points", va=aligned, fontsize=9, color=curve.colour,
        )  # fmt: skip


def _label(curve: Curve) -> str:
    return f"{curve.label} {curve.y[-1]:{curve.number}}".strip()
