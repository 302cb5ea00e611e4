"""Two ranks make of a run what one process makes of it, even if one of them is killed."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from one_step import FUSIBLE, gradients_and_result
from safetensors.torch import load_file
from torch.testing import assert_close
from toy_world import make_toy_run, write_toy_text

from allyouneed.checkpoint import load_weights
from allyouneed.config import RunConfig
from allyouneed.errors import ConfigError
from allyouneed.run_file import load_run, save_run
from allyouneed.training.checkpoints import list_checkpoints
from allyouneed.training.distributed import ALONE, device_of_rank, joined_ranks, present_ranks
from allyouneed.training.events import Finished
from allyouneed.training.run import only_process_in, train

TWO_RANKS = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def torchrun(*arguments: object) -> subprocess.Popen[str]:
    here = os.pathsep.join((str(Path(__file__).parent), *sys.path))
    return subprocess.Popen(
        [sys.executable, *TWO_RANKS, *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TRITON_INTERPRET": "1", "PYTHONPATH": here},
    )


def finish(process: subprocess.Popen[str]) -> str:
    _, errors = process.communicate(timeout=240)
    return errors


def wait_until(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, finish(process)
        assert time.monotonic() < deadline
        time.sleep(0.01)


def logged(folder: Path, kind: str) -> dict[int, dict[str, Any]]:
    """Events by step; of those that were made twice the later."""
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    events = [record for record in map(json.loads, lines) if record["event"] == kind]
    return {record["step"]: record for record in events}


def with_training(run: RunConfig, folder: Path, **values: Any) -> RunConfig:
    training = dataclasses.replace(run.training, **values)
    return dataclasses.replace(run, folder=str(folder), training=training)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process made of a run, and what two ranks made of it."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("ranks")
    text = write_toy_text(folder)
    run = make_toy_run(folder, text)
    run = dataclasses.replace(run, data=dataclasses.replace(run.data, dev=text))
    long_run = with_training(run, folder, steps=120, save_every=10, validate_every=60)
    save_run(long_run, folder / "long.yaml")
    # Without dropout the losses of any number of ranks are the same, up to rounding, which a high
    # rate would soon blow up.
    calm = dataclasses.replace(run, model=dataclasses.replace(run.model, dropout=0.0))
    calm = with_training(calm, folder / "alone", rate_scale=0.1, accumulate=2)
    save_run(calm, folder / "run.yaml")
    train(calm)
    half = iter([False] * 5 + [True])
    train(with_training(calm, folder / "begun-alone"), stop_requested=lambda: next(half))
    process = torchrun(Path(__file__).with_name("two_ranks.py"), folder)
    errors = finish(process)
    assert process.returncode == 0, errors
    return folder


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_gradients_are_those_of_one_process(world: Path, parallel: str) -> None:
    assert_close(
        load_file(world / f"{parallel}.safetensors"),
        gradients_and_result("ddp"),
        rtol=1e-4,
        atol=1e-6,
    )


def test_fused_gradients_are_those_of_one_plain_process(world: Path) -> None:
    pytest.importorskip("triton", reason="Triton is not made for this system")

    assert_close(
        load_file(world / "fused.safetensors"),
        gradients_and_result("ddp", config=FUSIBLE),
        rtol=1e-3,
        atol=1e-5,
    )


@pytest.mark.parametrize("folder", ["ddp", "fsdp", "begun-alone"])
def test_two_ranks_have_the_learning_curve_of_one(world: Path, folder: str) -> None:
    for kind, values in {
        "step": ("loss", "nll", "grad_norm", "epoch"),
        "validation": ("loss", "bleu"),
        "finish": ("loss", "averaged"),
    }.items():
        alone, shared = logged(world / "alone", kind), logged(world / folder, kind)
        assert set(alone) <= set(shared)
        for step, record in alone.items():
            for value in values:
                assert shared[step][value] == pytest.approx(record[value], rel=1e-3), (step, value)


@pytest.mark.parametrize("folder", ["ddp", "fsdp"])
def test_one_process_goes_on_with_what_two_ranks_began(world: Path, folder: str) -> None:
    run = load_run(world / "run.yaml", [])

    outcome = train(with_training(run, world / folder, steps=16))
    straight = train(with_training(run, world / "alone", steps=16))

    assert isinstance(outcome, Finished)
    assert isinstance(straight, Finished)
    assert outcome.step == 16
    assert outcome.loss == pytest.approx(straight.loss, rel=1e-3)


def test_a_killed_rank_is_restarted_and_the_run_ends_as_if_nothing_had_been(world: Path) -> None:
    broken = world / "broken"
    run_file = world / "long.yaml"
    process = torchrun(
        "--max-restarts", 1, "-m", "allyouneed", "train", run_file, "--folder", broken
    )
    wait_until(lambda: list_checkpoints(broken / "checkpoints"), process)
    os.kill(workers(process)[1], signal.SIGKILL)

    errors = finish(process)

    assert process.returncode == 0, errors
    assert "going on after step" in errors
    assert_close(
        load_weights(broken / "model"), load_weights(world / "straight" / "model"), rtol=0, atol=0
    )


def workers(process: subprocess.Popen[str]) -> list[int]:
    """The ranks that torchrun has started, in order."""
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    return sorted(int(child) for task in tasks for child in task.read_text().split())


@pytest.mark.parametrize("to", ["torchrun", "one-rank"])
def test_a_signal_stops_all_ranks_with_one_checkpoint(world: Path, to: str) -> None:
    stopped = world / f"stopped-{to}"
    process = torchrun("-m", "allyouneed", "train", world / "long.yaml", "--folder", stopped)
    wait_until(lambda: list_checkpoints(stopped / "checkpoints"), process)
    os.kill(process.pid if to == "torchrun" else workers(process)[1], signal.SIGTERM)

    errors = finish(process)

    assert errors.count("stopped and saved") == 1
    [stop] = logged(stopped, "stop").values()
    assert stop["path"] == str(list_checkpoints(stopped / "checkpoints")[-1])


def test_a_mistake_that_the_first_rank_finds_stops_all_without_a_traceback(world: Path) -> None:
    with only_process_in(world / "straight"):
        process = torchrun(
            "-m", "allyouneed", "train", world / "long.yaml", "--folder", world / "straight"
        )
        errors = finish(process)

    assert errors.count("error: ") == errors.count("another process is training here") == 2
    assert "allyouneed/training" not in errors  # torchrun itself ends with a traceback


def test_without_torchrun_a_process_is_alone() -> None:
    with joined_ranks("cpu"):
        ranks = present_ranks()

    assert ranks == ALONE
    assert ranks.any(True)
    assert not ranks.any(False)
    assert ranks.gather("mine") == ["mine"]


def test_ranks_cannot_share_one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)

    with pytest.raises(ConfigError, match="cuda:1, and every rank needs a GPU of its own"):
        device_of_rank("cuda:1", 0)
    with pytest.raises(ConfigError, match="has 2 GPUs and torchrun started a process number 3"):
        device_of_rank("auto", 2)


def test_ranks_without_gpus_take_the_cpu() -> None:
    assert device_of_rank("cpu", 1).type == "cpu"
