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
        raise ConfigError(
            f"device {name!r} is not known; use auto, cpu, cuda, cuda:1 (the second GPU) or mps"
        ) from None
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"device {name!r} cannot be used here: {reason}; try cpu") from None
    return device
