"""A server that runs until it is told to stop, then finishes what it has begun."""

import math
import signal
import socket
from collections.abc import Mapping
from pathlib import Path

import torch
import uvicorn

from allyouneed.errors import ConfigError
from allyouneed.models import find_model, shipped_models
from allyouneed.serving.app import create_app
from allyouneed.serving.settings import Settings
from allyouneed.translator import Translator


def serve(
    models: Mapping[str, Path],
    settings: Settings,
    *,
    host: str,
    port: int,
    device: str = "auto",
    n_threads: int | None = None,
    shortlist: bool | None = None,
) -> None:
    """Serve model folders under these names; SIGTERM and Ctrl-C end it gently."""
    if n_threads is not None:
        torch.set_num_threads(n_threads)  # where it is not the native engine that computes
    failures: list[Exception] = []

    def load() -> dict[str, Translator]:
        return {
            name: Translator.load(folder, device, threads=n_threads, shortlist=shortlist)
            for name, folder in models.items()
        }

    def fail(error: Exception) -> None:
        failures.append(error)
        server.should_exit = True

    server = uvicorn.Server(
        uvicorn.Config(
            create_app(load, settings, fail),
            access_log=False,  # `Watch` writes one that holds no addresses and no keys
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=math.ceil(settings.timeout),
        )
    )
    with _bound(host, port) as listening:
        # uvicorn raises the signal that stopped it once more when all is done. Being told to stop
        # and stopping is a success.
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            server.run(sockets=[listening])
        finally:
            signal.signal(signal.SIGTERM, before)
    if failures:
        raise failures[0]


def named_models(models: tuple[str, ...]) -> dict[str, Path]:
    """What `--model` lists, as `NAME=FOLDER`, a folder, or a shipped model; all shipped if none."""
    found: dict[str, Path] = {}
    for model in models or shipped_models():
        name, equals, place = model.partition("=")
        folder = find_model(place if equals else model)
        if not equals:
            # A run keeps its model in a folder called `model`, and has the better name.
            name = (folder if folder.name != "model" else folder.absolute().parent).name
        if name in found:
            raise ConfigError(f"two models are called {name}; name them: --model NAME=FOLDER")
        found[name] = folder
    return found or {"model": find_model()}


def _bound(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except (OSError, OverflowError) as error:
        raise ConfigError(f"cannot listen at {host}, port {port}: {error}; try another") from None
