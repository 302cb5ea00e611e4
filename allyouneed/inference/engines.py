"""Which engine translates: a fast one where it can run, the plain model everywhere else."""

import importlib.util
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from allyouneed.errors import CheckpointError, ConfigError
from allyouneed.inference.fast_engine import FastEngine, hindrance
from allyouneed.manifest import WEIGHTS, Manifest, check_vocabulary, load_shortlist
from allyouneed.shortlist import Shortlist
from allyouneed.weights import Weights

if TYPE_CHECKING:  # torch takes a second to load, and the native engine does without
    import torch

    from allyouneed.inference.gpu.engine import GpuEngine
    from allyouneed.model.transformer import Transformer

# What a user may ask for. On a CPU, `auto` is the native engine with the bits that the weights are
# stored in; on a GPU it is float16, which is as fast as bfloat16 and eight times as fine. `plain`
# is the model in PyTorch, on any device, which the others are compared with.
ENGINES = ("auto", "plain", "float32", "int8", "float16", "bfloat16")
LOG = logging.getLogger(__name__)
_ON_CPU = ("auto", "float32", "int8")
_ON_GPU = ("auto", "float16", "bfloat16", "float32")
_HEADS_ON_GPU = (16, 32, 64, 128)


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
    if why := hindrance(manifest.model):
        _leave_to_the_plain_model(name, f"{folder}: the native engine", why)
        return None
    check_vocabulary(folder, manifest.model.vocab_size, n_pieces)
    weights = Weights.open(folder / WEIGHTS)
    eight_bits = weights.are_in_eight_bits if name == "auto" else name == "int8"
    try:
        return FastEngine(
            manifest.model, weights, eight_bits=eight_bits, threads=threads, shortlist=shortlist
        )
    except CheckpointError as error:
        raise CheckpointError(f"{folder}: {error}") from None


def native_engine(model: "Transformer", threads: int | None = None) -> FastEngine | None:
    """The native engine, in float32, with the present weights of a model on the CPU.

    None where only the plain model can run.
    """
    if model.device.type != "cpu" or hindrance(model.config):
        return None
    weights = Weights({name: tensor.numpy() for name, tensor in model.state_dict().items()})
    return FastEngine(model.config, weights, eight_bits=False, threads=threads)


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
    import torch

    dtype: torch.dtype = getattr(torch, "float16" if name == "auto" else name)
    if why := _hindrance_on_gpu(model, dtype):
        _leave_to_the_plain_model(name, "the engine for GPUs", why)
        return None
    from allyouneed.inference.gpu.engine import GpuEngine

    return GpuEngine(model, dtype)


def _hindrance_on_gpu(model: "Transformer", dtype: "torch.dtype") -> str | None:
    """Why the engine cannot run this model; None if it can."""
    sizes = model.config.d_k, model.config.d_v
    if model.device.type != "cuda":
        return f"it is for NVIDIA's, and the model is on {model.device}"
    if importlib.util.find_spec("triton") is None:
        return "it needs the package triton"
    if not all(size in _HEADS_ON_GPU for size in sizes):
        return f"it takes heads of {', '.join(map(str, _HEADS_ON_GPU))} columns, not {sizes}"
    try:
        from allyouneed.inference.gpu.trial import try_a_kernel

        try_a_kernel(model.device, dtype)
    except Exception as error:  # Triton, the compiler and the driver have all kinds of them
        said = (str(error) or type(error).__name__).splitlines()[0]
        return f"Triton cannot run on {model.device} and says: {said}"
    return None


def _leave_to_the_plain_model(name: str, engine: str, why: str) -> None:
    """Say so, or refuse where that very engine was asked for."""
    if name != "auto":
        raise ConfigError(f"{engine} cannot be used here: {why}; use plain instead of {name}")
    LOG.warning("%s cannot be used, so the slower plain model is: %s", engine, why)


def _check_name(name: str, usable: tuple[str, ...], device: str) -> None:
    if name not in ENGINES:
        raise ConfigError(f"engine {name!r} is not known; use {', '.join(ENGINES)}")
    if name not in usable:
        others = ", ".join((*usable, "plain"))
        raise ConfigError(f"engine {name!r} is not for a {device}; use {others}, or another device")
