"""Checkpoints of a run: model folders with all that is needed to go on exactly.

checkpoints/step-00001000/ holds a model folder's files and beside them training.json (step, data
position, best score) and training.safetensors (Adam's moments, random states).
"""

import dataclasses
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import safetensors
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from allyouneed.checkpoint import (
    CONFIG,
    Manifest,
    load_manifest,
    load_weights,
    new_model_folder,
    write_json,
    write_model,
)
from allyouneed.data.batches import Position
from allyouneed.errors import CheckpointError
from allyouneed.model.transformer import Transformer
from allyouneed.text.tokenizer import Tokenizer

PROGRESS, MOMENTS = "training.json", "training.safetensors"


@dataclass(kw_only=True)
class Progress:
    """How far a run has come."""

    step: int = 0
    position: Position = field(default_factory=Position)
    seconds: float = 0.0
    best_score: float | None = None  # higher is better
    validations_since_best: int = 0
    data_digest: str = ""
    plan: str = ""  # the settings that the position counts batches of


def save_checkpoint(
    folder: Path,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
    tokenizer: Tokenizer,
    manifest: Manifest,
    keep: int,
) -> Path:
    """Write a checkpoint, then drop all but the newest `keep`."""
    path = folder / f"step-{progress.step:08d}"
    with new_model_folder(path) as unfinished:
        write_model(unfinished, model.state_dict(), tokenizer, manifest)
        save_file(_moments(model, optimizer) | _random_states(), unfinished / MOMENTS)
        write_json(unfinished / PROGRESS, dataclasses.asdict(progress))
    *old, _ = list_checkpoints(folder)
    for number, earlier in enumerate(reversed(old), start=2):
        if number > keep:
            shutil.rmtree(earlier)
        elif number > 2:  # averaging needs no moments; one spare checkpoint to go on from is enough
            (earlier / MOMENTS).unlink(missing_ok=True)
    return path


def list_checkpoints(folder: Path) -> list[Path]:
    """All whole checkpoints, oldest first."""
    return sorted(path for path in folder.glob("step-*") if (path / CONFIG).exists())


def restore_checkpoint(
    path: Path, model: Transformer, optimizer: torch.optim.Optimizer
) -> Progress:
    """Put model, optimizer and random states back to where the checkpoint was written."""
    manifest = load_manifest(path)
    if manifest.model != model.config:
        raise CheckpointError(
            f"{path} holds another model than the run file describes "
            f"({manifest.model} and {model.config}); start the new one in a folder of its own"
        )
    try:
        tree = json.loads((path / PROGRESS).read_text(encoding="utf-8"))
        progress = Progress(**{**tree, "position": Position(*tree["position"])})
        tensors = load_file(path / MOMENTS)
    except (OSError, ValueError, TypeError, KeyError, safetensors.SafetensorError) as error:
        raise CheckpointError(
            f"{path}: cannot be gone on from ({error}); delete it to go on from the one before"
        ) from None
    model.load_state_dict(load_weights(path))
    for name, parameter in model.named_parameters():
        optimizer.state[parameter] = {
            kind: tensors[f"{kind}/{name}"].to(parameter.device)
            for kind in ("step", "exp_avg", "exp_avg_sq")
        }
    torch.set_rng_state(tensors["random/cpu"])
    if torch.cuda.is_available() and "random/cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random/cuda"])
    return progress


def _moments(model: Transformer, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{kind}/{name}": value.cpu().contiguous()
        for name, parameter in model.named_parameters()
        for kind, value in optimizer.state[parameter].items()
    }


def _random_states() -> dict[str, Tensor]:
    states = {"random/cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["random/cuda"] = torch.cuda.get_rng_state()
    return states
