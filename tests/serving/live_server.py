"""A real server in a process of its own, for tests that speak to it as clients do."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

_PATIENCE = 60.0  # seconds to start, to stop


@dataclass(frozen=True)
class LiveServer:
    url: str
    process: subprocess.Popen[str]
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8")

    def stop(self) -> int:
        """Ask it to end, and give its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_PATIENCE)


@contextlib.contextmanager
def running_server(folder: Path, *options: str) -> Iterator[LiveServer]:
    """`allyouneed serve` with these options, ready to answer; its log goes into `folder`."""
    port = _free_port()
    command = [sys.executable, "-m", "allyouneed", "serve", "--device", "cpu", "--threads", "1"]
    log_file = folder / "server.log"
    with log_file.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port), *options],
            stdout=log,
            stderr=log,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    server = LiveServer(f"http://127.0.0.1:{port}", process, log_file)
    try:
        _wait_until_ready(server)
        yield server
    finally:
        process.kill()
        process.wait()


def _wait_until_ready(server: LiveServer) -> None:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if server.process.poll() is not None:
            raise RuntimeError(f"the server ended: {server.log}")
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{server.url}/ready").is_success:
                return
        time.sleep(0.05)
    raise TimeoutError(f"the server is not ready: {server.log}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
