"""Two plots of section 3.5 and section 5.3: positions and the learning rate."""

from collections.abc import Sequence
from math import floor, log10

import numpy as np
from numpy.typing import NDArray

from allyouneed.visualization.drawing import (
    HEAD_COLOURS,
    INK,
    MUTED,
    PALE,
    Box,
    Circle,
    Drawing,
    Image,
    Line,
    Pixels,
    Text,
    tint,
)

LEFT, TOP, WIDTH, HEIGHT = 92.0, 56.0, 620.0, 330.0  # of what the axes frame
BLUE, VERMILION = HEAD_COLOURS[:2]


def positions_plot(vectors: NDArray[np.floating], title: str) -> Drawing:
    """Position vectors (positions, d_model), a row each."""
    drawing = _framed(title, "dimension", "position")
    n_positions, d_model = vectors.shape
    largest = float(abs(vectors).max())
    drawing.add(Image(LEFT, TOP, WIDTH, HEIGHT, _diverging(vectors / largest)))
    for tick in _ticks(d_model):
        x = LEFT + (tick + 0.5) * WIDTH / d_model
        drawing.add(Text(x, TOP + HEIGHT + 14, f"{tick:g}", 11.5, MUTED, "middle"))
    for tick in _ticks(n_positions):
        y = TOP + (tick + 0.5) * HEIGHT / n_positions
        drawing.add(Text(LEFT - 8, y, f"{tick:g}", 11.5, MUTED, "end"))
    scale = np.linspace(1, -1, 64)[:, None]
    right = LEFT + WIDTH + 20
    drawing.add(
        Image(right, TOP, 14, HEIGHT, _diverging(scale)), Box(right, TOP, 14, HEIGHT, "none", PALE)
    )
    for share in (0.0, 0.5, 1.0):
        value = largest * (1 - 2 * share)
        drawing.add(Text(right + 20, TOP + share * HEIGHT, f"{value:.2g}", 11.5, MUTED))
    return drawing


def rate_plot(rates: Sequence[float], title: str) -> Drawing:
    """The learning rate of step 1, 2, …"""
    drawing = _framed(title, "step", "learning rate")
    values = np.asarray(rates)
    peak = int(values.argmax())
    top = float(values[peak]) * 1.12

    def place(step: float, value: float) -> tuple[float, float]:
        return LEFT + WIDTH * step / len(values), TOP + HEIGHT * (1 - value / top)

    for tick in _ticks(len(values)):
        x, _ = place(tick, 0)
        drawing.add(Line([(x, TOP), (x, TOP + HEIGHT)], PALE, 0.7))
        drawing.add(Text(x, TOP + HEIGHT + 14, f"{tick:,.0f}", 11.5, MUTED, "middle"))
    for tick in _ticks(top):
        _, y = place(0, tick)
        drawing.add(Line([(LEFT, y), (LEFT + WIDTH, y)], PALE, 0.7))
        drawing.add(Text(LEFT - 8, y, f"{tick:.3g}", 11.5, MUTED, "end"))
    # A point a pixel is enough, as long as the peak is one of them.
    shown = np.unique(np.append(np.linspace(0, len(values) - 1, int(WIDTH)).astype(int), peak))
    drawing.add(Line([place(step + 1, values[step]) for step in shown], BLUE, 2.0))
    x, y = place(peak + 1, values[peak])
    inside = x < LEFT + WIDTH / 2
    drawing.add(
        Circle(x, y, 4, BLUE, BLUE),
        Text(
            x + (10 if inside else -10), y - 12, f"{values[peak]:.3g} at step {peak + 1:,}", 12.5,
            INK, "start" if inside else "end", bold=True,
        ),
    )  # fmt: skip
    return drawing


def _framed(title: str, across: str, down: str) -> Drawing:
    drawing = Drawing(LEFT + WIDTH + 84, TOP + HEIGHT + 48, title)
    drawing.add(
        Text(20, 26, title, 15, bold=True),
        Text(LEFT + WIDTH / 2, TOP + HEIGHT + 34, across, 12, MUTED, "middle"),
        Text(24, TOP + HEIGHT / 2, down, 12, MUTED, "middle", angle=90),
    )
    return drawing


def _diverging(values: NDArray[np.floating]) -> Pixels:
    """From −1, blue, over 0, white, to 1, vermilion."""
    magnitude = values**2  # `tint` takes the root
    return np.where((values > 0)[..., None], tint(magnitude, VERMILION), tint(magnitude, BLUE))


def _ticks(end: float) -> list[float]:
    """Round numbers from 0 to below `end`, four to eight of them."""
    unit = 10.0 ** floor(log10(end / 4))
    step = next(unit * factor for factor in (1, 2, 5, 10) if end / (unit * factor) <= 8)
    return [step * number for number in range(int(np.ceil(end / step)))]
