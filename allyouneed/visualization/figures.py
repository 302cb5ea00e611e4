"""Figures 1 and 2 of the paper, with the sizes of a model at hand."""

from collections.abc import Sequence
from math import pi, sin, sqrt

from allyouneed.config import ModelConfig
from allyouneed.visualization.drawing import (
    INK,
    MUTED,
    PAPER,
    Box,
    Circle,
    Drawing,
    Line,
    Point,
    Text,
)

# The paper's colours.
ROSE, AMBER, LEMON, SKY = "#fadfdf", "#fde3bb", "#f4f6c6", "#c8e9f4"
LILAC, MINT, GREY, MAUVE = "#dde0f2", "#cfe7d3", "#f3f4f6", "#e8d9ee"
WIDTH, TALL, LOW = 214.0, 46.0, 26.0  # of a box; with and without a line on its sizes
LANE = 40.0  # between a column's middle and the outer ones of three arrows


def architecture_figure(config: ModelConfig, title: str) -> Drawing:
    """Figure 1."""
    left, right = 220.0, 550.0
    drawing = Drawing(770, 782, title)
    drawing.add(Text(24, 26, title, 15, bold=True))
    bottom = 606.0  # of both stacks
    encoder_top, decoder_top = bottom - 2 * 122, bottom - 3 * 122
    for x, top, n_layers in (
        (left, encoder_top, config.n_layers),
        (right, decoder_top, config.decoder_layers),
    ):
        frame = (x - WIDTH / 2 - 32, top - 8, WIDTH + 64, bottom - top + 10)
        drawing.add(Box(*frame, GREY, MUTED, radius=14))
        outside = x - WIDTH / 2 - 64 if x == left else x + WIDTH / 2 + 64
        drawing.add(Text(outside, (top + bottom) / 2, f"{n_layers} ×", 18, INK, "middle"))

    for x, side, name in ((left, -1, "inputs"), (right, 1, "outputs, shifted right")):
        _add_embedding(drawing, config, (x, bottom), side, name)

    heads = f"{config.n_heads} heads, d_k {config.d_k}, d_v {config.d_v}"
    widths = f"{config.d_model:,} → {config.d_ff:,} → {config.d_model:,}"
    attention, feed_forward = ("multi-head attention", heads, AMBER), ("feed forward", widths, SKY)
    masked = ("masked multi-head attention", heads, AMBER)
    _add_sublayer(drawing, (left, bottom), *attention, side=-1)
    _add_sublayer(drawing, (left, bottom - 122), *feed_forward, side=-1)
    _add_sublayer(drawing, (right, bottom), *masked, side=1)
    _add_sublayer(drawing, (right, bottom - 122), *attention, side=1, from_encoder=True)
    _add_sublayer(drawing, (right, bottom - 244), *feed_forward, side=1)

    # Keys and values: from the top of the encoder around into the middle of the decoder.
    turn, entry = (left + right) / 2, bottom - 122 - 19
    arrow_in = bottom - 122 - 29
    drawing.add(
        Line([(left, encoder_top + 4), (left, encoder_top - 26), (turn, encoder_top - 26),
              (turn, entry), (right, entry)], width=1.4)
    )  # fmt: skip
    for x in (right - LANE, right):
        drawing.arrow((x, entry), (x, arrow_in))
    drawing.add(Text((left + turn) / 2, encoder_top - 38, "keys and values", 12, MUTED, "middle"))

    _add_output(drawing, config, (right, decoder_top))
    return drawing


def multi_head_figure(config: ModelConfig, title: str) -> Drawing:
    """Figure 2."""
    drawing = Drawing(760, 560, title)
    drawing.add(Text(24, 26, title, 15, bold=True))
    _add_scaled_dot_product(drawing, 190, config.d_k)
    _add_heads(drawing, 545, config)
    return drawing


def _add_box(drawing: Drawing, middle: Point, name: str, detail: str, fill: str) -> None:
    x, y = middle
    height = TALL if detail else LOW
    drawing.add(Box(x - WIDTH / 2, y - height / 2, WIDTH, height, fill, INK, radius=6))
    drawing.add(Text(x, y - (9 if detail else 0), name, 13.5, INK, "middle"))
    if detail:
        drawing.add(Text(x, y + 10, detail, 11.5, MUTED, "middle"))


def _add_sublayer(
    drawing: Drawing,
    entry: Point,
    name: str,
    detail: str,
    fill: str,
    *,
    side: int,
    from_encoder: bool = False,
) -> None:
    """A sub-layer, and around it the residual connection into add & norm; 122 pixels in all."""
    x, y = entry
    middle = y - 29 - TALL / 2
    if from_encoder:  # keys and values come from there, the query alone from below
        drawing.arrow((x, y + 4), (x, y - 12), (x + LANE, y - 12), (x + LANE, y - 29))
    else:
        drawing.arrow((x, y + 4), (x, y - 29))
        for lane in (x - LANE, x + LANE) if "attention" in name else ():
            drawing.arrow((x, y - 19), (lane, y - 19), (lane, y - 29))
    _add_box(drawing, (x, middle), name, detail, fill)
    norm = middle - TALL / 2 - 8 - LOW / 2
    drawing.add(Line([(x, middle - TALL / 2), (x, norm + LOW / 2)], width=1.4))
    _add_box(drawing, (x, norm), "add & norm", "", LEMON)
    outside = x + side * (WIDTH / 2 + 18)
    drawing.arrow((x, y - 6), (outside, y - 6), (outside, norm), (x + side * WIDTH / 2, norm))
    drawing.add(Line([(x, norm - LOW / 2), (x, y - 122 + 4)], width=1.4))


def _add_embedding(drawing: Drawing, config: ModelConfig, top: Point, side: int, name: str) -> None:
    x, y = top
    plus, box, label = y + 34, y + 90, y + 142
    learned = config.positions == "learned"
    kind = f"learned, {config.max_positions:,}" if learned else "sinusoidal"
    drawing.arrow((x, label - 12), (x, box + TALL / 2))
    drawing.add(Line([(x, box - TALL / 2), (x, y + 4)], width=1.4))
    _add_box(
        drawing, (x, box), f"{'input' if side < 0 else 'output'} embedding",
        f"{config.vocab_size:,} × {config.d_model:,}, shared, times √{config.d_model:,}", ROSE,
    )  # fmt: skip
    wave = x + side * 92
    drawing.add(
        Line([(x, plus), (wave - side * 15, plus)], width=1.4),
        Circle(x, plus, 10),
        Line([(x - 6, plus), (x + 6, plus)], width=1.4),
        Line([(x, plus - 6), (x, plus + 6)], width=1.4),
        Circle(wave, plus, 15),
        Line(_wave(wave, plus), width=1.4),
        Text(wave + side * 22, plus - 8, "positions", 12, INK, "end" if side < 0 else "start"),
        Text(wave + side * 22, plus + 8, kind, 11.5, MUTED, "end" if side < 0 else "start"),
        Text(x, label, name, 13.5, INK, "middle"),
    )


def _wave(x: float, y: float) -> list[Point]:
    return [(x - 11 + step, y - 6 * sin(pi * step / 5.5)) for step in range(23)]


def _add_output(drawing: Drawing, config: ModelConfig, entry: Point) -> None:
    x, y = entry
    drawing.arrow((x, y + 4), (x, y - 40))
    linear = f"{config.d_model:,} → {config.vocab_size:,}, the embedding"
    _add_box(drawing, (x, y - 40 - TALL / 2), "linear", linear, LILAC)
    drawing.arrow((x, y - 40 - TALL), (x, y - 104))
    _add_box(drawing, (x, y - 104 - LOW / 2), "softmax", "", MINT)
    drawing.arrow((x, y - 104 - LOW), (x, y - 156))
    drawing.add(Text(x, y - 168, "probabilities of the next token", 13.5, INK, "middle"))


def _add_scaled_dot_product(drawing: Drawing, x: float, d_k: int) -> None:
    drawing.add(Text(x, 66, "scaled dot-product attention", 13.5, INK, "middle", bold=True))
    names: Sequence[tuple[str, str]] = (
        ("matrix product", MAUVE),
        (f"scale by 1 / √{d_k} = {1 / sqrt(d_k):.4g}", LEMON),
        ("mask: who may see whom", ROSE),
        ("softmax", MINT),
        ("matrix product", MAUVE),
    )
    bottom, step = 440.0, 66.0
    for number, (name, fill) in enumerate(names):
        y = bottom - number * step
        _add_box(drawing, (x, y), name, "", fill)
        drawing.arrow((x, y - LOW / 2), (x, y - step + LOW / 2))
    for lane, letter in ((x - 60, "Q"), (x, "K")):
        drawing.arrow((lane, 492), (lane, bottom + LOW / 2))
        drawing.add(Text(lane, 506, letter, 14, INK, "middle"))
    value = x + WIDTH / 2 + 22
    top = bottom - 4 * step
    drawing.arrow((value, 492), (value, top + 28), (x + 60, top + 28), (x + 60, top + LOW / 2))
    drawing.add(Text(value, 506, "V", 14, INK, "middle"))


def _add_heads(drawing: Drawing, x: float, config: ModelConfig) -> None:
    drawing.add(Text(x, 66, "multi-head attention", 13.5, INK, "middle", bold=True))
    n_heads, d_model, d_k, d_v = config.n_heads, config.d_model, config.d_k, config.d_v
    small = WIDTH / 2
    for lane, letter, width in ((x - 120, "V", d_v), (x, "K", d_k), (x + 120, "Q", d_k)):
        drawing.arrow((lane, 492), (lane, 440 + TALL / 2))
        drawing.add(Text(lane, 506, letter, 14, INK, "middle"))
        _add_stack(drawing, (lane, 440), small, "linear", f"{d_model:,} → {width}", LILAC)
        # The outer two lean in, so that all three enter the box above.
        drawing.add(
            Line([(lane, 440 - TALL / 2 - 12), (lane, 362), (x + (lane - x) / 2, 362)], width=1.4)
        )
        drawing.arrow((x + (lane - x) / 2, 362), (x + (lane - x) / 2, 326 + TALL / 2))
    product = ("scaled dot-product attention", f"{n_heads} heads", MAUVE)
    _add_stack(drawing, (x, 326), WIDTH + 40, *product)
    drawing.arrow((x, 326 - TALL / 2 - 12), (x, 236 + TALL / 2))
    joined = f"{n_heads} × {d_v} = {n_heads * d_v:,}"
    _add_box(drawing, (x, 236), "concatenate", joined, LEMON)
    drawing.arrow((x, 236 - TALL / 2), (x, 156 + TALL / 2))
    _add_box(drawing, (x, 156), "linear", f"{n_heads * d_v:,} → {d_model:,}", LILAC)
    drawing.arrow((x, 156 - TALL / 2), (x, 92))


def _add_stack(
    drawing: Drawing, middle: Point, width: float, name: str, detail: str, fill: str
) -> None:
    """A box with others behind it: one a head."""
    x, y = middle
    for shift in (12, 6, 0):
        corner = (x - width / 2 + shift, y - TALL / 2 - shift)
        drawing.add(Box(*corner, width, TALL, fill if shift == 0 else PAPER, INK, radius=6))
    drawing.add(
        Text(x, y - 9, name, 13.5, INK, "middle"), Text(x, y + 10, detail, 11.5, MUTED, "middle")
    )
