"""Adam and its rate (section 5.3)."""

import torch
from torch import Tensor, nn

from allyouneed.config import TrainingConfig


def rate(step: int, d_model: int, config: TrainingConfig) -> float:
    """d_model^−0.5 · min(step^−0.5, step · warmup^−1.5), steps counted from 1.

    Times `rate_scale`; over the last `cooldown_steps` it falls in a line towards zero.
    """
    warm = min(step**-0.5, step * config.warmup_steps**-1.5)
    to_go = config.steps + 1 - step
    cooled = min(1.0, to_go / (config.cooldown_steps + 1))
    return config.rate_scale * d_model**-0.5 * warm * cooled


def make_adam(model: nn.Module, config: TrainingConfig) -> torch.optim.Adam:
    parameters = list(model.parameters())
    on_gpu = parameters[0].is_cuda
    return torch.optim.Adam(
        parameters,
        # Set before every step; as a tensor it can change in a recorded CUDA graph.
        lr=torch.zeros((), device=parameters[0].device) if on_gpu else 0.0,
        betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_epsilon,
        fused=on_gpu,
        capturable=on_gpu,
    )


def set_rate(optimizer: torch.optim.Optimizer, value: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(value)
        else:
            group["lr"] = value
