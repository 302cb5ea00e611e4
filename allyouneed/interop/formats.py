"""What a format of another program is to us: a way to write a model, and a way to run it there."""

import copy
import importlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Protocol

import torch

from allyouneed.checkpoint import LoadedModel, Manifest, new_model_folder
from allyouneed.errors import CheckpointError, ConfigError, MissingExtraError
from allyouneed.inference.engine import Ids


class ExportedModel(Protocol):
    """A written model in the hands of the other program."""

    def translate(self, sources: Sequence[Ids], beam_size: int, max_length: int) -> list[list[int]]:
        """The most probable translations that a beam finds; all ids are without marks.

        The sources have one length. The greatest length counts the end mark, and length is
        neither rewarded nor punished. A beam of one is greedy search.
        """


class Format(Protocol):
    """How to write a model for another program."""

    @property
    def has_beam_search(self) -> bool:
        """Whether there is more than greedy search in the other program."""

    def write(self, folder: Path, model: LoadedModel) -> None:
        """Write the files into a folder that exists; the model is float32 on the CPU."""

    def program(self) -> ModuleType:
        """The other program; where it is not installed, an error that says how to."""

    def load(self, folder: Path) -> ExportedModel:
        """Let the other program read them back."""


def export(model: LoadedModel, form: Format, folder: Path) -> None:
    """Write the model as a new folder, whole or not at all, and leave the model as it is."""
    if folder.exists():
        raise ConfigError(f"{folder} exists already; name a new folder, or remove it first")
    # A copy, since CTranslate2 rounds the weights it is given where they are.
    copied = copy.deepcopy(model.model).to("cpu", torch.float32).eval().requires_grad_(False)
    with new_model_folder(folder) as unfinished:
        form.write(unfinished, model._replace(model=copied))


def longest_output(manifest: Manifest) -> int:
    """The most tokens, with the end mark, that any source may become."""
    return manifest.max_source_tokens + manifest.decoding.max_extra_tokens


def table_size(manifest: Manifest) -> int:
    """How many positions to give a program that keeps sinusoids in a table."""
    return max(1024, longest_output(manifest))


def require(package: str, extra: str, purpose: str) -> ModuleType:
    """Import a package that the core install leaves out."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise MissingExtraError(package, extra, purpose) from None


def check_heads(model: LoadedModel, program: str) -> None:
    """Refuse heads that are not as wide as they are in the paper's base model."""
    config = model.manifest.model
    if not config.d_k == config.d_v == config.d_model / config.n_heads:
        raise CheckpointError(
            f"{program} knows only heads of d_k = d_v = d_model / n_heads, and this model has "
            f"d_k = {config.d_k}, d_v = {config.d_v}, d_model / n_heads = "
            f"{config.d_model / config.n_heads:g}; export it as onnx, which takes any model"
        )
