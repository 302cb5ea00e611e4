"""Sentences of like lengths side by side, so that little is padding."""

from collections.abc import Sequence

_SHORT = 16


def by_length(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Places in `lengths`, the longest first, in batches of at most `budget` padded tokens.

    What is longer than the budget stands alone. Short sentences count as _SHORT tokens, since each
    costs the logits of its beams, however short it is.
    """
    batches: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if batches and (len(batches[-1]) + 1) * max(lengths[batches[-1][0]], _SHORT) <= budget:
            batches[-1].append(place)
        else:
            batches.append([place])
    return batches
