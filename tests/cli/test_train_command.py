"""`allyouneed train` as a process: killed, interrupted, gone on with; mistakes in the run file."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from torch.testing import assert_close

from allyouneed.checkpoint import load_weights
from allyouneed.config import RunConfig
from allyouneed.run_file import save_run
from allyouneed.training.checkpoints import list_checkpoints


def command(*arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "allyouneed", *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finish(process: subprocess.Popen[str]) -> str:
    _, errors = process.communicate(timeout=300)
    return errors


def wait_until(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert process.poll() is None, finish(process)
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def run_file(toy_run: RunConfig, tmp_path: Path) -> Path:
    longer = dataclasses.replace(toy_run.training, steps=200, save_every=20, log_every=7)
    save_run(dataclasses.replace(toy_run, training=longer), tmp_path / "run.yaml")
    return tmp_path / "run.yaml"


def test_killed_and_interrupted_runs_end_with_the_weights_of_one_never_stopped(
    run_file: Path, tmp_path: Path
) -> None:
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    assert finish_well(command("train", run_file, "--folder", straight))
    checkpoints = broken / "checkpoints"

    killed = command("train", run_file, "--folder", broken)
    wait_until(lambda: list_checkpoints(checkpoints), killed)
    killed.send_signal(signal.SIGKILL)
    finish(killed)
    assert killed.returncode == -signal.SIGKILL
    at_kill = list_checkpoints(checkpoints)[-1]

    interrupted = command("train", run_file, "--folder", broken)
    wait_until(lambda: list_checkpoints(checkpoints)[-1] > at_kill, interrupted)
    interrupted.send_signal(signal.SIGTERM)
    errors = finish(interrupted)
    assert interrupted.returncode == 128 + signal.SIGTERM
    assert "going on after step" in errors
    assert "stopped and saved" in errors
    assert "Traceback" not in errors

    assert finish_well(command("train", run_file, "--folder", broken))
    weights, other_weights = (load_weights(folder / "model") for folder in (straight, broken))
    assert_close(other_weights, weights, rtol=0, atol=0)
    assert (broken / "curves.png").exists()


def finish_well(process: subprocess.Popen[str]) -> bool:
    errors = finish(process)
    assert process.returncode == 0, errors
    return "all steps made" in errors


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.stepz=3", "training.stepz is not a setting; did you mean steps?"),
        ("training.device=cuda:99", "cuda:99"),
        ("data.corpora=[{source: missing.en, target: missing.de}]", "missing.en"),
        ("data.corpora=[]", "data.corpora names no corpus"),
        ("data.dev={source: missing.en, target: missing.de}", "missing.en"),
        ("training.seed=-1", "seed is -1"),
        ("training.patience=3", "set data.dev"),
    ],
)
def test_mistakes_exit_with_2_and_leave_nothing_behind(
    run_file: Path, tmp_path: Path, override: str, message: str
) -> None:
    process = command("train", run_file, "--folder", tmp_path / "new", "--set", override)

    errors = finish(process)

    assert process.returncode == 2
    assert errors.startswith("error: ")
    assert message in errors
    assert "Traceback" not in errors
    assert not list((tmp_path / "new").glob("checkpoints/*"))
