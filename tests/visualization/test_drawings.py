"""Drawings of attention and of figures, as SVG and as PNG."""

import io
import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter

import numpy as np
import pytest
from small_attention import small_attention

from allyouneed.config import ModelConfig
from allyouneed.errors import ConfigError, MissingExtraError
from allyouneed.visualization.attention_drawing import draw_attention, lines_drawing
from allyouneed.visualization.drawing import HEAD_COLOURS, Drawing, Image, Line, Text
from allyouneed.visualization.figures import architecture_figure, multi_head_figure
from allyouneed.visualization.pictures import picture
from allyouneed.visualization.plots import positions_plot, rate_plot
from allyouneed.visualization.selection import VIEWS, Selection
from allyouneed.visualization.svg import svg

CONFIG = ModelConfig(
    vocab_size=6000, n_layers=3, n_decoder_layers=2, d_model=256, d_ff=1024, n_heads=4, d_k=32,
    d_v=48,
)  # fmt: skip


def texts(drawing: Drawing) -> str:
    return "\n".join(shape.text for shape in drawing.shapes if isinstance(shape, Text))


def all_drawings() -> dict[str, Drawing]:
    attention = small_attention(heads=10)
    return {
        **{view: draw_attention(attention, Selection(view=view)) for view in VIEWS},
        "architecture": architecture_figure(CONFIG, "model"),
        "multi-head": multi_head_figure(CONFIG, "model"),
        "positions": positions_plot(np.sin(np.arange(60.0)).reshape(6, 10), "model"),
        "rate": rate_plot([1e-3, 2e-3, 1e-3], "run"),
    }


@pytest.mark.parametrize("name", all_drawings())
def test_every_drawing_is_xml_and_keeps_inside_its_frame(name: str) -> None:
    drawing = all_drawings()[name]
    root = ET.fromstring(svg(drawing))

    assert root.get("aria-label") == drawing.title
    for shape in drawing.shapes:
        places = shape.points if hasattr(shape, "points") else [(shape.x, shape.y)]
        assert all(0 <= x <= drawing.width and 0 <= y <= drawing.height for x, y in places)


@pytest.mark.parametrize("name", all_drawings())
def test_png_shows_the_same_picture_at_twice_the_size(name: str) -> None:
    from matplotlib.image import imread

    drawing = all_drawings()[name]
    content = picture(drawing, "png")

    assert isinstance(content, bytes)
    pixels = imread(io.BytesIO(content))
    assert pixels.shape[:2] == pytest.approx((2 * drawing.height, 2 * drawing.width), abs=2)
    assert pixels[..., :3].std() > 0.01  # something is drawn


def test_the_opacity_of_a_line_is_the_weight_and_its_colour_the_head() -> None:
    map_ = small_attention().map("encoder-decoder")
    drawing = lines_drawing(map_, "title", layer=1, heads=[0, 2])

    drawn = [shape for shape in drawing.shapes if isinstance(shape, Line)]
    for head in (0, 2):
        weights = map_.weights[1, head]
        expected = Counter(round(float(it), 5) for it in weights[weights > 0.01])
        of_head = [line for line in drawn if line.colour == HEAD_COLOURS[head]]
        assert Counter(round(line.opacity, 5) for line in of_head) == expected
    assert {line.colour for line in drawn} == {HEAD_COLOURS[0], HEAD_COLOURS[2]}


def test_heads_beyond_the_colours_are_dashed() -> None:
    map_ = small_attention(heads=10).map("encoder")
    drawing = lines_drawing(map_, "title", layer=0, heads=[1, 9])

    drawn = [shape for shape in drawing.shapes if isinstance(shape, Line)]
    assert {line.dashed for line in drawn} == {False, True}
    assert {line.colour for line in drawn} == {HEAD_COLOURS[1]}


def test_a_grid_has_a_picture_of_every_head() -> None:
    drawing = draw_attention(small_attention(), Selection(view="grid"))

    assert sum(isinstance(shape, Image) for shape in drawing.shapes) == 2 * 3


def test_a_ranking_of_all_kinds_names_them_and_one_of_a_kind_no_others() -> None:
    everything = texts(draw_attention(small_attention(), Selection(view="ranking")))
    of_decoder = texts(draw_attention(small_attention(), Selection(view="ranking", kind="decoder")))

    assert "encoder-decoder, layer" in everything
    assert set(re.findall(r"^(.*), layer", of_decoder, re.MULTILINE)) == {"decoder"}


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (Selection(layer=2), "no layer 3; encoder-decoder attention has 2"),
        (Selection(layer=2, kind="decoder"), "no layer 3; decoder attention has 2"),
        (Selection(layer=3, kind="encoder"), "no layer 4; encoder attention has 3"),
        (Selection(heads=(0, 3)), "no head 4; encoder-decoder attention has 3"),
    ],
)
def test_layers_and_heads_that_are_not_there_are_refused(
    selection: Selection, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        draw_attention(small_attention(), selection)


def test_each_kind_has_its_own_layers() -> None:
    of_encoder, of_decoder = (
        texts(draw_attention(small_attention(), Selection(view="grid", kind=kind)))
        for kind in ("encoder", "decoder")
    )

    assert "layer 3" in of_encoder
    assert "layer 2" in of_decoder
    assert "layer 3" not in of_decoder
    assert "layer 3" in "".join(texts(draw_attention(small_attention(), Selection(kind="encoder"))))


def test_no_text_becomes_markup() -> None:
    odd = small_attention(("▁<script>", "▁&amp;"), ("▁$x$",))
    drawing = draw_attention(odd, Selection())
    drawing.add(Text(1, 1, "\x1b\ud800"))
    content = svg(drawing)

    found = [text.text for text in ET.fromstring(content).iter("{http://www.w3.org/2000/svg}text")]
    assert {"<script>", "&amp;", "$x$"} <= set(found)
    assert "<script>" not in content


def test_figures_show_the_sizes_of_the_model() -> None:
    shown = texts(architecture_figure(CONFIG, "mine: 7 parameters"))
    sizes = ("3 ×", "2 ×", "4 heads, d_k 32, d_v 48", "256 → 1,024 → 256", "256 → 6,000")
    for words in ("mine: 7 parameters", *sizes, "6,000 × 256, shared", "sinusoidal"):
        assert words in shown
    learned = ModelConfig(positions="learned", max_positions=77)
    assert "learned, 77" in texts(architecture_figure(learned, ""))

    shown = texts(multi_head_figure(CONFIG, ""))
    for words in ("1 / √32 = 0.1768", "4 heads", "4 × 48 = 192", "192 → 256", "256 → 32"):
        assert words in shown


def test_the_peak_of_the_rate_is_named() -> None:
    rates = [step / 1000 if step <= 700 else 0.7 * (700 / step) for step in range(1, 9001)]

    assert "0.7 at step 700" in texts(rate_plot(rates, "run"))


def test_png_without_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    with pytest.raises(MissingExtraError, match="pip install matplotlib"):
        picture(all_drawings()["rate"], "png")
