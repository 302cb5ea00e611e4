"""Where to compute."""

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allyouneed.errors import ConfigError

if TYPE_CHECKING:
    import torch

_GPU_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # NVIDIA, AMD, Windows' Linux


def is_cpu(name: str) -> bool:
    """Whether `pick_device` says so; torch, which takes a second to load, is asked last."""
    has_no_gpu = sys.platform == "linux" and not any(Path(path).exists() for path in _GPU_DRIVERS)
    is_surely = name == "cpu" or (name == "auto" and has_no_gpu)
    return is_surely or pick_device(name).type == "cpu"


def pick_device(name: str) -> "torch.device":
    """`auto` takes a GPU if there is one; anything else is torch's name of a device."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(
            f"device {name!r} is not known; use auto, cpu, cuda, cuda:1 (the second GPU) or mps"
        ) from None
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"device {name!r} cannot be used here: {reason}; try cpu") from None
    return device


def as_current(device: "torch.device") -> contextlib.AbstractContextManager[Any]:
    """What runs on the current GPU, as Triton's kernels and CUDA graphs do, runs on this one."""
    import torch

    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()
