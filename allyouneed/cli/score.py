"""`allyouneed score`: how probable a model finds given translations."""

import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allyouneed.config import CorpusConfig
from allyouneed.data.corpus import Corpus

if TYPE_CHECKING:  # torch takes seconds to load, and `--help` does without
    from allyouneed.translator import Score

FILE = click.Path(path_type=Path)
WINDOW = 1000  # pairs that are sorted by length and scored together


@click.command()
@click.option("--model", help="A model folder or a shipped model's name. Default: en-de.")
@click.option("--source", type=FILE, required=True, help="Sentences, one a line.")
@click.option("--target", type=FILE, required=True, help="Their translations, one a line.")
@click.option("--tokens", is_flag=True, help="Add each token and its log-probability.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a pair.")
@click.option("--device", default="auto", show_default=True, help="Where the model runs.")
def score(
    model: str | None, source: Path, target: Path, tokens: bool, as_json: bool, device: str
) -> None:
    """Print the log-probability of each line of --target given its line of --source."""
    pairs = iter(Corpus(CorpusConfig(source=str(source), target=str(target))))

    from allyouneed.translator import Translator

    translator = Translator.load(model, device, engine="plain")  # it scores, and does not search
    n_pairs, n_tokens, log_probability = 0, 0, 0.0
    while window := list(itertools.islice(pairs, WINDOW)):
        sources, targets = zip(*window, strict=True)
        for one in translator.score(sources, targets):
            click.echo(_as_json(one) if as_json else "\t".join(_columns(one, tokens)))
            n_pairs += 1
            n_tokens += one.n_tokens
            log_probability += one.log_probability
    click.echo(
        f"{n_pairs} pairs, {n_tokens} tokens: log-probability {log_probability:.2f}, "
        f"perplexity {math.exp(-log_probability / n_tokens):.3f} a token",
        err=True,
    )


def _columns(one: "Score", tokens: bool) -> Iterator[str]:
    yield f"{one.log_probability:.4f}"
    if tokens:
        pairs = zip(one.tokens, one.token_log_probabilities, strict=True)
        yield " ".join(f"{token} {log_probability:.4f}" for token, log_probability in pairs)


def _as_json(one: "Score") -> str:
    sums = {"log_probability": one.log_probability, "perplexity": one.perplexity}
    return json.dumps({**asdict(one), **sums}, ensure_ascii=False)
