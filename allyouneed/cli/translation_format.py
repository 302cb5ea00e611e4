"""What `allyouneed translate` prints of a translation."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # torch takes seconds to load, and `--help` does without
    from allyouneed.translator import Candidate, Translation


@dataclass(frozen=True)
class Format:
    """The text, and beside it in columns what else was asked for."""

    n_best: int = 1  # if more than one, the line's number comes first
    scores: bool = False
    alignments: bool = False  # of the best, as source-target pairs of token places
    as_json: bool = False

    def lines(self, number: int, translation: "Translation") -> Iterator[str]:
        """The lines that line `number` of the input becomes."""
        if self.as_json:
            yield json.dumps(_as_json(translation), ensure_ascii=False)
            return
        for rank, candidate in enumerate(translation.hypotheses):
            aligned = translation.alignment if rank == 0 else None
            yield "\t".join(self._columns(number, candidate, aligned))

    def _columns(
        self, number: int, candidate: "Candidate", alignment: list[tuple[int, int]] | None
    ) -> Iterator[str]:
        if self.n_best > 1:
            yield str(number)
        if self.scores:
            yield f"{candidate.score:.4f}"
        yield candidate.text
        if alignment is not None:
            yield " ".join(f"{source}-{target}" for source, target in alignment)


def _as_json(translation: "Translation") -> dict[str, object]:
    best = {"text": translation.text, "score": translation.score, "tokens": translation.tokens}
    return {**asdict(translation), **best}
