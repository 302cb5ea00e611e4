"""The memory of a search on the device.

Shapes: S slots, K beams a slot, T tokens of a target, N of a source, L layers, H heads of d_k
(values: d_v).
"""

from typing import Any, NamedTuple

import torch

from allyouneed.config import ModelConfig
from allyouneed.inference.beams import NONE

_LENGTHS = 64  # rooms are so many tokens long, or twice, …: few sizes to record graphs for
_SHORTEST_TARGET = 128


class RoomSize(NamedTuple):
    """How much a room holds."""

    n_slots: int
    n_beams: int
    source: int  # tokens
    target: int

    @classmethod
    def at_least(cls, n_slots: int, n_beams: int, source: int, target: int) -> "RoomSize":
        """Rounded up, so that most searches fit into the room of another."""
        n_slots = 1 << (n_slots - 1).bit_length()
        target = max(_SHORTEST_TARGET, _rounded(target))
        return cls(n_slots, n_beams, _rounded(source), target)

    def holds(self, other: "RoomSize") -> bool:
        return self.n_beams == other.n_beams and self == self.joined(other)

    def joined(self, other: "RoomSize") -> "RoomSize":
        """Large enough for both."""
        return RoomSize(*map(max, zip(self, other, strict=True)))

    def bytes(self, config: ModelConfig, dtype: torch.dtype) -> int:
        """What keys, values and logits take; all else is small."""
        width = config.decoder_layers * config.n_heads * (config.d_k + config.d_v)
        numbers = self.source * width + self.n_beams * (self.target * width + config.vocab_size)
        return self.n_slots * numbers * dtype.itemsize


class Room:
    """Slots, and one more, in which rows that nobody asked for do no harm."""

    def __init__(
        self, size: RoomSize, config: ModelConfig, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.size, self.spare = size, size.n_slots
        n, beams, target = size.n_slots + 1, size.n_beams, size.target
        heads, layers = config.n_heads, config.decoder_layers
        cache: dict[str, Any] = {"dtype": dtype, "device": device}
        whole: dict[str, Any] = {"dtype": torch.int32, "device": device}
        self.memory = torch.zeros(
            n, size.source, layers * heads * (config.d_k + config.d_v), **cache
        )  # keys and values of all layers side by side
        self.n_source = torch.ones(n, **whole)
        self.keys = torch.empty(layers, n, beams, target, heads * config.d_k, **cache)
        self.values = torch.empty(layers, n, beams, target, heads * config.d_v, **cache)
        # The beam in which a hypothesis' token at a position was taken in, before its last one.
        self.origins = torch.zeros(n, beams, target, **whole)
        self.position = torch.zeros(n, **whole)  # of the last tokens
        self.last = torch.zeros(n, beams, **whole)  # tokens
        self.log_prob = torch.full((n, beams), -torch.inf, device=device)  # -∞: ended or empty
        self.n_ended = torch.zeros(n, **whole)
        self.forced = torch.full((n, target), NONE, **whole)
        self.min_length = torch.zeros(1, **whole)
        self.slots = torch.full((size.n_slots,), self.spare, **whole)  # that advance


def _rounded(n_tokens: int) -> int:
    return -(-n_tokens // _LENGTHS) * _LENGTHS
