"""What a model folder holds besides weights, and what its files are called."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from allyouneed.config import DecodingConfig, ModelConfig
from allyouneed.errors import CheckpointError, ConfigError
from allyouneed.run_file import from_tree

FORMAT = 1
CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.model"


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """config.json: all that a translator must know besides weights and vocabulary."""

    format: int = FORMAT
    source_language: str
    target_language: str
    max_source_tokens: int  # nearly all sources it was trained on are shorter; others are split
    model: ModelConfig
    decoding: DecodingConfig = field(default_factory=DecodingConfig)


def load_manifest(folder: Path) -> Manifest:
    path = folder / CONFIG
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such model folder")
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(
            f"{folder}: not a model folder: it has no {CONFIG}; of a finished run, "
            "the folder `model` inside it is the one to name"
        ) from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # of JSON or of UTF-8
        found = str(error) if path.stat().st_size else "it is empty"
        raise CheckpointError(f"{path}: not readable as JSON: {found}; copy it anew") from None
    if isinstance(tree, dict) and tree.get("format", FORMAT) != FORMAT:
        raise CheckpointError(
            f"{path}: written in format {tree['format']}, this version reads {FORMAT}; "
            "use the version of allyouneed that wrote it"
        )
    try:
        return from_tree(Manifest, tree, str(path))
    except ConfigError as error:
        raise CheckpointError(f"{error}; copy it anew, or name another model folder") from None


def check_vocabulary(folder: Path, n_embedded: int, n_pieces: int) -> None:
    """Refuse weights and a tokenizer that do not belong together."""
    if n_embedded != n_pieces:
        raise CheckpointError(
            f"{folder}: the weights embed {n_embedded} pieces but the tokenizer has {n_pieces}; "
            "copy the tokenizer from the run that made these weights"
        )
