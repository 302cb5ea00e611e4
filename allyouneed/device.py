"""Where to compute."""

import torch

from allyouneed.errors import ConfigError


def pick_device(name: str) -> torch.device:
    """`auto` takes a GPU if there is one; anything else is torch's name of a device."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"device {name!r} is not known; use auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device {name!r}: torch sees no GPU here; use cpu or auto")
    return device
