"""Where the time of a decoding step on a GPU goes: its length, and its kernels by their share."""

import argparse
import random
import time

import numpy as np
import torch
from numpy.typing import NDArray
from torch.profiler import ProfilerActivity, profile

from allyouneed.config import PRESETS
from allyouneed.inference.beams import Beam, Task
from allyouneed.inference.gpu.engine import GpuEngine
from allyouneed.model import Transformer

N_STEPS = 28


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--precision", default="float16")
    parser.add_argument("--beam-size", type=int, default=4)
    parser.add_argument("--slots", type=int, nargs="+", default=[512, 1])
    arguments = parser.parse_args()
    config = PRESETS[arguments.preset]
    model = Transformer(config).cuda().eval()
    engine = GpuEngine(model, getattr(torch, arguments.precision))
    beam = Beam(arguments.beam_size, 0.0, min_length=N_STEPS)
    for n_slots in arguments.slots:
        rng = random.Random(0)
        source = [rng.randrange(4, config.vocab_size) for _ in range(N_STEPS)]
        tasks, slots = [Task(source, (), 2 * N_STEPS)] * n_slots, np.arange(n_slots)
        engine.reserve(n_slots, beam, tasks)
        search(engine, tasks, slots)  # compiles and records
        search(engine, tasks, slots)
        begun, done = search(engine, tasks, slots)
        print(f"{n_slots} slots: {1e3 * begun:.2f} ms to encode, {1e3 * done / N_STEPS:.3f} a step")
        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            search(engine, tasks, slots)
        print(profiled.key_averages().table(sort_by="cuda_time_total", row_limit=25))


def search(engine: GpuEngine, tasks: list[Task], slots: NDArray[np.int64]) -> tuple[float, float]:
    """Seconds of encoding, and of all steps, one step ahead as in a search."""
    start = time.perf_counter()
    engine.begin(tasks, slots.tolist())
    torch.cuda.synchronize()
    begun = time.perf_counter()
    picks = engine.advance(slots)
    for _ in range(N_STEPS - 1):
        following = engine.advance(slots)
        picks()
        picks = following
    picks()
    return begun - start, time.perf_counter() - begun


if __name__ == "__main__":
    main()
