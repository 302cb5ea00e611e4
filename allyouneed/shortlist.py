"""Which target pieces a source may become, so that a step need not ask all of the vocabulary.

These are the pieces that are frequent in any text, and for each source piece those that it becomes
most often. No torch in here, which the fast engine does without.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray
from safetensors.numpy import load_file, save

from allyouneed.errors import CheckpointError
from allyouneed.text.tokenizer import END

Pieces = NDArray[np.int32]


class Shortlist:
    """Pieces by id; source and target share one vocabulary.

    `always` are those that any translation may hold, the end mark among them. Of the others each
    source piece has so many as `counts` (vocabulary) says; `pieces` are all of these, end to end.
    """

    def __init__(self, always: NDArray[Any], counts: NDArray[Any], pieces: NDArray[Any]) -> None:
        self.always: Pieces = always.astype(np.int32)
        self.counts: Pieces = counts.astype(np.int32)
        self.pieces: Pieces = pieces.astype(np.int32)
        self._stops = np.cumsum(counts, dtype=np.int64)
        self._is_always = np.zeros(len(counts), dtype=bool)
        self._is_always[self.always] = True

    @classmethod
    def load(cls, path: Path, vocab_size: int) -> "Shortlist":
        try:
            stored = load_file(path)
        except FileNotFoundError:
            raise CheckpointError(f"{path.parent}: it has no {path.name}; learn it anew") from None
        except (OSError, safetensors.SafetensorError) as error:
            raise CheckpointError(f"{path}: damaged: {error}; learn it anew") from None
        if not _is_for(vocab_size, stored):
            raise CheckpointError(
                f"{path}: not a shortlist for {vocab_size} pieces; learn it anew for this model"
            )
        always = stored["always"]
        if END not in always or len(np.unique(always)) < len(always):
            raise CheckpointError(
                f"{path}: the pieces of any translation lack the end mark or repeat one; learn it "
                "anew for this model"
            )
        return cls(**stored)

    def save(self, path: Path) -> None:
        dtype = np.uint16 if len(self.counts) <= 2**16 else np.uint32
        parts = {"always": self.always, "counts": self.counts, "pieces": self.pieces}
        path.write_bytes(save({name: part.astype(dtype) for name, part in parts.items()}))

    def choices(self, source: Sequence[int], prefix: Sequence[int]) -> Pieces:
        """What a translation of `source` that begins with `prefix` may hold besides `always`.

        The pieces of the source are among them, so that names and numbers can be copied.
        """
        is_chosen = np.zeros(len(self.counts), dtype=bool)
        is_chosen[[*source, *prefix]] = True
        for id_ in set(source):
            stop = self._stops[id_]
            is_chosen[self.pieces[stop - self.counts[id_] : stop]] = True
        return np.flatnonzero(is_chosen & ~self._is_always).astype(np.int32)


def _is_for(vocab_size: int, stored: dict[str, NDArray[Any]]) -> bool:
    """Whether the arrays of a file belong together; those who compute with ids rely on it."""
    if stored.keys() != {"always", "counts", "pieces"}:
        return False
    always, counts, pieces = (stored[name] for name in ("always", "counts", "pieces"))
    return (
        all(array.ndim == 1 and array.dtype in (np.uint16, np.uint32) for array in stored.values())
        and len(counts) == vocab_size
        and counts.sum(dtype=np.int64) == len(pieces)
        and max(always.max(initial=0), pieces.max(initial=0)) < vocab_size
    )
