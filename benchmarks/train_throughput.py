"""Training speed next to peers: the same sentences, the same model, the same mathematics.

Every system runs in a process of its own and sees the same random pairs, as long as those of
WMT14. Tokens are source and target tokens; padding is not counted. All train in bfloat16 on a
GPU (float32 on a CPU) with dropout, label smoothing, tied embeddings and fused Adam.
"""

import argparse
import dataclasses
import itertools
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import nn
from training_peers import Marian, Step, TorchTransformer, peer_adam, peer_step, wider

from allyouneed.config import PRESETS, ModelConfig, TrainingConfig
from allyouneed.data.batches import Batch, Batches, Position
from allyouneed.data.packing import Indices
from allyouneed.model.transformer import Transformer
from allyouneed.training.optimizer import make_adam, set_rate
from allyouneed.training.step import TrainStep

RATE = 1e-4
READY = "ready"


class Result(NamedTuple):
    system: str
    tokens_per_second: float
    model_teraflops: float
    peak_gib: float
    seconds_to_start: float
    loss: float


class RandomPairs:
    """Lengths as in WMT14 (mean 28, up to 126); frequent ids are as frequent as words are."""

    def __init__(self, n: int, vocab_size: int) -> None:
        rng = np.random.default_rng(0)
        source = rng.lognormal(3.15, 0.6, n)
        sides = np.stack((source, source * rng.lognormal(0.02, 0.2, n)), axis=1)
        self.lengths = sides.clip(1, 126).astype(np.int32)
        self.spans = ((0, n, 1.0, 1),)
        self._starts = np.concatenate(([0], self.lengths.sum(axis=1, dtype=np.int64).cumsum()))
        ranks = (vocab_size - 4) ** rng.random(self._starts[-1])  # Zipf's law
        self._ids = 3 + ranks.astype(np.int64)

    def texts(self, indices: Indices) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        ids = [
            np.split(
                self._ids[self._starts[index] : self._starts[index + 1]], [self.lengths[index, 0]]
            )
            for index in indices
        ]
        source, target = zip(*ids, strict=True)
        return np.concatenate(source), np.concatenate(target)


def our_step(model_config: ModelConfig, training: TrainingConfig, device: torch.device) -> Step:
    model = Transformer(model_config).to(device)
    optimizer = make_adam(model, training)
    set_rate(optimizer, RATE)
    step = TrainStep(model, optimizer, training)
    model.train()
    return lambda batch: step([batch]).loss


PEERS: dict[str, tuple[type[nn.Module], bool]] = {
    "Hugging Face Marian, sdpa": (Marian, False),
    "Hugging Face Marian, sdpa, compiled": (Marian, True),
    "torch.nn.Transformer": (TorchTransformer, False),
    "torch.nn.Transformer, compiled": (TorchTransformer, True),
}
OURS: dict[str, dict[str, Any]] = {
    "allyouneed, plain": {"fused": False, "compile": False},
    "allyouneed, plain, compiled": {"fused": False, "compile": True},
    "allyouneed": {},
}
DEFAULT_SYSTEMS = [name for name in (*PEERS, *OURS) if "compiled" in name] + ["allyouneed"]


def measure(system: str, model: ModelConfig, batch_tokens: int, steps: int, name: str) -> Result:
    device = torch.device(name)
    training = TrainingConfig(
        batch_tokens=batch_tokens,
        row_width=min(128, batch_tokens),
        batching="packed" if system in OURS else "padded",
        **OURS.get(system, {}),
    )
    torch.manual_seed(0)
    step: Step
    if system in OURS:
        step = our_step(model, training, device)
    else:
        peer, compiled = PEERS[system]
        its_model = peer(model).to(device).train()
        optimizer = peer_adam(its_model)
        set_rate(optimizer, RATE)
        step = peer_step(its_model, optimizer, training.label_smoothing, compiled)
    n_pairs = (steps + 5) * batch_tokens // 20
    stream = Batches(RandomPairs(n_pairs, model.vocab_size), training).starting_at(Position())
    batches = [batch for batch, _ in itertools.islice(stream, steps)]
    if system in PEERS:
        batches = [wider(batch) for batch in batches]
    if device.type == "cuda":
        batches = [batch.pinned() for batch in batches]
    start = time.perf_counter()
    for batch in batches[:2]:  # ours records its kernels in the second
        step(batch).item()
    first = time.perf_counter() - start
    run(step, batches)  # so that all have met every shape: compiled it, found memory for it
    print(READY, flush=True)
    sys.stdin.readline()  # until nobody else uses the device
    seconds, loss = run(step, batches)
    n_src, n_tgt = (
        sum(counts)
        for counts in zip(*((b.n_src_tokens, b.n_tgt_tokens) for b in batches), strict=True)
    )
    encoder, rest = products(model)
    return Result(
        system=system,
        tokens_per_second=(n_src + n_tgt) / seconds,
        model_teraflops=6 * (encoder * n_src + rest * n_tgt) / seconds / 1e12,
        peak_gib=torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else math.nan,
        seconds_to_start=first,
        loss=loss,
    )


def run(step: Step, batches: Sequence[Batch]) -> tuple[float, float]:
    """Seconds for all batches, and the loss of the last."""
    start = time.perf_counter()
    for batch in batches:
        loss = step(batch)
    value = loss.item()
    return time.perf_counter() - start, value


def products(config: ModelConfig) -> tuple[int, int]:
    """Weights that a source token is multiplied with, and a target token."""
    heads = 2 * config.d_model * config.n_heads * (config.d_k + config.d_v)
    feed_forward = 2 * config.d_model * config.d_ff
    encoder = config.n_layers * (heads + feed_forward)
    decoder = config.decoder_layers * (2 * heads + feed_forward)
    return encoder, decoder + config.vocab_size * config.d_model


def show(results: list[Result], title: str) -> None:
    table = Table("system", title=title)
    for column in ("ktok/s", "× fastest peer", "model TFLOP/s", "peak GiB", "start, s", "loss"):
        table.add_column(column, justify="right")
    peers = [result.tokens_per_second for result in results if result.system in PEERS]
    for result in results:
        table.add_row(
            result.system,
            f"{result.tokens_per_second / 1000:,.1f}",
            f"{result.tokens_per_second / max(peers):.2f}" if peers else "",
            f"{result.model_teraflops:,.2f}",
            f"{result.peak_gib:.1f}",
            f"{result.seconds_to_start:.1f}",
            f"{result.loss:.3f}",
        )
    Console(width=110).print(table)


def parse_arguments() -> argparse.Namespace:
    on_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=PRESETS, default="base" if on_gpu else "tiny")
    parser.add_argument("--vocab-size", type=int, default=37_000 if on_gpu else 4000)
    parser.add_argument("--batch-tokens", type=int, default=25_000 if on_gpu else 1024)
    parser.add_argument("--steps", type=int, default=100 if on_gpu else 10)
    parser.add_argument("--device", default="cuda" if on_gpu else "cpu")
    parser.add_argument("--systems", nargs="+", choices=[*PEERS, *OURS], default=DEFAULT_SYSTEMS)
    parser.add_argument(
        "--ready-together",
        action="store_true",
        help="let the systems compile side by side, in less time and more memory",
    )
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--one", choices=[*PEERS, *OURS], help=argparse.SUPPRESS)
    return parser.parse_args()


class Apart:
    """A process of its own: memory and compiled code of one system say nothing of the next."""

    def __init__(self, arguments: argparse.Namespace, system: str) -> None:
        sizes = itertools.chain.from_iterable(
            (f"--{name.replace('_', '-')}", str(getattr(arguments, name)))
            for name in ("model", "vocab_size", "batch_tokens", "steps", "device")
        )
        # Peers meet another shape with every batch; without this their memory falls to pieces.
        environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--one", system, *sizes],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip

    def wait_until_ready(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == READY:
                return
        raise SystemExit("a system ended before it was ready")

    def result(self) -> Result:
        """Time the steps now."""
        answer, _ = self._process.communicate("go\n")
        result = Result(**json.loads(answer.splitlines()[-1]))
        print(result, file=sys.stderr)
        return result


def measured(arguments: argparse.Namespace) -> Iterator[Result]:
    """All systems, timed one after another."""
    if not arguments.ready_together:
        for system in arguments.systems:
            process = Apart(arguments, system)
            process.wait_until_ready()
            yield process.result()
        return
    processes = [Apart(arguments, system) for system in arguments.systems]
    for process in processes:
        process.wait_until_ready()
    for process in processes:
        yield process.result()


def main() -> None:
    arguments = parse_arguments()
    model = dataclasses.replace(PRESETS[arguments.model], vocab_size=arguments.vocab_size)
    if arguments.one:
        result = measure(
            arguments.one, model, arguments.batch_tokens, arguments.steps, arguments.device
        )
        print(json.dumps(result._asdict()))
        return
    results = list(measured(arguments))
    device = torch.cuda.get_device_name() if arguments.device == "cuda" else "CPU"
    show(results, f"{arguments.model} model on {device}, torch {torch.__version__}")
    if arguments.json:
        figures = [result._asdict() for result in results]
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
