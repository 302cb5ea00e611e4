"""Drawings as SVG, written by hand: no package is needed."""

import base64
import re
import struct
import zlib
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from allyouneed.visualization.drawing import (
    PAPER,
    Box,
    Circle,
    Drawing,
    Image,
    Line,
    Pixels,
    Point,
    Polygon,
    Shape,
    Text,
)

FONT = "system-ui, 'Segoe UI', Roboto, Helvetica, Arial, 'Noto Sans', sans-serif"
FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def svg(drawing: Drawing) -> str:
    width, height = _number(drawing.width), _number(drawing.height)
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="{FONT}" role="img" '
        f"aria-label={quoteattr(_printable(drawing.title))}>",
        f"<title>{escape(_printable(drawing.title))}</title>",
        f'<rect width="100%" height="100%" fill="{PAPER}"/>',
        *map(_element, drawing.shapes),
        "</svg>",
    )
    return "\n".join(lines) + "\n"


def _element(shape: Shape) -> str:
    match shape:
        case Line():
            dashes = ' stroke-dasharray="5 3"' if shape.dashed else ""
            return (
                f'<polyline points="{_points(shape.points)}" fill="none" stroke="{shape.colour}" '
                f'stroke-width="{_number(shape.width)}" stroke-linejoin="round"'
                f"{_opacity(shape.opacity)}{dashes}/>"
            )
        case Polygon():
            return f'<polygon points="{_points(shape.points)}" fill="{shape.fill}"/>'
        case Box():
            stroke = f' stroke="{shape.stroke}"' if shape.stroke else ""
            return (
                f'<rect {_frame(shape)} rx="{_number(shape.radius)}" fill="{shape.fill}"'
                f"{stroke}{_opacity(shape.opacity)}/>"
            )
        case Circle():
            return (
                f'<circle cx="{_number(shape.x)}" cy="{_number(shape.y)}" '
                f'r="{_number(shape.radius)}" fill="{shape.fill}" stroke="{shape.stroke}"/>'
            )
        case Text():
            return _text(shape)
        case Image():
            data = base64.b64encode(png_bytes(shape.pixels)).decode()
            return (
                f'<image {_frame(shape)} preserveAspectRatio="none" '
                f'style="image-rendering: pixelated" href="data:image/png;base64,{data}"/>'
            )


def _text(shape: Text) -> str:
    x, y = _number(shape.x), _number(shape.y)
    turned = f' transform="rotate({_number(-shape.angle)} {x} {y})"' if shape.angle else ""
    bold = ' font-weight="600"' if shape.bold else ""
    return (
        f'<text x="{x}" y="{y}" dy="0.35em" font-size="{_number(shape.size)}" '
        f'fill="{shape.colour}" text-anchor="{shape.anchor}"{bold}{turned} '
        f'xml:space="preserve">{escape(_printable(shape.text))}</text>'
    )


def _frame(shape: Box | Image) -> str:
    return (
        f'x="{_number(shape.x)}" y="{_number(shape.y)}" '
        f'width="{_number(shape.width)}" height="{_number(shape.height)}"'
    )


def _points(points: Iterable[Point]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)


def _opacity(value: float) -> str:
    return "" if value == 1 else f' opacity="{_number(value)}"'


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _printable(text: str) -> str:
    """XML has no place for control characters and lone surrogates, not even escaped."""
    return FORBIDDEN.sub("\ufffd", text)


def png_bytes(pixels: Pixels) -> bytes:
    """The pixels as a PNG file, which is little more than a zlib stream."""
    height, width, _ = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # eight bits a channel, RGB
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)  # 0: the row is stored unfiltered
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
