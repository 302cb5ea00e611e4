"""`allyouneed shortlist`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allyouneed.config import CorpusConfig
from allyouneed.data.corpus import Corpus
from allyouneed.errors import ConfigError, DataError
from allyouneed.manifest import SHORTLIST, TOKENIZER

if TYPE_CHECKING:
    from allyouneed.data.shards import PreparedData
    from allyouneed.text.tokenizer import Tokenizer

FILE = click.Path(path_type=Path)
FEW_PAIRS = 20_000
MOST_PAIRS = 1_000_000  # more cost minutes and change little
FREQUENT_SHARE = 1 / 5  # of the vocabulary


@click.command()
@click.argument("model")
@click.option("--source", type=FILE, help="Sentences, one a line.")
@click.option("--target", type=FILE, help="Their translations, one a line.")
@click.option("--prepared", type=FILE, help="The data folder of a run, instead of the text.")
@click.option(
    "--frequent",
    type=click.IntRange(min=0),
    help="Pieces that any translation may hold. Default: a fifth of the vocabulary.",
)
@click.option(
    "--best",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="At most so many more for each piece of the source.",
)
@click.option("--by-default", is_flag=True, help="Translate with it unless --no-shortlist is said.")
def shortlist(
    model: str,
    source: Path | None,
    target: Path | None,
    prepared: Path | None,
    frequent: int | None,
    best: int,
    by_default: bool,
) -> None:
    """Learn from parallel text which pieces a source may become, and keep that in MODEL.

    With it a step of the native engine asks the likely pieces only, not all of the vocabulary:
    faster, and hardly ever another translation. The text should be what MODEL was trained on.
    """
    if (source is None) != (target is None) or (source is None) == (prepared is None):
        raise click.UsageError("give either --source and --target, or --prepared")

    from allyouneed.checkpoint import add_shortlist, check_writable
    from allyouneed.data.lexicon import learn_shortlist
    from allyouneed.data.parallel_ids import ParallelIds
    from allyouneed.models import PRETRAINED, find_model
    from allyouneed.text.tokenizer import Tokenizer

    folder = find_model(model)
    if folder.parent == PRETRAINED:
        raise ConfigError(
            f"{model} belongs to the package; copy it first: allyouneed average {model} "
            "--dtype int8 --output mine"
        )
    check_writable(folder)  # learning takes minutes
    tokenizer = Tokenizer.load(folder / TOKENIZER)
    if prepared is None:
        corpus = Corpus(CorpusConfig(source=str(source), target=str(target)))
        text = ParallelIds.of_text(corpus, tokenizer, MOST_PAIRS)
    else:
        text = ParallelIds.of_prepared(_opened(prepared, tokenizer), MOST_PAIRS)
    n_frequent = round(FREQUENT_SHARE * len(tokenizer)) if frequent is None else frequent
    learned = learn_shortlist(text, len(tokenizer), n_frequent, best)
    if len(text.src_lengths) < FEW_PAIRS:
        click.echo(
            f"{len(text.src_lengths):,} pairs are few to learn from: what they do not show will "
            "not come up; give the text that the model was trained on",
            err=True,
        )
    add_shortlist(folder, learned, by_default=by_default)
    click.echo(
        f"{folder}: {len(learned.always):,} pieces always, {len(learned.pieces):,} for pieces of "
        f"the source; {(folder / SHORTLIST).stat().st_size / 1e3:.0f} kB",
        err=True,
    )


def _opened(folder: Path, tokenizer: "Tokenizer") -> "PreparedData":
    from allyouneed.data.prepare import TOKENIZER_FILE
    from allyouneed.data.shards import PreparedData
    from allyouneed.text.tokenizer import Tokenizer

    data = PreparedData.open(folder)
    if Tokenizer.load(folder / TOKENIZER_FILE).serialized != tokenizer.serialized:
        raise DataError(
            f"{folder}: made with another tokenizer than the model's; give --source and --target"
        )
    return data
