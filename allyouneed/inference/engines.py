"""Which engine translates: the native one where it can run, the plain model everywhere else."""

from pathlib import Path

from allyouneed.errors import CheckpointError, ConfigError
from allyouneed.inference.fast_engine import FastEngine, can_run
from allyouneed.manifest import WEIGHTS, Manifest, check_vocabulary
from allyouneed.weights import Weights

# What a user may ask for: `auto` is the native engine with the bits that the weights are stored
# in; `plain` is the model in PyTorch, on any device, which the others are compared with.
ENGINES = ("auto", "plain", "float32", "int8")


def load_engine(
    folder: Path, manifest: Manifest, n_pieces: int, name: str, threads: int | None = None
) -> FastEngine | None:
    """The native engine for a model folder, or None for the plain model."""
    if name not in ENGINES:
        raise ConfigError(f"engine {name!r} is not known; use {', '.join(ENGINES)}")
    if name == "plain":
        return None
    if not can_run(manifest.model):
        if name == "auto":
            return None
        raise ConfigError(
            f"engine {name!r} cannot be used here: it needs a C++ compiler (c++, g++ or clang++) "
            "and a model whose widths are multiples of 16; use plain"
        )
    check_vocabulary(folder, manifest.model.vocab_size, n_pieces)
    weights = Weights.open(folder / WEIGHTS)
    eight_bits = weights.are_in_eight_bits if name == "auto" else name == "int8"
    try:
        return FastEngine(manifest.model, weights, eight_bits=eight_bits, threads=threads)
    except CheckpointError as error:
        raise CheckpointError(f"{folder}: {error}") from None
