"""A picture as a list of shapes, which becomes SVG by hand or PNG through matplotlib.

Lengths are pixels; y grows downwards.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

INK, MUTED, PALE, PAPER = "#1f2328", "#656d76", "#d8dee4", "#ffffff"
# After Okabe and Ito: distinct to every kind of colour vision; yellow darkened to show on white.
HEAD_COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#c45f98", "#e69f00", "#4a9fd8", "#9a8700", "#555555",
)  # fmt: skip

Point = tuple[float, float]
Pixels = NDArray[np.uint8]  # (rows, columns, 3)


@dataclass(frozen=True)
class Line:
    points: Sequence[Point]
    colour: str = INK
    width: float = 1.0
    opacity: float = 1.0
    dashed: bool = False


@dataclass(frozen=True)
class Polygon:
    points: Sequence[Point]
    fill: str = INK


@dataclass(frozen=True)
class Box:
    x: float
    y: float
    width: float
    height: float
    fill: str = PAPER
    stroke: str | None = None
    radius: float = 0.0
    opacity: float = 1.0


@dataclass(frozen=True)
class Circle:
    x: float
    y: float
    radius: float
    fill: str = PAPER
    stroke: str = INK


@dataclass(frozen=True)
class Text:
    """`y` is the middle of the letters, which turn around (x, y) if `angle` says so."""

    x: float
    y: float
    text: str
    size: float = 13.0
    colour: str = INK
    anchor: Literal["start", "middle", "end"] = "start"
    bold: bool = False
    angle: float = 0.0  # degrees, counter-clockwise


@dataclass(frozen=True)
class Image:
    """Pixels that are stretched, not blurred."""

    x: float
    y: float
    width: float
    height: float
    pixels: Pixels


Shape = Line | Polygon | Box | Circle | Text | Image


@dataclass
class Drawing:
    width: float
    height: float
    title: str
    shapes: list[Shape] = field(default_factory=list)

    def add(self, *shapes: Shape) -> None:
        self.shapes += shapes

    def arrow(self, *points: Point, colour: str = INK) -> None:
        """A line with a head at its last point; the last stretch is upright or level."""
        (x0, y0), (x, y) = points[-2:]
        length = abs(x - x0) + abs(y - y0)
        dx, dy = (x - x0) / length, (y - y0) / length
        neck = (x - 6 * dx, y - 6 * dy)
        self.add(
            Line([*points[:-1], neck], colour, 1.4),
            Polygon(
                [
                    (x, y),
                    (x - 8 * dx + 4 * dy, y - 8 * dy + 4 * dx),
                    (x - 8 * dx - 4 * dy, y - 8 * dy - 4 * dx),
                ],
                colour,
            ),
        )


def text_width(text: str, size: float = 13.0) -> float:
    """About how wide a sans serif text will be; fonts differ, so never short."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return size * (0.6 * (len(text) - wide) + 1.05 * wide)


def shorten(text: str, limit: int = 18) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def tint(weights: NDArray[np.floating], colour: str) -> Pixels:
    """Weights from 0, paper, to 1, the colour; by their root, so that small ones show."""
    paper, full = (np.array(_rgb(it), dtype=np.float64) for it in (PAPER, colour))
    shade = np.sqrt(np.clip(weights, 0, 1))[..., None]
    return np.rint(paper + shade * (full - paper)).astype(np.uint8)


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue
