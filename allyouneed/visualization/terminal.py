"""Attention in plain characters, at most 80 columns wide."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size

from allyouneed.visualization.attention import Attention, AttentionMap
from allyouneed.visualization.heads import SCORES, Head
from allyouneed.visualization.selection import Selection

WIDTH = 80
# From this weight on, this shade.
SHADES = ((0.6, "█"), (0.35, "▓"), (0.15, "▒"), (0.05, "░"), (0.0, " "))
LEGEND = "░ from 5%   ▒ from 15%   ▓ from 35%   █ from 60%"
LABEL, STRONGEST, HEADER = 14, 18, 8  # columns, columns, lines
PICTURE = (24, 10)  # columns and lines of a small picture, at most

N_RANKED = 6  # heads that a ranking shows

Matrix = NDArray[np.floating]


def write_attention(attention: Attention, selection: Selection) -> str:
    """What was selected, as text; lines become the heat map that says the same."""
    selection = selection.completed(attention)
    map_, title = selection.map(attention), selection.title
    match selection.view:
        case "grid":
            return grid_text(map_, title)
        case "ranking":
            ranked = selection.ranked_heads(attention)[:N_RANKED]
            return ranking_text(selection.ranked_maps(attention), ranked, selection.by, title)
        case _:
            return heat_text(map_, title, selection.layer or 0, selection.heads or ())


def heat_text(map_: AttentionMap, title: str, layer: int, heads: Sequence[int]) -> str:
    """The mean of some heads: a row a query, a column a key, then the key with most weight."""
    weights = map_.weights[layer, list(heads)].mean(0)
    numbers = ", ".join(str(head + 1) for head in heads)
    title += f", head {numbers}" if len(heads) == 1 else f", mean of heads {numbers}"
    room = WIDTH - LABEL - STRONGEST - 4
    cell = 2 if 2 * len(map_.keys) <= room else 1
    per_block = room // cell
    blocks = (
        _block(map_, weights, range(start, min(start + per_block, len(map_.keys))), cell)
        for start in range(0, len(map_.keys), per_block)
    )
    return "\n\n".join((title, *("\n".join(block) for block in blocks), LEGEND))


def grid_text(map_: AttentionMap, title: str) -> str:
    """Every head of one kind as a small picture."""
    heads = [
        (f"layer {layer + 1}, head {head + 1}", map_.weights[layer, head])
        for layer, head in np.ndindex(map_.n_layers, map_.n_heads)
    ]
    return "\n\n".join((title, *_cards([((name,), weights) for name, weights in heads]), LEGEND))


def ranking_text(
    maps: Mapping[str, AttentionMap], heads: Sequence[Head], by: str, title: str
) -> str:
    """The heads in their order, with all scores and a small picture each."""
    cards = [
        (_described(head, by), maps[head.kind].weights[head.layer, head.head]) for head in heads
    ]
    return "\n\n".join((f"{title}\n{by}: {SCORES[by]}", *_cards(cards), LEGEND))


def _block(map_: AttentionMap, weights: Matrix, keys: range, cell: int) -> Iterator[str]:
    names = [map_.keys[key] for key in keys]
    height = min(HEADER, max(map(len, names)))
    for line in range(height):  # the keys are written downwards and end above their columns
        letters = (_letter(name, line, height) for name in names)
        yield f"{'':{LABEL}} │{''.join(set_cell_size(it, cell) for it in letters)}│".rstrip("│ ")
    for name, row in zip(map_.queries, weights, strict=True):
        best = int(row.argmax())
        shades = "".join(_shade(row[key]) * cell for key in keys)
        strongest = _fit(f"{map_.keys[best]} {row[best]:.0%}", STRONGEST)
        yield f"{_fit(name, LABEL, right=True)} │{shades}│ {strongest}".rstrip()


def _letter(name: str, line: int, height: int) -> str:
    if len(name) > height:
        name = name[: height - 1] + "…"
    place = line - (height - len(name))
    return name[place] if place >= 0 else " "


def _described(head: Head, by: str) -> tuple[str, ...]:
    others = [name for name in SCORES if name != by]
    scores = [f"{name} {head.scores[name]:.2f}" for name in (by, *others)]
    return (
        head.kind,
        f"layer {head.layer + 1}, head {head.head + 1}",
        *(" ".join(scores[start : start + 2]) for start in range(0, len(scores), 2)),
    )


def _cards(cards: Sequence[tuple[tuple[str, ...], Matrix]]) -> Iterator[str]:
    """Captions and pictures, three beside each other."""
    columns = PICTURE[0] + 2
    n_beside = WIDTH // columns
    for start in range(0, len(cards), n_beside):
        beside = [
            [*caption, *_picture(weights)] for caption, weights in cards[start : start + n_beside]
        ]
        height = max(map(len, beside))
        filled = [card + [""] * (height - len(card)) for card in beside]
        lines = zip(*filled, strict=True)
        yield "\n".join("".join(_fit(it, columns) for it in line).rstrip() for line in lines)


def _picture(weights: Matrix) -> list[str]:
    """The weights in few characters, each the greatest of those it stands for."""
    columns, lines = PICTURE[0] - 2, PICTURE[1]
    for axis, limit in ((0, lines), (1, columns)):
        size = weights.shape[axis]
        starts = np.unique(np.linspace(0, size, min(size, limit), endpoint=False).astype(int))
        weights = np.maximum.reduceat(weights, starts, axis=axis)
    cell = max(1, min(2, columns // weights.shape[1]))
    rows = ["│" + "".join(_shade(weight) * cell for weight in row) + "│" for row in weights]
    edge = "─" * cell * weights.shape[1]
    return [f"┌{edge}┐", *rows, f"└{edge}┘"]


def _shade(weight: float) -> str:
    return next(shade for least, shade in SHADES if weight >= least)


def _fit(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly so many columns of a terminal, in which some letters take two."""
    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…"
    padding = " " * (width - cell_len(text))
    return padding + text if right else text + padding
