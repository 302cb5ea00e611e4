"""One HTML file that holds all there is to see: no other file, no network, any browser."""

import base64
import json
from importlib import resources
from typing import Any

import numpy as np

from allyouneed.visualization.attention import KINDS, Attention, AttentionMap
from allyouneed.visualization.drawing import HEAD_COLOURS
from allyouneed.visualization.heads import SCORES, measure
from allyouneed.visualization.selection import USUAL_KIND, Selection

# `HEAD_COLOURS` for a dark ground.
DARK_HEAD_COLOURS = (
    "#5b9dff", "#ff8a4c", "#2cc295", "#e58fc0", "#f0b429", "#8fdcff", "#d3c65a", "#a8b1bb",
)  # fmt: skip


def page(attention: Attention, selection: Selection | None = None) -> str:
    """The explorer of one pair of sentences; `selection` is what it shows first."""
    return _assembled(page_data(attention, selection))


def page_data(attention: Attention, selection: Selection | None = None) -> dict[str, Any]:
    """All that the explorer draws, ready for JSON."""
    start = (selection or Selection()).completed(attention)
    subwords = {kind: attention.map(kind) for kind in KINDS}
    words = {kind: attention.map(kind, whole_words=True) for kind in KINDS}
    divided = any(len(subwords[kind].keys) > len(words[kind].keys) for kind in KINDS)
    return {
        "source": attention.source,
        "target": attention.target,
        "colours": {"light": HEAD_COLOURS, "dark": DARK_HEAD_COLOURS},
        "scores": SCORES,
        "start": {
            "view": start.view,
            "kind": start.kind or USUAL_KIND,
            "layer": start.layer,
            "heads": start.heads,
            "unit": "words" if start.words and divided else "subwords",
            "by": start.by,
        },
        "subwords": {kind: _packed(map_) for kind, map_ in subwords.items()},
        "words": {kind: _packed(map_) for kind, map_ in words.items()} if divided else None,
    }


def _packed(map_: AttentionMap) -> dict[str, Any]:
    # Sixteen bits a weight: finer than any screen shows, and half the size of a float.
    weights = np.rint(map_.weights * 65535).clip(0, 65535).astype("<u2")
    return {
        "queries": map_.queries,
        "keys": map_.keys,
        "shape": map_.weights.shape,
        "weights": base64.b64encode(weights.tobytes()).decode(),
        "scores": {name: score.round(4).tolist() for name, score in measure(map_).items()},
    }


def _assembled(data: dict[str, Any]) -> str:
    # `<` is the one character by which text could leave the script element it stands in.
    content = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    script = _file("page_views.js") + _file("page.js")
    # The data comes last, so that no text in it is taken for a place to fill.
    parts = (("STYLE", _file("page.css")), ("SCRIPT", script), ("DATA", content))
    html = _file("page.html")
    for name, part in parts:
        html = html.replace(f"/* {name} */", part)
    return html


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
