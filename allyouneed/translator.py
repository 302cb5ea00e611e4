"""Text to translations: the facade over tokenizer, model and search.

>>> translator = Translator.load()
>>> translator.translate(["A man rides a bicycle."])[0].text
'Ein Mann fährt mit dem Fahrrad.'
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from allyouneed.device import is_cpu, pick_device
from allyouneed.errors import CheckpointError, ConfigError, DataError
from allyouneed.inference.backend import Backend
from allyouneed.inference.engines import gpu_engine, load_engine, wanted_shortlist
from allyouneed.inference.hypotheses import penalty
from allyouneed.inference.limits import Limits
from allyouneed.inference.parts import Part, joined
from allyouneed.inference.strategies import BeamSearch, Strategy
from allyouneed.inference.translations import (
    Candidate,
    Details,
    Score,
    Translation,
    alignment_of,
)
from allyouneed.manifest import TOKENIZER, Manifest, load_manifest
from allyouneed.models import find_model
from allyouneed.shortlist import Shortlist
from allyouneed.text.capitals import are_capitals, lowered
from allyouneed.text.normalize import normalize
from allyouneed.text.sentences import Document, split_to_fit
from allyouneed.text.tokenizer import END, Tokenizer
from allyouneed.visualization.attention import Attention

if TYPE_CHECKING:  # torch takes a second to load, and the native engine does without
    from allyouneed.inference.fast_engine import FastEngine
    from allyouneed.inference.gpu.engine import GpuEngine
    from allyouneed.model.transformer import Transformer

__all__ = [
    "Candidate",
    "Details",
    "Score",
    "Translation",
    "Translator",
]

_WIDEST_BEAM = 64  # in which the n best are looked for


class Translator:
    """A model that takes and gives text; `batch_tokens` is how much it takes at once.

    With an engine, that one searches, and `model` may be the folder to load the plain model from
    when something else is asked for.
    """

    def __init__(
        self,
        model: "Transformer | Path",
        tokenizer: Tokenizer,
        manifest: Manifest,
        batch_tokens: int | None = None,
        engine: "FastEngine | GpuEngine | None" = None,
        shortlist: Shortlist | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.manifest = manifest
        self._backend = Backend(model, engine, shortlist, batch_tokens)

    @classmethod
    def load(
        cls,
        model: str | Path | None = None,
        device: str = "auto",
        *,
        engine: str = "auto",
        threads: int | None = None,
        shortlist: bool | None = None,
    ) -> "Translator":
        """`model` is a folder or the name of a shipped model; None takes the first of those.

        `engine` is one of `inference.engines.ENGINES`; `threads` are those of the native engine,
        by default as many as there are cores, up to 16. `shortlist`: whether a translation is
        chosen from the likely pieces only, by default as the model says.
        """
        folder = find_model(model)
        manifest = load_manifest(folder)
        pieces = wanted_shortlist(folder, manifest, shortlist)
        if is_cpu(device):
            tokenizer = Tokenizer.load(folder / TOKENIZER)
            native = load_engine(folder, manifest, len(tokenizer), engine, threads, pieces)
            if native is not None:
                return cls(folder, tokenizer, manifest, engine=native, shortlist=pieces)
        from allyouneed.checkpoint import load_model

        loaded = load_model(folder, pick_device(device))
        on_cpu = loaded.model.device.type == "cpu"
        fast = None if on_cpu else gpu_engine(loaded.model, engine)
        if fast is None:
            return cls(*loaded, shortlist=pieces)
        if shortlist:
            raise ConfigError("shortlists are for CPUs: leave it out, or use --device cpu")
        return cls(*loaded, engine=fast)

    @property
    def model(self) -> "Transformer":
        """The plain model."""
        return self._backend.model

    @property
    def engine(self) -> "FastEngine | GpuEngine | None":
        return self._backend.engine

    @property
    def batch_tokens(self) -> int:
        """How much is computed at once."""
        return self._backend.batch_tokens

    @property
    def source_language(self) -> str:
        return self.manifest.source_language

    @property
    def target_language(self) -> str:
        return self.manifest.target_language

    def translate(
        self,
        texts: Sequence[str],
        *,
        strategy: Strategy | None = None,
        limits: Limits | None = None,
        n_best: int = 1,
        prefixes: Sequence[str] | None = None,
        alignments: bool = False,
        progress: Callable[[int], None] = lambda n_texts: None,
    ) -> list[Translation]:
        """Translate sentences, in their order.

        Strategy and limits are the model's own unless given. `prefixes` are what each translation
        must begin with. `progress` hears how many more texts are done. Too long a text is
        translated in parts; a blank one stays blank.
        """
        if isinstance(texts, str):
            raise TypeError("translate takes a list of texts; put the text into one: [text]")
        decoding = self.manifest.decoding
        strategy = strategy or BeamSearch(decoding.beam_size, decoding.length_penalty)
        limits = limits or Limits(decoding.max_extra_tokens)
        n_found = n_best
        if n_best > 1 and isinstance(strategy, BeamSearch):
            # Some of the beam may be one text in different pieces: see whether there are others.
            n_found = max(n_best, strategy.size)
        read = [self._as_read(text) for text in texts]
        capitals = [text != as_read for text, as_read in zip(texts, read, strict=True)]
        prefix_ids = self.tokenizer.encode_batch(
            [
                lowered(prefix) if are and prefix.isupper() else prefix
                for prefix, are in zip(prefixes or [""] * len(texts), capitals, strict=True)
            ]
        )
        divided = [
            self._divide(number, *text)
            for number, text in enumerate(
                zip(read, self.tokenizer.encode_batch(read), prefix_ids, capitals, strict=True)
            )
        ]
        parts_to_do = [len(parts) for parts in divided]
        progress(parts_to_do.count(0))

        def done(part: Part) -> None:
            parts_to_do[part.text] -= 1
            if parts_to_do[part.text] == 0:
                progress(1)

        parts = list(itertools.chain.from_iterable(divided))
        self._backend.search(parts, strategy, limits, n_found, done)
        if not all(part.hypotheses for part in parts):
            raise CheckpointError(
                f"the model computes no numbers (NaN): {self._backend.why_no_numbers()}"
            )
        if n_best > 1 and isinstance(strategy, BeamSearch):
            self._search_wider(parts, strategy, limits, n_best)
        if alignments:
            self._align(parts)
        return [
            joined(
                text,
                parts,
                self.tokenizer,
                strategy,
                n_best,
                alignments,
                self._attention,
            )
            for text, parts in zip(texts, divided, strict=True)
        ]

    def stream(
        self,
        lines: Iterable[str],
        *,
        window: int = 1000,
        strategy: Strategy | None = None,
        limits: Limits | None = None,
        n_best: int = 1,
        alignments: bool = False,
    ) -> Iterator[Translation]:
        """Translate what may never end, `window` lines at a time, in its order."""
        remaining = iter(lines)
        while texts := list(itertools.islice(remaining, window)):
            yield from self.translate(
                texts, strategy=strategy, limits=limits, n_best=n_best, alignments=alignments
            )

    def translate_document(
        self,
        text: str,
        *,
        strategy: Strategy | None = None,
        limits: Limits | None = None,
        progress: Callable[[int], None] = lambda n_texts: None,
    ) -> str:
        """Translate the sentences of a text and leave what stands between them as it is."""
        document = self.sentences(text)
        translations = self.translate(
            document.sentences, strategy=strategy, limits=limits, progress=progress
        )
        return document.rebuild([translation.text for translation in translations])

    def sentences(self, text: str, most: float = math.inf) -> Document:
        """The sentences of a text, each as long as the model takes at once; no more than `most`."""
        whole = Document.parse(text, self.source_language, most)
        return whole.divided(lambda sentence: self._fits(self._as_read(sentence)), most)

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[Score]:
        """How probable each target is as the translation of its source."""
        if len(sources) != len(targets):
            raise DataError(
                f"{len(sources)} sources and {len(targets)} targets; they must be as many"
            )
        source_ids = self.tokenizer.encode_batch(list(map(self._as_read, sources)))
        target_ids = self.tokenizer.encode_batch(list(map(self._as_read, targets)))
        lengths = [1 + max(map(len, pair)) for pair in zip(source_ids, target_ids, strict=True)]
        max_length = self.manifest.model.max_length
        if lengths and max(lengths) > (max_length or math.inf):
            raise DataError(
                f"pair {1 + lengths.index(max(lengths))} has {max(lengths)} tokens, and the model "
                f"knows {max_length} positions; leave it out"
            )
        log_probs = self._backend.token_log_probs(source_ids, target_ids)
        return [self._score(*target) for target in zip(target_ids, log_probs, strict=True)]

    def details(self, translations: Sequence[Translation]) -> list[list[Details]]:
        """Of every hypothesis: how probable each token was, and what it attended to.

        The sources must be as long as the model takes at once, as those of `sentences` are.
        """
        pairs = [
            (self.tokenizer.ids(translation.source_tokens), self.tokenizer.ids(hypothesis.tokens))
            for translation in translations
            for hypothesis in translation.hypotheses
        ]
        most = self.manifest.model.max_length or math.inf
        for source, target in pairs:
            if max(len(source) + 1, len(target)) > most:  # what was cut has no end mark
                raise DataError(
                    f"{len(source)} tokens were translated into {len(target)}, and the model knows "
                    f"{most} positions; split the text with `sentences`"
                )
        sources, targets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        found = iter(self._backend.details(sources, targets))
        return [list(itertools.islice(found, len(it.hypotheses))) for it in translations]

    def attention(self, source: str, target: str | Sequence[str] | None = None) -> Attention:
        """What every head attends to.

        `target` is a translation or the tokens of one; the best translation unless it is given.
        """
        if target is None:
            return self.translate([source])[0].attention()
        if isinstance(target, str):
            target = self._tokens(target)
        elif unknown := [piece for piece in target if not self.tokenizer.knows(piece)]:
            raise DataError(f"{unknown[0]!r} is not a token of this model; give the text instead")
        return self._attention(self._tokens(source), target)

    def _attention(self, source_tokens: Sequence[str], target_tokens: Sequence[str]) -> Attention:
        from allyouneed.inference.attention import attend

        with self._backend.evaluating() as model:
            return attend(model, self.tokenizer, source_tokens, target_tokens, self._longest_part)

    @property
    def _longest_part(self) -> int:
        """The most tokens, without the end mark, that the model takes at once."""
        known = self.manifest.model.max_length or self.manifest.max_source_tokens
        return max(1, min(known, self.manifest.max_source_tokens) - 1)

    def _as_read(self, text: str) -> str:
        """What the model sees of a text: one all in capitals in lower case, if it wants it so."""
        lowers = self.manifest.decoding.lower_capitals and are_capitals(text)
        return lowered(text) if lowers else text

    def _tokens(self, text: str) -> list[str]:
        return self.tokenizer.pieces(self.tokenizer.encode(self._as_read(text)))

    def _fits(self, read: str) -> bool:
        return len(self.tokenizer.encode(read)) <= self._longest_part

    def _divide(
        self, number: int, text: str, ids: list[int], prefix: list[int], capitals: bool
    ) -> list[Part]:
        if len(ids) <= self._longest_part:
            return [Part(number, ids, prefix, capitals)] if ids else []
        divided = self.tokenizer.encode_batch(split_to_fit(normalize(text), self._fits))
        first, *others = filter(None, divided)
        return [
            Part(number, first, prefix, capitals),
            *(Part(number, part, [], capitals) for part in others),
        ]

    def _search_wider(
        self, parts: Sequence[Part], strategy: BeamSearch, limits: Limits, n_best: int
    ) -> None:
        """Look on where a beam is full of one text in different pieces."""
        size = strategy.size
        while size < _WIDEST_BEAM and (
            short := [part for part in parts if part.n_texts(self.tokenizer) < n_best]
        ):
            size = min(2 * size, _WIDEST_BEAM)
            again = [replace(part, hypotheses=[]) for part in short]
            wider = BeamSearch(size, strategy.length_penalty)
            self._backend.search(again, wider, limits, size)
            for part, found in zip(short, again, strict=True):
                part.add(found.hypotheses)

    def _align(self, parts: Sequence[Part]) -> None:
        sources, targets = [part.ids for part in parts], [part.hypotheses[0].ids for part in parts]
        found = self._backend.alignment_weights(sources, targets)
        for part, attention in zip(parts, found, strict=True):
            part.alignment = alignment_of(attention)

    def _score(self, target: Sequence[int], log_probs: Sequence[float]) -> Score:
        alpha = self.manifest.decoding.length_penalty
        return Score(
            tuple(self.tokenizer.pieces([*target, END])),
            tuple(log_probs),
            math.fsum(log_probs) / penalty(float(len(log_probs)), alpha),
        )
