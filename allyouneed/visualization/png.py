"""Drawings as PNG, through matplotlib."""

import io
import warnings
from typing import TYPE_CHECKING

from allyouneed.errors import MissingExtraError
from allyouneed.visualization.drawing import (
    PAPER,
    Box,
    Circle,
    Drawing,
    Image,
    Line,
    Polygon,
    Shape,
    Text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PER_INCH = 96  # CSS pixels
SHARPNESS = 2  # dots a pixel


def png(drawing: Drawing) -> bytes:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "plots", "drawing PNG files") from None

    figure = Figure(figsize=(drawing.width / PER_INCH, drawing.height / PER_INCH), facecolor=PAPER)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_axis_off()
    for height, shape in enumerate(drawing.shapes):
        _draw(shape, ax, height)
    ax.set_xlim(0, drawing.width)
    ax.set_ylim(drawing.height, 0)
    ax.set_aspect("auto")
    stream = io.BytesIO()
    with warnings.catch_warnings():
        # A script that matplotlib's font lacks comes out as boxes, and the picture shows it.
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(stream, format="png", dpi=PER_INCH * SHARPNESS)
    return stream.getvalue()


def _draw(shape: Shape, ax: "Axes", height: int) -> None:
    from matplotlib import patches

    points = 72 / PER_INCH  # matplotlib measures strokes and letters in points
    match shape:
        case Line():
            ax.plot(
                *zip(*shape.points, strict=True), color=shape.colour, alpha=shape.opacity,
                linewidth=shape.width * points, linestyle=(0, (5, 3)) if shape.dashed else "-",
                solid_capstyle="butt", zorder=height,
            )  # fmt: skip
        case Polygon():
            ax.add_patch(patches.Polygon(shape.points, facecolor=shape.fill, zorder=height))
        case Box():
            ax.add_patch(
                patches.FancyBboxPatch(
                    (shape.x + shape.radius, shape.y + shape.radius),
                    shape.width - 2 * shape.radius, shape.height - 2 * shape.radius,
                    boxstyle=patches.BoxStyle.Round(pad=shape.radius, rounding_size=shape.radius)
                    if shape.radius else patches.BoxStyle.Square(pad=0),
                    facecolor=shape.fill, edgecolor=shape.stroke or "none",
                    linewidth=points if shape.stroke else 0, alpha=shape.opacity, zorder=height,
                )
            )  # fmt: skip
        case Circle():
            ax.add_patch(
                patches.Circle(
                    (shape.x, shape.y), shape.radius, facecolor=shape.fill,
                    edgecolor=shape.stroke, linewidth=points, zorder=height,
                )
            )  # fmt: skip
        case Text():
            sides = {"start": "left", "middle": "center", "end": "right"}
            ax.text(
                shape.x, shape.y, shape.text, fontsize=shape.size * points, color=shape.colour,
                ha=sides[shape.anchor], va="center_baseline" if not shape.angle else "center",
                rotation=shape.angle, rotation_mode="anchor", parse_math=False,
                fontweight="bold" if shape.bold else "normal", zorder=height,
            )  # fmt: skip
        case Image():
            right, bottom = shape.x + shape.width, shape.y + shape.height
            ax.imshow(
                shape.pixels, extent=(shape.x, right, bottom, shape.y),
                interpolation="nearest", zorder=height,
            )  # fmt: skip
