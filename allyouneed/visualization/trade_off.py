"""Quality against speed: a dot a system, as large as its files are."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from allyouneed.errors import DataError
from allyouneed.visualization.drawing import HEAD_COLOURS
from allyouneed.visualization.panels import (
    INK,
    check_picture,
    figure_of_axes,
    mark_at_125,
    save_figure,
    set_title,
)

DOT_PER_MEGABYTE = 4.0  # square points


@dataclass(frozen=True)
class System:
    name: str
    languages: str  # systems between the same languages share a panel
    speed: float  # as a multiple of the first's
    bleu: float
    megabytes: float


def draw_trade_off(systems: Sequence[System], picture: Path, title: str) -> None:
    """Up is better, right is faster, small is small."""
    check_picture(picture)
    if not systems:
        raise DataError(f"{picture}: there is no system to draw")
    panels = list(dict.fromkeys(system.languages for system in systems))
    figure, axes = figure_of_axes(title, len(panels), 1)
    for languages, ax in zip(panels, axes, strict=True):
        set_title(ax, f"{languages}: BLEU")
        ax.set_xscale("log")
        mark_at_125(ax.xaxis)
        ax.margins(x=0.25, y=0.25)  # room for dots and names
        for number, system in enumerate(it for it in systems if it.languages == languages):
            colour = HEAD_COLOURS[number % len(HEAD_COLOURS)]
            area = DOT_PER_MEGABYTE * system.megabytes
            ax.scatter(system.speed, system.bleu, area, colour, alpha=0.6, linewidths=0, zorder=3)
            ax.annotate(
                f"{system.name}\n{system.bleu:.1f}, {system.megabytes:.0f} MB",
                (system.speed, system.bleu), xytext=(6 + (area / 3.14) ** 0.5, 0),
                textcoords="offset points", va="center", fontsize=8, color=colour,
            )  # fmt: skip
    axes[-1].set_xlabel(f"times as fast as {systems[0].name}", fontsize=9, color=INK)
    save_figure(figure, picture)
