"""Which engine translates: a fast one where it can run, the plain model everywhere else."""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from allyouneed.errors import CheckpointError, ConfigError
from allyouneed.inference.fast_engine import FastEngine, can_run
from allyouneed.manifest import WEIGHTS, Manifest, check_vocabulary, load_shortlist
from allyouneed.shortlist import Shortlist
from allyouneed.weights import Weights

if TYPE_CHECKING:  # torch takes a second to load, and the native engine does without
    from allyouneed.inference.gpu.engine import GpuEngine
    from allyouneed.model.transformer import Transformer

# What a user may ask for. On a CPU, `auto` is the native engine with the bits that the weights are
# stored in; on a GPU it is float16, which is as fast as bfloat16 and eight times as fine. `plain`
# is the model in PyTorch, on any device, which the others are compared with.
ENGINES = ("auto", "plain", "float32", "int8", "float16", "bfloat16")
_ON_CPU = ("auto", "float32", "int8")
_ON_GPU = ("auto", "float16", "bfloat16", "float32")


def load_engine(
    folder: Path,
    manifest: Manifest,
    n_pieces: int,
    name: str,
    threads: int | None = None,
    shortlist: Shortlist | None = None,
) -> FastEngine | None:
    """The native engine for a model folder, or None for the plain model."""
    if name == "plain":
        return None
    _check_name(name, _ON_CPU, "CPU")
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
        return FastEngine(
            manifest.model, weights, eight_bits=eight_bits, threads=threads, shortlist=shortlist
        )
    except CheckpointError as error:
        raise CheckpointError(f"{folder}: {error}") from None


def wanted_shortlist(folder: Path, manifest: Manifest, wanted: bool | None) -> Shortlist | None:
    """A model's shortlist where it is to be used; `wanted` is None where the model decides."""
    if wanted and manifest.shortlist is None:
        raise ConfigError(
            f"{folder}: the model has no shortlist; `allyouneed shortlist` learns one from its text"
        )
    used = manifest.shortlist if wanted is None else wanted
    return load_shortlist(folder, manifest) if used else None


def gpu_engine(model: "Transformer", name: str) -> "GpuEngine | None":
    """The engine for a model on a GPU, or None for the plain model."""
    if name == "plain":
        return None
    _check_name(name, _ON_GPU, "GPU")
    if not _can_run_on_gpu(model):
        if name == "auto":
            return None
        raise ConfigError(
            f"engine {name!r} cannot be used here: it needs an NVIDIA GPU, Triton, and a model "
            "whose heads have 16, 32, 64 or 128 columns; use plain"
        )
    import torch

    from allyouneed.inference.gpu.engine import GpuEngine

    return GpuEngine(model, getattr(torch, "float16" if name == "auto" else name))


def _can_run_on_gpu(model: "Transformer") -> bool:
    return (
        model.device.type == "cuda"
        and importlib.util.find_spec("triton") is not None
        and all(size in (16, 32, 64, 128) for size in (model.config.d_k, model.config.d_v))
    )


def _check_name(name: str, usable: tuple[str, ...], device: str) -> None:
    if name not in ENGINES:
        raise ConfigError(f"engine {name!r} is not known; use {', '.join(ENGINES)}")
    if name not in usable:
        others = ", ".join((*usable, "plain"))
        raise ConfigError(f"engine {name!r} is not for a {device}; use {others}, or another device")
