"""Checkpoints of a run: model folders with all that is needed to go on exactly.

checkpoints/step-00001000/ holds a model folder's files and beside them training.json (step, data
position, best score) and training.safetensors (Adam's moments, random states).
"""

import dataclasses
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import safetensors
import torch
from safetensors.torch import load_file, save
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
from allyouneed.training.distributed import ALONE, Ranks
from allyouneed.training.sharding import load_whole, placed_like, whole_on_first

PROGRESS, MOMENTS = "training.json", "training.safetensors"


@dataclass(kw_only=True)
class Progress:
    """How far a run has come."""

    step: int = 0
    position: Position = field(default_factory=Position)
    seconds: float = 0.0
    best_by: str = ""  # what the next line is a score of
    best_score: float | None = None  # higher is better
    validations_since_best: int = 0
    data_fingerprint: str = ""
    plan: str = ""  # the settings that the position counts batches of


def save_checkpoint(
    folder: Path,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
    tokenizer: Tokenizer,
    manifest: Manifest,
    ranks: Ranks = ALONE,
) -> Path:
    """All ranks give what they have, the first writes it; then the others go on."""
    path = folder / f"step-{progress.step:08d}"
    weights = whole_on_first(model.state_dict().items(), ranks)
    tensors = whole_on_first(_moments(model, optimizer), ranks)
    for number, states in enumerate(ranks.gather(_random_states(model.device))):
        tensors |= {f"{name}/{number}": state for name, state in states.items()}
    if ranks.is_first:
        with new_model_folder(path) as unfinished:
            write_model(unfinished, weights, tokenizer, manifest)
            (unfinished / MOMENTS).write_bytes(save(tensors))
            write_json(unfinished / PROGRESS, dataclasses.asdict(progress))
    ranks.wait()
    return path


def drop_old_checkpoints(folder: Path, every: int, keep: int) -> None:
    """Leave the newest, and of those written `every` so many steps the last `keep`.

    One that was written in between, because the run was stopped, is gone once there is a newer:
    a run that was stopped averages the same checkpoints as one that was not.
    """
    *old, newest = list_checkpoints(folder)
    regular = [path for path in old if _step(path) % every == 0]
    n_kept = keep - (_step(newest) % every == 0)
    kept = regular[max(0, len(regular) - n_kept) :]
    for path in old:
        if path not in kept:
            shutil.rmtree(path)
    for path in kept[:-1]:  # averaging needs no moments; one spare to go on from is enough
        (path / MOMENTS).unlink(missing_ok=True)
    for leftover in folder.glob(".step-*.unfinished"):  # of a process that was killed
        shutil.rmtree(leftover)


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def list_checkpoints(folder: Path) -> list[Path]:
    """All whole checkpoints, oldest first."""
    return sorted(path for path in folder.glob("step-*") if (path / CONFIG).exists())


def refuse_other_data(folder: Path, fingerprint: str) -> None:
    """A data position means nothing in other data; say so before these are prepared."""
    for path in list_checkpoints(folder)[-1:]:
        if _progress(path).data_fingerprint != fingerprint:
            raise CheckpointError(
                f"{path} was trained on other data than the run file now describes (files, "
                "weights, filters or vocabulary); put them back, or start the new run in a folder "
                "of its own"
            )


def restore_checkpoint(
    path: Path, model: Transformer, optimizer: torch.optim.Optimizer, rank: int = 0
) -> Progress:
    """Put model, optimizer and random states back to where the checkpoint was written.

    There may have been fewer ranks then, or more.
    """
    saved, wanted = (dataclasses.asdict(it) for it in (load_manifest(path).model, model.config))
    differences = [
        f"{key} {saved[key]} and {wanted[key]}" for key in saved if saved[key] != wanted[key]
    ]
    if differences:
        raise CheckpointError(
            f"{path} holds another model than the run file describes ({', '.join(differences)}); "
            "start the new one in a folder of its own"
        )
    progress = _progress(path)
    try:
        tensors = load_file(path / MOMENTS)
    except (OSError, safetensors.SafetensorError) as error:
        raise _damaged(path, error) from None
    load_whole(model, load_weights(path))
    for name, parameter in model.named_parameters():
        optimizer.state[parameter] = {
            "step": tensors[f"step/{name}"].to(parameter.device),
            "exp_avg": placed_like(tensors[f"exp_avg/{name}"], parameter),
            "exp_avg_sq": placed_like(tensors[f"exp_avg_sq/{name}"], parameter),
        }
    torch.manual_seed(torch.initial_seed() + progress.step)  # for a rank that was not there
    if (state := tensors.get(f"random/cpu/{rank}")) is not None:
        torch.set_rng_state(state)
    if model.device.type == "cuda" and (state := tensors.get(f"random/cuda/{rank}")) is not None:
        torch.cuda.set_rng_state(state, model.device)
    return progress


def _progress(path: Path) -> Progress:
    try:
        tree = json.loads((path / PROGRESS).read_text(encoding="utf-8"))
        return Progress(**{**tree, "position": Position(*tree["position"])})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{path}: cannot be gone on from ({error}); delete it to go on from the one before"
    )


def _moments(model: Transformer, optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor]]:
    for name, parameter in model.named_parameters():
        for kind, value in optimizer.state[parameter].items():
            yield f"{kind}/{name}", value


def _random_states(device: torch.device) -> dict[str, Tensor]:
    states = {"random/cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["random/cuda"] = torch.cuda.get_rng_state(device)
    return states
