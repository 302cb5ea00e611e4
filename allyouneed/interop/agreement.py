"""Whether an exported model still says what ours says."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from allyouneed.checkpoint import LoadedModel
from allyouneed.inference import BeamSearch, Limits, search
from allyouneed.inference.engine import Ids
from allyouneed.interop.formats import ExportedModel

_BATCH = 32


@dataclass(frozen=True)
class Agreement:
    """Which texts, by their places, were translated by both, and which of them differently."""

    compared: tuple[int, ...]
    different: tuple[int, ...]

    @property
    def n_same(self) -> int:
        return len(self.compared) - len(self.different)


def compare(
    model: LoadedModel, exported: ExportedModel, texts: Sequence[str], beam_size: int
) -> Agreement:
    """Translate with both, to tokens, without a length penalty; a beam of one is greedy search.

    Texts that are blank, or longer than the model takes at once, are left out.
    """
    longest = min(model.manifest.max_source_tokens, model.model.max_length or math.inf)
    encoded = enumerate(model.tokenizer.encode_batch(texts))
    sources = {place: ids for place, ids in encoded if 0 < len(ids) < longest}
    limits = Limits(model.manifest.decoding.max_extra_tokens, model.model.max_length)
    different: list[int] = []
    for places in _batches_of_one_length(sources):
        batch = [sources[place] for place in places]
        ours = search(model.model, batch, BeamSearch(beam_size, length_penalty=0.0), limits)
        theirs = exported.translate(batch, beam_size, limits.longest(len(batch[0])))
        different += [
            place
            for place, [best], ids in zip(places, ours, theirs, strict=True)
            if list(best.ids) != ids
        ]
    return Agreement(tuple(sources), tuple(sorted(different)))


def _batches_of_one_length(sources: Mapping[int, Ids]) -> Iterator[list[int]]:
    """Places of sources that may become equally long, as the other programs ask for."""

    def length(place: int) -> int:
        return len(sources[place])

    for _, group in itertools.groupby(sorted(sources, key=length), key=length):
        places = list(group)
        yield from (places[start : start + _BATCH] for start in range(0, len(places), _BATCH))
