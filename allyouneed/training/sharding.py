"""A model in parts, one on each rank (FSDP2), and whole again where files and people see it.

What works on tensors takes whole ones as well, so that its callers need not know.
"""

import warnings
from collections.abc import Iterable, Mapping

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from allyouneed.model.transformer import Transformer
from allyouneed.training.distributed import Ranks


def shard(model: Transformer) -> None:
    """Leave each rank its part of every weight; layers are put together when they are needed."""
    mesh = init_device_mesh(model.device.type, (dist.get_world_size(),))
    warnings.filterwarnings("ignore", ".*returned a view tensor", UserWarning)  # not written to
    for layer in model.decoder.layers:
        # All layers read the encoder's output before the first of them is called.
        reader = layer.get_submodule("memory_attention")
        fully_shard(reader, mesh=mesh)
        register_fsdp_forward_method(reader, "read")
    for layer in [*model.encoder.layers, *model.decoder.layers, model]:
        fully_shard(layer, mesh=mesh)


def whole(tensor: Tensor) -> Tensor:
    """A tensor that ranks hold parts of, put together; all of them must ask for it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def whole_on_first(tensors: Iterable[tuple[str, Tensor]], ranks: Ranks) -> dict[str, Tensor]:
    """Whole tensors in the memory of the first rank's host; the others only help."""
    result = {}
    for name, tensor in tensors:
        complete = whole(tensor)
        if ranks.is_first:
            result[name] = complete.cpu().contiguous()
    return result


def placed_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A whole tensor on the parameter's device, in parts if the parameter is."""
    tensor = tensor.to(parameter.device)
    if isinstance(parameter, DTensor):
        return distribute_tensor(tensor, parameter.device_mesh, parameter.placements)
    return tensor


def load_whole(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """`load_state_dict` for a model that may be in parts."""
    own = model.state_dict()
    model.load_state_dict(
        {
            name: placed_like(tensor, own[name]) if name in own else tensor
            for name, tensor in weights.items()
        }
    )


def unsharded(model: Transformer) -> Transformer:
    """The model itself, or a copy with whole weights if it is in parts."""
    if not isinstance(model, FSDPModule):
        return model
    with torch.random.fork_rng([]):  # its first weights are not used
        copy = Transformer(model.config).to(model.device)
    copy.load_state_dict({name: whole(tensor) for name, tensor in model.state_dict().items()})
    return copy
