"""The page as a file; `test_page_in_browser` looks at it."""

import base64
import json
import re
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from small_attention import TARGET, small_attention

from allyouneed.visualization.attention import KINDS
from allyouneed.visualization.drawing import HEAD_COLOURS
from allyouneed.visualization.page import DARK_HEAD_COLOURS, page
from allyouneed.visualization.selection import Selection


def data_of(html: str) -> dict[str, Any]:
    [content] = re.findall(r'<script id="data" type="application/json">(.*?)</script>', html)
    return json.loads(content)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", ["subwords", "words"])
def test_the_page_holds_every_weight(kind: str, unit: str) -> None:
    attention = small_attention()
    packed = data_of(page(attention))[unit][kind]

    expected = attention.map(kind, whole_words=unit == "words")
    found = np.frombuffer(base64.b64decode(packed["weights"]), "<u2").reshape(packed["shape"])
    assert_allclose(found / 65535, expected.weights, atol=1e-5)
    assert packed["queries"] == list(expected.queries)
    assert packed["keys"] == list(expected.keys)


def test_the_page_needs_nothing_from_outside() -> None:
    html = page(small_attention())

    assert "default-src 'none'" in html
    without_namespace = html.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//[a-z]+\.|\bsrc=|<link|@import|\bfetch\(", without_namespace)


@pytest.mark.parametrize(
    "text", ["</script><script>alert(1)</script>", "<!--", "/* SCRIPT */", "/* DATA */", "\u2028"]
)
def test_no_text_leaves_its_place(text: str) -> None:
    html = page(small_attention((f"▁{text}",), TARGET))

    assert html.count("<script") == page(small_attention()).count("<script")
    assert data_of(html)["source"] == text
    assert data_of(html)["subwords"]["encoder"]["keys"][0] == text


def test_the_page_starts_as_selected() -> None:
    selection = Selection(
        view="heatmap", kind="decoder", layer=1, heads=(0, 2), words=True, by="far"
    )
    start = data_of(page(small_attention(), selection))["start"]

    assert start == {
        "view": "heatmap", "kind": "decoder", "layer": 1, "heads": [0, 2], "unit": "words",
        "by": "far",
    }  # fmt: skip


def test_without_divided_words_there_is_nothing_to_choose() -> None:
    data = data_of(page(small_attention(("▁one",), ("▁eins",)), Selection(words=True)))

    assert data["words"] is None
    assert data["start"]["unit"] == "subwords"


def test_both_themes_have_a_colour_for_each_head() -> None:
    assert (
        len(HEAD_COLOURS) == len(DARK_HEAD_COLOURS) == len({*HEAD_COLOURS, *DARK_HEAD_COLOURS}) / 2
    )
