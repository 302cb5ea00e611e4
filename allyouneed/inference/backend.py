"""What computes for a translator: a fast engine where it can, the plain model everywhere else."""

import contextlib
import functools
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from allyouneed.inference.batches import by_length
from allyouneed.inference.engine import Ids
from allyouneed.inference.fast_engine import FastEngine
from allyouneed.inference.fast_reading import fast_details
from allyouneed.inference.fast_search import fast_search
from allyouneed.inference.limits import Limits
from allyouneed.inference.parts import Part
from allyouneed.inference.strategies import BeamSearch, Greedy, Strategy
from allyouneed.inference.translations import Details
from allyouneed.shortlist import Shortlist
from allyouneed.visualization.attention import Weights

if TYPE_CHECKING:  # torch takes a second to load, and the native engine does without
    from allyouneed.inference.gpu.engine import GpuEngine
    from allyouneed.model.transformer import Transformer

T = TypeVar("T")


class Backend:
    """A model, or the folder to load it from when it is needed, and an engine if there is one.

    `batch_tokens` is how much is computed at once.
    """

    def __init__(
        self,
        model: "Transformer | Path",
        engine: "FastEngine | GpuEngine | None",
        shortlist: Shortlist | None,
        batch_tokens: int | None,
    ) -> None:
        if isinstance(model, Path):
            self._folder = model
        else:
            self.model = model
        self.engine = engine
        self._shortlist = shortlist  # of the plain model: an engine has its own
        on_cpu = isinstance(model, Path) or model.device.type == "cpu"
        self.batch_tokens = batch_tokens or (2_000 if on_cpu else 16_000)

    @functools.cached_property
    def model(self) -> "Transformer":
        """The plain model, on the CPU."""
        from allyouneed.checkpoint import load_model

        return load_model(self._folder).model

    @contextlib.contextmanager
    def evaluating(self) -> Iterator["Transformer"]:
        """The plain model, without dropout for a while."""
        training = self.model.training
        self.model.eval()
        try:
            yield self.model
        finally:
            self.model.train(training)

    def search(
        self,
        parts: Sequence[Part],
        strategy: Strategy,
        limits: Limits,
        n_best: int,
        done: Callable[[Part], None] = lambda part: None,
    ) -> None:
        """Give every part its hypotheses; `done` hears of each that has them."""
        if (
            self.engine is not None
            and isinstance(strategy, BeamSearch | Greedy)
            and len(strategy.first_slots(n_best)) <= self.engine.widest_beam
        ):
            found = self._fast_search(self.engine, parts, strategy, limits, n_best)
        else:
            found = self._plain_search(parts, strategy, limits, n_best)
        with contextlib.closing(found):  # the engine is free again even if `done` raises
            for part in found:
                done(part)

    def _fast_search(
        self,
        engine: "FastEngine | GpuEngine",
        parts: Sequence[Part],
        strategy: BeamSearch | Greedy,
        limits: Limits,
        n_best: int,
    ) -> Generator[Part]:
        sources, prefixes = [part.ids for part in parts], [part.prefix for part in parts]
        found = fast_search(engine, sources, strategy, limits, n_best, prefixes, self.batch_tokens)
        with contextlib.closing(found):
            for place, hypotheses in found:
                parts[place].hypotheses = hypotheses
                yield parts[place]

    def _plain_search(
        self, parts: Sequence[Part], strategy: Strategy, limits: Limits, n_best: int
    ) -> Generator[Part]:
        from allyouneed.inference.plain_search import search

        with self.evaluating() as model:
            for places in by_length([len(part.ids) + 1 for part in parts], self.batch_tokens):
                batch = [parts[place] for place in places]
                sources, prefixes = [part.ids for part in batch], [part.prefix for part in batch]
                found = search(model, sources, strategy, limits, n_best, prefixes, self._shortlist)
                for part, hypotheses in zip(batch, found, strict=True):
                    part.hypotheses = hypotheses
                    yield part

    def why_no_numbers(self) -> str:
        """Where NaN may come from, and what to do."""
        if self.engine is not None and self.engine.narrow_range:
            return "they may be too large for float16; use --engine bfloat16 or float32"
        return "its weights are broken; take an earlier checkpoint, or copy them anew"

    def details(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Details]:
        """Of each pair: how probable each token was, and what it attended to."""
        if isinstance(self.engine, FastEngine):
            return fast_details(self.engine, sources, targets)
        from allyouneed.inference.teacher_forcing import details

        return self._over_pairs(details, sources, targets)

    def alignment_weights(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Weights]:
        """Of each pair: what each token attended to."""
        if isinstance(self.engine, FastEngine):
            return [it.attention for it in fast_details(self.engine, sources, targets)]
        from allyouneed.inference.teacher_forcing import alignment_weights

        return self._over_pairs(alignment_weights, sources, targets)

    def token_log_probs(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """Of each pair: how probable each token was, by the plain model."""
        from allyouneed.inference.teacher_forcing import token_log_probs

        return self._over_pairs(token_log_probs, sources, targets)

    def _over_pairs(
        self,
        compute: Callable[["Transformer", Sequence[Ids], Sequence[Ids]], list[T]],
        sources: Sequence[Ids],
        targets: Sequence[Ids],
    ) -> list[T]:
        """What `compute` makes of each pair, in batches of like lengths."""
        lengths = [1 + max(map(len, pair)) for pair in zip(sources, targets, strict=True)]
        found: dict[int, T] = {}
        with self.evaluating() as model:
            for places in by_length(lengths, self.batch_tokens):
                batch = [sources[place] for place in places], [targets[place] for place in places]
                found |= zip(places, compute(model, *batch), strict=True)
        return [found[place] for place in range(len(lengths))]
