"""What torchrun starts twice: python -m torch.distributed.run … two_ranks.py FOLDER.

Leaves in FOLDER what two ranks made of it, for test_distributed.py to look at.
"""

import dataclasses
import importlib.util
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from one_step import FUSIBLE, gradients_and_result
from safetensors.torch import save_file

from allyouneed.run_file import load_run
from allyouneed.training.distributed import Ranks
from allyouneed.training.run import train


def main(folder: Path) -> None:
    dist.init_process_group("gloo")
    ranks = Ranks(dist.get_rank(), dist.get_world_size())
    torch.set_num_threads(1)
    for parallel in ("ddp", "fsdp"):
        tensors = gradients_and_result(parallel, ranks)
        if ranks.is_first:
            save_file(tensors, folder / f"{parallel}.safetensors")
    if importlib.util.find_spec("triton"):
        from unrecorded import without_graphs

        from allyouneed.training.fused.engine import FusedEngine

        with without_graphs():
            tensors = gradients_and_result("ddp", ranks, FUSIBLE, FusedEngine)
        if ranks.is_first:
            save_file(tensors, folder / "fused.safetensors")
    run = load_run(folder / "run.yaml", [])
    train(dataclasses.replace(run, folder=str(folder / "ddp")))
    sharded = dataclasses.replace(run.training, parallel="fsdp")
    train(dataclasses.replace(run, folder=str(folder / "fsdp"), training=sharded))
    train(dataclasses.replace(run, folder=str(folder / "begun-alone")))
    long_run = load_run(folder / "long.yaml", [])
    train(dataclasses.replace(long_run, folder=str(folder / "straight")))
    ranks.wait()
    # Not in order: FSDP keeps the group, and threads left at exit may abort it.
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
