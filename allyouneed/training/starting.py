"""Runs that start from a model that can translate already, and adapt it to other text."""

import dataclasses
from pathlib import Path

from allyouneed.checkpoint import TOKENIZER, load_manifest
from allyouneed.config import DecodingConfig, ModelConfig, RunConfig
from allyouneed.errors import ConfigError
from allyouneed.models import find_model


def with_start(run: RunConfig) -> RunConfig:
    """The run with sizes and vocabulary of the model that it starts from, if it does.

    Dropout stays the run's own, and so does what it sets for decoding.
    """
    if run.training.start_from is None:
        return run
    folder = find_model(run.training.start_from)
    manifest = load_manifest(folder)
    theirs = manifest.source_language, manifest.target_language
    if theirs != (run.source_language, run.target_language):
        raise ConfigError(
            f"training.start_from is {run.training.start_from}, which translates {theirs[0]} to "
            f"{theirs[1]}, not {run.source_language} to {run.target_language}; set the languages "
            "of the run, or start from another model"
        )
    model, asked, unasked = (
        dataclasses.replace(config, dropout=run.model.dropout, vocab_size=manifest.model.vocab_size)
        for config in (manifest.model, run.model, ModelConfig())
    )
    if asked not in (model, unasked):
        raise ConfigError(
            f"the section model describes another model than {run.training.start_from}, which "
            "training.start_from names; leave out all of it but dropout"
        )
    tokenizer = folder / TOKENIZER
    named = run.data.tokenizer
    if named is not None and not _same_content(Path(named), tokenizer):
        raise ConfigError(
            f"data.tokenizer is {named}, which is not that of {run.training.start_from}; leave it "
            "out: a model keeps its vocabulary"
        )
    data = dataclasses.replace(run.data, tokenizer=str(tokenizer))
    is_set = {
        name: value
        for name, value in dataclasses.asdict(run.decoding).items()
        if value != getattr(DecodingConfig(), name)
    }
    decoding = dataclasses.replace(manifest.decoding, **is_set)
    return dataclasses.replace(run, model=model, data=data, decoding=decoding)


def longest_source_of_start(run: RunConfig) -> int:
    """In tokens, that of the model that the run starts from; 0 where it starts from chance.

    A model that has learned long sentences once is not to split them after short ones.
    """
    if run.training.start_from is None:
        return 0
    return load_manifest(find_model(run.training.start_from)).max_source_tokens


def _same_content(named: Path, other: Path) -> bool:
    try:
        return named.read_bytes() == other.read_bytes()
    except OSError as error:
        raise ConfigError(f"{error.filename}: cannot be read: {error.strerror}") from None
