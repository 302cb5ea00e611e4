"""What of all the weights to show, and how; the same for every format."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from allyouneed.errors import ConfigError
from allyouneed.visualization.attention import (
    KINDS,
    Attention,
    AttentionMap,
    aligning_layer,
)
from allyouneed.visualization.heads import Head, rank_heads

VIEWS = ("lines", "heatmap", "grid", "ranking")
USUAL_KIND = "encoder-decoder"


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Layers and heads count from 0; None leaves the choice to `completed`."""

    view: str = "lines"
    kind: str | None = None
    layer: int | None = None
    heads: tuple[int, ...] | None = None
    words: bool = False
    by: str = "sharp"  # what a ranking goes by

    def completed(self, attention: Attention) -> "Selection":
        """With the usual layer and all heads where nothing is said, and refused if not there."""
        map_ = self.map(attention)
        layer = aligning_layer(map_.n_layers) if self.layer is None else self.layer
        heads = tuple(range(map_.n_heads)) if self.heads is None else self.heads
        kind = self.kind or USUAL_KIND
        _check(kind, "layer", [layer], map_.n_layers)
        _check(kind, "head", heads, map_.n_heads)
        return replace(self, layer=layer, heads=heads)

    def map(self, attention: Attention) -> AttentionMap:
        return attention.map(self.kind or USUAL_KIND, whole_words=self.words)

    def ranked_maps(self, attention: Attention) -> dict[str, AttentionMap]:
        """What a ranking compares: one kind, or all."""
        kinds = (self.kind,) if self.kind else KINDS
        return {kind: attention.map(kind, whole_words=self.words) for kind in kinds}

    def ranked_heads(self, attention: Attention) -> list[Head]:
        return rank_heads(self.ranked_maps(attention), self.by)

    @property
    def title(self) -> str:
        if self.view == "ranking":
            return f"Heads by {self.by}, {self.kind or 'all kinds of'} attention"
        name = (self.kind or USUAL_KIND).capitalize()
        if self.view == "grid" or self.layer is None:
            return f"{name} attention, all heads"
        return f"{name} attention, layer {self.layer + 1}"


def _check(kind: str, name: str, places: Sequence[int], number: int) -> None:
    for place in places:
        if not 0 <= place < number:
            raise ConfigError(
                f"there is no {name} {place + 1}; {kind} attention has {number}, counted from 1"
            )
