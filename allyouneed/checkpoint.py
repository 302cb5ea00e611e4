"""A model is a folder: config.json, model.safetensors, tokenizer.model, maybe a shortlist.

Folders are written under another name and renamed when whole, so what has its right name can be
read, whatever interrupted the writing.
"""

import contextlib
import dataclasses
import errno
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import torch
from safetensors.torch import save
from torch import Tensor

from allyouneed.atomic import new_file, new_folder
from allyouneed.errors import CheckpointError
from allyouneed.manifest import (
    CONFIG,
    SHORTLIST,
    TOKENIZER,
    WEIGHTS,
    Manifest,
    check_vocabulary,
    load_manifest,
)
from allyouneed.model.transformer import Transformer
from allyouneed.shortlist import Shortlist
from allyouneed.text.tokenizer import Tokenizer
from allyouneed.weights import SCALE, Weights, in_eight_bits

__all__ = [
    "CONFIG",
    "TOKENIZER",
    "WEIGHTS",
    "LoadedModel",
    "Manifest",
    "add_shortlist",
    "average_weights",
    "check_writable",
    "load_manifest",
    "load_model",
    "load_weights",
    "new_model_folder",
    "save_model",
    "write_json",
    "write_model",
]


class LoadedModel(NamedTuple):
    model: Transformer
    tokenizer: Tokenizer
    manifest: Manifest


def save_model(
    folder: Path,
    weights: Mapping[str, Tensor],
    tokenizer: Tokenizer,
    manifest: Manifest,
    dtype: torch.dtype = torch.float32,
    shortlist: Shortlist | None = None,
) -> None:
    """Write a model folder, in place of one that may be there; int8 is a quarter of float32."""
    with new_model_folder(folder) as unfinished:
        write_model(unfinished, weights, tokenizer, manifest, dtype, shortlist)


def write_model(
    folder: Path,
    weights: Mapping[str, Tensor],
    tokenizer: Tokenizer,
    manifest: Manifest,
    dtype: torch.dtype = torch.float32,
    shortlist: Shortlist | None = None,
) -> None:
    """Write a model's files into a folder that exists."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if dtype == torch.int8:
            tensors |= _in_eight_bits(name, tensor.cpu())
        else:
            tensors[name] = tensor.to("cpu", dtype).contiguous()
    # Not save_file, which leaves a file that only its owner may read.
    (folder / WEIGHTS).write_bytes(save(tensors))
    tokenizer.save(folder / TOKENIZER)
    if shortlist is None:
        manifest = dataclasses.replace(manifest, shortlist=None)
    else:
        shortlist.save(folder / SHORTLIST)
    write_json(folder / CONFIG, dataclasses.asdict(manifest))


def add_shortlist(folder: Path, shortlist: Shortlist, *, by_default: bool) -> None:
    """Put a shortlist into a model folder; `by_default`: it is used unless told otherwise."""
    manifest = dataclasses.replace(load_manifest(folder), shortlist=by_default)
    try:
        with new_file(folder / SHORTLIST) as unfinished:
            shortlist.save(unfinished)
        with new_file(folder / CONFIG) as unfinished:
            write_json(unfinished, dataclasses.asdict(manifest))
    except OSError as error:
        raise _not_written(folder, error) from None


def check_writable(folder: Path) -> None:
    """Refuse a model folder that nothing can be put into, before there is anything to put."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _not_written(folder, error) from None


def _not_written(folder: Path, error: OSError) -> CheckpointError:
    is_forbidden = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    mend = "copy the model folder to a place of your own" if is_forbidden else "make room there"
    return CheckpointError(f"{folder}: cannot be written: {error.strerror or error}; {mend}")


def load_model(folder: Path, device: torch.device | str = "cpu") -> LoadedModel:
    """Read a model folder; the model comes ready to translate, in float32."""
    manifest = load_manifest(folder)
    tokenizer = Tokenizer.load(folder / TOKENIZER)
    weights = load_weights(folder)
    check_vocabulary(folder, len(weights.get("embedding.weight", ())), len(tokenizer))
    model = Transformer(manifest.model)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(
            f"{folder}: weights and {CONFIG} disagree: {error}; copy both anew from one model"
        ) from None
    return LoadedModel(model.to(device).eval(), tokenizer, manifest)


def load_weights(folder: Path) -> dict[str, Tensor]:
    """All weights in float32, however they are stored."""
    weights = Weights.open(folder / WEIGHTS)
    try:
        return {name: torch.tensor(weights.floats(name)) for name in weights.names}
    except CheckpointError as error:
        raise CheckpointError(f"{folder}: {error}") from None


def _in_eight_bits(name: str, tensor: Tensor) -> dict[str, Tensor]:
    """A matrix as int8 with a scale a row; scales and vectors in half precision."""
    if tensor.ndim < 2:
        return {name: tensor.half().contiguous()}
    rows, scale = in_eight_bits(tensor.float().numpy())
    return {name: torch.from_numpy(rows), name + SCALE: torch.from_numpy(scale).half()}


def average_weights(folders: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of several model folders' weights (section 6.1)."""
    total = {name: tensor.double() for name, tensor in load_weights(folders[0]).items()}
    pieces = Tokenizer.load(folders[0] / TOKENIZER).serialized
    for folder in folders[1:]:
        if Tokenizer.load(folder / TOKENIZER).serialized != pieces:
            raise CheckpointError(
                f"{folder} and {folders[0]} have different vocabularies, and a mean of their "
                "weights would know neither; name checkpoints of one run"
            )
        weights = load_weights(folder)
        if {n: t.shape for n, t in weights.items()} != {n: t.shape for n, t in total.items()}:
            raise CheckpointError(
                f"{folder} and {folders[0]} hold models of different shapes; name checkpoints of "
                "one run"
            )
        for name, tensor in weights.items():
            total[name] += tensor
    return {name: (tensor / len(folders)).float() for name, tensor in total.items()}


@contextlib.contextmanager
def new_model_folder(folder: Path) -> Iterator[Path]:
    """`new_folder` for a model: it replaces an older model, but nothing else."""
    if folder.exists() and not (folder / CONFIG).exists() and not _is_empty_folder(folder):
        raise CheckpointError(f"{folder}: holds something else than a model; name another folder")
    try:
        with new_folder(folder) as unfinished:
            yield unfinished
    except (OSError, safetensors.SafetensorError) as error:
        raise CheckpointError(
            f"{folder}: cannot be written: {error}; make room or set another folder"
        ) from None


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def write_json(path: Path, tree: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(tree, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
