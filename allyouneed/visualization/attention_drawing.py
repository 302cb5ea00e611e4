"""Attention as drawings for papers: lines as in figures 3 to 5, heat maps, and sheets of heads."""

from collections.abc import Mapping, Sequence

from allyouneed.visualization.attention import Attention, AttentionMap
from allyouneed.visualization.drawing import (
    HEAD_COLOURS,
    INK,
    MUTED,
    PALE,
    Box,
    Drawing,
    Image,
    Line,
    Text,
    shorten,
    text_width,
    tint,
)
from allyouneed.visualization.heads import SCORES, Head
from allyouneed.visualization.selection import Selection

MARGIN, HEADING, ROW = 16, 44, 21
N_RANKED = 8  # heads that a ranking shows
FAINTEST = 0.01  # of a line; a paler one cannot be seen


def draw_attention(attention: Attention, selection: Selection) -> Drawing:
    """What was selected, as a drawing."""
    selection = selection.completed(attention)
    map_, title = selection.map(attention), selection.title
    layer, heads = selection.layer or 0, selection.heads or ()
    match selection.view:
        case "grid":
            return grid_drawing(map_, title)
        case "ranking":
            ranked = selection.ranked_heads(attention)[:N_RANKED]
            return ranking_drawing(selection.ranked_maps(attention), ranked, selection.by, title)
        case "heatmap":
            return heat_drawing(map_, title, layer, heads)
        case _:
            return lines_drawing(map_, title, layer, heads)


def head_colour(head: int) -> str:
    return HEAD_COLOURS[head % len(HEAD_COLOURS)]


def lines_drawing(map_: AttentionMap, title: str, layer: int, heads: Sequence[int]) -> Drawing:
    """Queries on the left, keys on the right; the opacity of a line is its weight."""
    left = MARGIN + _widest(map_.queries) + 8
    right = left + 220
    legend = MARGIN + 38 + 38 * len(heads)
    titled = text_width(title, 14) + 2 * MARGIN
    width = max(right + 8 + _widest(map_.keys) + MARGIN, legend, titled)
    n_rows = max(len(map_.queries), len(map_.keys))
    drawing = Drawing(width, HEADING + 20 + n_rows * ROW + MARGIN, title)
    _add_title(drawing, title)
    _add_legend(drawing, heads)
    top = HEADING + 20

    def middle(row: int) -> float:
        return top + (row + 0.5) * ROW

    spread = min(2.2, 0.5 * ROW / len(heads))  # so that the lines of two heads lie side by side
    for number, head in enumerate(heads):
        weights = map_.weights[layer, head]
        shift = (number - (len(heads) - 1) / 2) * spread
        for query, key in zip(*(weights > FAINTEST).nonzero(), strict=True):
            ends = [(left, middle(query) + shift), (right, middle(key) + shift)]
            opacity = min(1.0, float(weights[query, key]))
            dashed = head >= len(HEAD_COLOURS)  # the colours begin again
            drawing.add(Line(ends, head_colour(head), 1.8, opacity, dashed))
    for row, token in enumerate(map_.queries):
        drawing.add(Text(left - 6, middle(row), shorten(token), anchor="end"))
    for row, token in enumerate(map_.keys):
        drawing.add(Text(right + 6, middle(row), shorten(token)))
    return drawing


def heat_drawing(map_: AttentionMap, title: str, layer: int, heads: Sequence[int]) -> Drawing:
    """A heat map a head: a row a query, a column a key."""
    cell, gap = 17.0, 22.0
    label, header = _widest(map_.queries, 12) + 8, _widest(map_.keys, 12) + 8
    panel = (label + cell * len(map_.keys), header + 18 + cell * len(map_.queries))
    n_columns = min(len(heads), 2)
    n_rows = -(-len(heads) // n_columns)
    width = max(2 * MARGIN + n_columns * (panel[0] + gap) - gap, text_width(title, 14) + 2 * MARGIN)
    drawing = Drawing(width, HEADING + n_rows * (panel[1] + gap), title)
    _add_title(drawing, title)
    for number, head in enumerate(heads):
        x = MARGIN + number % n_columns * (panel[0] + gap) + label
        y = HEADING + number // n_columns * (panel[1] + gap) + 18 + header
        colour = head_colour(head)
        drawing.add(Text(x, y - header - 10, f"head {head + 1}", 13, colour, bold=True))
        for column, token in enumerate(map_.keys):
            place = x + (column + 0.5) * cell
            drawing.add(Text(place, y - 6, shorten(token), 12, angle=90))
        for row, token in enumerate(map_.queries):
            drawing.add(Text(x - 6, y + (row + 0.5) * cell, shorten(token), 12, anchor="end"))
        _add_map(drawing, map_, layer, head, (x, y), cell)
    return drawing


def grid_drawing(map_: AttentionMap, title: str) -> Drawing:
    """Every head of one kind: a row a layer."""
    gap, left, top = 10.0, 70.0, HEADING + 22.0
    cell = _thumbnail_cell(map_)
    step_x, step_y = (cell * len(names) + gap for names in (map_.keys, map_.queries))
    width = max(left + map_.n_heads * step_x + MARGIN, text_width(title, 14) + 2 * MARGIN)
    drawing = Drawing(width, top + map_.n_layers * step_y + MARGIN, title)
    _add_title(drawing, title)
    for head in range(map_.n_heads):
        middle = left + head * step_x + (step_x - gap) / 2
        colour = head_colour(head)
        drawing.add(Text(middle, top - 14, f"head {head + 1}", 12, colour, "middle", bold=True))
    for layer in range(map_.n_layers):
        y = top + layer * step_y
        drawing.add(Text(MARGIN, y + (step_y - gap) / 2, f"layer {layer + 1}", 12, MUTED))
        for head in range(map_.n_heads):
            _add_map(drawing, map_, layer, head, (left + head * step_x, y), cell)
    return drawing


def ranking_drawing(
    maps: Mapping[str, AttentionMap], heads: Sequence[Head], by: str, title: str
) -> Drawing:
    """The heads in their order, a picture and the score each."""
    gap, n_columns = 20.0, min(4, len(heads))
    cells = {kind: _thumbnail_cell(map_) for kind, map_ in maps.items()}
    card_x = max(cells[kind] * len(map_.keys) for kind, map_ in maps.items())
    card_x = max(card_x, text_width("encoder-decoder, layer 9, head 9", 12)) + gap
    card_y = max(cells[kind] * len(map_.queries) for kind, map_ in maps.items()) + 56
    n_rows = -(-len(heads) // n_columns)
    caption = f"{by}: {SCORES[by]}"
    width = max(2 * MARGIN + n_columns * card_x - gap, text_width(caption, 12) + 2 * MARGIN)
    drawing = Drawing(width, HEADING + 16 + n_rows * card_y, title)
    _add_title(drawing, title)
    drawing.add(Text(MARGIN, HEADING - 2, caption, 12, MUTED))
    for place, head in enumerate(heads):
        x = MARGIN + place % n_columns * card_x
        y = HEADING + 16 + place // n_columns * card_y
        name = f"{head.kind}, layer {head.layer + 1}, head {head.head + 1}"
        drawing.add(Text(x, y + 8, name, 12, INK, bold=True))
        drawing.add(Text(x, y + 25, f"{by} {head.scores[by]:.2f}", 12, MUTED))
        map_ = maps[head.kind]
        _add_map(drawing, map_, head.layer, head.head, (x, y + 38), cells[head.kind])
    return drawing


def _add_title(drawing: Drawing, title: str) -> None:
    drawing.add(Text(MARGIN, MARGIN + 6, title, 14, bold=True))


def _add_legend(drawing: Drawing, heads: Sequence[int]) -> None:
    drawing.add(Text(MARGIN, HEADING + 2, "head", 12, MUTED))
    for number, head in enumerate(heads):
        x = MARGIN + 38 + 38 * number
        drawing.add(
            Box(x, HEADING - 4, 12, 12, head_colour(head), radius=3),
            Text(x + 16, HEADING + 2, str(head + 1), 12),
        )


def _add_map(
    drawing: Drawing,
    map_: AttentionMap,
    layer: int,
    head: int,
    corner: tuple[float, float],
    cell: float,
) -> None:
    size = cell * len(map_.keys), cell * len(map_.queries)
    pixels = tint(map_.weights[layer, head], head_colour(head))
    drawing.add(Image(*corner, *size, pixels), Box(*corner, *size, "none", PALE))


def _thumbnail_cell(map_: AttentionMap) -> float:
    return min(9.0, 150 / max(len(map_.queries), len(map_.keys)))


def _widest(tokens: Sequence[str], size: float = 13.0) -> float:
    return max(text_width(shorten(token), size) for token in tokens)
