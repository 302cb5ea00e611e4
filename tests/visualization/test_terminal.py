"""Attention in plain characters."""

import numpy as np
import pytest
from rich.cells import cell_len
from small_attention import small_attention

from allyouneed.visualization.attention import AttentionMap
from allyouneed.visualization.selection import VIEWS, Selection
from allyouneed.visualization.terminal import heat_text, write_attention


def test_a_row_shows_its_shades_and_its_strongest_key() -> None:
    weights = np.array([[[[0.7, 0.2, 0.06, 0.04], [0.0, 0.0, 0.4, 0.6]]]], dtype=np.float32)
    map_ = AttentionMap(("ich", "bin"), ("I", "am", "not", "."), weights, causal=False)

    rows = heat_text(map_, "title", 0, [0]).split("\n")

    assert "           ich │██▒▒░░  │ I 70%" in rows
    assert "           bin │    ▓▓██│ . 60%" in rows
    assert [row[16:].rstrip() for row in rows[2:5]] == ["    n", "  a o", "I m t ."]


def test_several_heads_are_shown_by_their_mean() -> None:
    weights = np.array([[[[1.0, 0.0]], [[0.0, 1.0]]]], dtype=np.float32)
    map_ = AttentionMap(("a",), ("b", "c"), weights, causal=False)

    assert "mean of heads 1, 2" in heat_text(map_, "title", 0, [0, 1])
    assert "│▓▓▓▓│ b 50%" in heat_text(map_, "title", 0, [0, 1])
    assert "title, head 2" in heat_text(map_, "title", 0, [1])


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("n_words", [1, 20, 40, 130])
def test_no_line_is_wider_than_a_terminal(view: str, n_words: int) -> None:
    words = tuple(f"▁{word}" for word in ["a", "你好吗", "incomprehensibilities"] * n_words)
    attention = small_attention(words[:n_words], words[: n_words + 3])

    shown = write_attention(attention, Selection(view=view))

    assert max(map(cell_len, shown.split("\n"))) <= 80


def test_every_key_has_its_column_however_many_blocks_that_takes() -> None:
    attention = small_attention(tuple(f"▁{place}" for place in range(100)), ("▁x",))
    map_ = attention.map("encoder-decoder")

    rows = [row for row in heat_text(map_, "", 0, [0]).split("\n") if row.lstrip().startswith("x ")]

    assert sum(len(row.split("│")[1]) for row in rows) == 101


def test_a_ranking_shows_scores_and_pictures() -> None:
    shown = write_attention(small_attention(), Selection(view="ranking", by="diagonal"))

    assert "correlation" in shown
    assert shown.count("┌") == shown.count("diagonal 0.") + shown.count("diagonal -0.") == 6
