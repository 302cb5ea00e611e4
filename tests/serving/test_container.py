"""What can be held of the container without building it: the files agree with the package."""

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from allyouneed.cli.serve import serve
from allyouneed.inference.compilation import COMPILERS

ROOT = Path(__file__).parent.parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
STEPS = re.sub(r"\\\n", " ", DOCKERFILE)
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"][
    "allyouneed"
]
DEFAULTS: dict[str | None, Any] = {it.name: it.default for it in serve.params}
OPTIONS = {option for parameter in serve.params for option in parameter.opts}


def steps(name: str) -> list[str]:
    return re.findall(rf"^{name} (.*)$", STEPS, re.MULTILINE)


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    kept = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    copied = [source for step in steps("COPY") for source in step.split()[:-1]]

    assert copied
    assert set(copied) <= set(kept)
    assert all((ROOT / source).exists() for source in copied)


def test_all_that_the_build_reads_is_copied() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert project["readme"] in " ".join(steps("COPY"))
    assert "serve" in project["optional-dependencies"]
    assert "[serve]" in DOCKERFILE


def test_it_does_not_run_as_root() -> None:
    assert steps("USER") == ["allyouneed"]
    assert DOCKERFILE.index("USER allyouneed") < DOCKERFILE.index("ENTRYPOINT")


def test_the_native_engine_can_be_compiled_and_kept_on_a_read_only_disk() -> None:
    [home] = steps("WORKDIR")

    assert any("g++" in step and "g++" in COMPILERS for step in steps("RUN"))
    assert COMPOSE["read_only"]
    assert f"{home}/.cache:exec" in COMPOSE["tmpfs"]  # Docker's are not executable unasked


def test_it_serves_the_port_it_exposes_with_options_that_exist() -> None:
    [entry], [port] = steps("ENTRYPOINT"), steps("EXPOSE")

    assert set(re.findall(r"--[\w-]+", entry)) <= OPTIONS
    assert DEFAULTS["port"] == int(port)
    assert f":{port}/ready" in steps("HEALTHCHECK")[0]
    assert COMPOSE["ports"][0].endswith(f":{port}")


def test_docker_waits_for_what_runs_longer_than_the_server_does() -> None:
    assert int(COMPOSE["stop_grace_period"].removesuffix("s")) > DEFAULTS["timeout"]
