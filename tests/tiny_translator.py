"""A translator that knows nothing yet, for tests of all that stands around the model."""

import functools
from collections.abc import Sequence

import torch

from allyouneed.checkpoint import Manifest
from allyouneed.config import DecodingConfig, ModelConfig
from allyouneed.inference import Hypothesis, Limits, Strategy
from allyouneed.model import Transformer
from allyouneed.shortlist import Shortlist
from allyouneed.text.tokenizer import Tokenizer
from allyouneed.translator import Translator

MAX_SOURCE_TOKENS = 12


@functools.cache
def tokenizer() -> Tokenizer:
    numbers = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    text = [f"{a} {b}, {c}. {a.title()} man!" for a in numbers for b in numbers for c in numbers]
    return Tokenizer.learn(text, vocab_size=330)


def tiny_translator(dropout: float = 0.1, batch_tokens: int | None = None) -> Translator:
    torch.manual_seed(0)
    config = ModelConfig(
        vocab_size=330, n_layers=2, d_model=8, d_ff=16, n_heads=2, d_k=4, d_v=4, dropout=dropout
    )
    manifest = Manifest(
        source_language="en",
        target_language="de",
        max_source_tokens=MAX_SOURCE_TOKENS,
        model=config,
        decoding=DecodingConfig(beam_size=2, max_extra_tokens=3),
    )
    return Translator(Transformer(config).eval(), tokenizer(), manifest, batch_tokens)


def copying_search(
    _model: Transformer,
    sources: Sequence[Sequence[int]],
    _strategy: Strategy,
    _limits: Limits,
    n_best: int = 1,
    prefixes: Sequence[Sequence[int]] | None = None,
    _shortlist: Shortlist | None = None,
) -> list[list[Hypothesis]]:
    """In place of `search`: prefix and source come out as they went in, at log P = -1.

    Of the others of the n best each repeats the last token once more, at one less.
    """
    return [
        [
            Hypothesis((*prefix, *source, *[source[-1]] * rank), -1.0 - rank, -1.0 - rank)
            for rank in range(n_best)
        ]
        for source, prefix in zip(sources, prefixes or [], strict=True)
    ]
