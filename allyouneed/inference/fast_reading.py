"""What the native engine makes of given translations: the twin of `teacher_forcing`.

All tokens of a translation are rows of one step, and the translations of a source the beams of one
slot. Ids come without marks.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from allyouneed.inference.engine import ROW, Ids
from allyouneed.inference.fast_engine import FastEngine, chunks
from allyouneed.inference.translations import Details
from allyouneed.text.tokenizer import BEGIN, END
from allyouneed.visualization.attention import aligning_layer


def fast_details(
    engine: FastEngine, sources: Sequence[Ids], targets: Sequence[Ids]
) -> list[Details]:
    """How probable every token was, and what it attended to."""
    places_of: dict[Ids, list[int]] = {}
    for place, source in enumerate(sources):
        places_of.setdefault(tuple(source), []).append(place)
    groups = list(places_of.items())
    lengths = [sum(1 + len(targets[place]) for place in places) for _, places in groups]
    found: dict[int, Details] = {}
    with engine.lock:
        for chunk in chunks(lengths):
            found |= _read_together(engine, [groups[number] for number in chunk], targets)
    return [found[place] for place in range(len(sources))]


def _read_together(
    engine: FastEngine, groups: Sequence[tuple[Ids, list[int]]], targets: Sequence[Ids]
) -> dict[int, Details]:
    """Those of sources, each with the places of its targets, by these places."""
    n_beams = max(len(places) for _, places in groups)
    steps = {place: _steps(engine, targets[place]) for _, places in groups for place in places}
    longest_target = max(map(len, steps.values()))
    engine.reserve(
        len(groups), n_beams, 1 + max(len(source) for source, _ in groups), longest_target
    )
    engine.encode([source for source, _ in groups], range(len(groups)))
    rows = np.array(
        [
            (slot, beam, position, token, following, True)
            for slot, (_, places) in enumerate(groups)
            for beam, place in enumerate(places)
            for position, (token, following) in enumerate(steps[place])
        ],
        dtype=ROW,
    )
    own_beam = np.arange(n_beams, dtype=np.int32)[:, None]  # no hypothesis changes places
    origins = np.tile(own_beam, (len(groups), 1, longest_target))
    layer = aligning_layer(engine.config.decoder_layers)
    log_probs, attention = engine.read(rows, origins, layer)
    found, first = {}, 0
    for source, places in groups:
        for place in places:
            end = first + len(steps[place])
            found[place] = Details(
                tuple(log_probs[first:end].tolist()),
                attention[first:end, : len(source) + 1][: len(targets[place])],
            )
            first = end
    return found


def _steps(engine: FastEngine, target: Ids) -> list[tuple[int, int]]:
    """Each token and the one that follows it, as far as the model knows positions."""
    steps = list(itertools.pairwise((BEGIN, *target, END)))
    return steps[: engine.config.max_length]
