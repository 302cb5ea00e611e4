"""`allyouneed serve`: translations over HTTP."""

import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from allyouneed.errors import ConfigError, MissingExtraError
from allyouneed.serving.settings import Settings

AT_LEAST_ONE = click.IntRange(min=1)
POSITIVE = click.FloatRange(min=0, min_open=True)


@click.command()
@click.option(
    "--model",
    "models",
    multiple=True,
    help="A folder, NAME=FOLDER, or a shipped model's name; repeatable. Default: all shipped.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="0.0.0.0: all networks.")
@click.option("--port", type=click.IntRange(0, 65535), default=5000, show_default=True)
@click.option("--device", default="auto", show_default=True, help="Where the models run.")
@click.option("--threads", type=AT_LEAST_ONE, help="CPU threads. Default: all cores.")
@click.option(
    "--max-characters", type=AT_LEAST_ONE, default=50_000, show_default=True, help="Of a request."
)
@click.option(
    "--max-sentences", type=AT_LEAST_ONE, default=1_000, show_default=True, help="Of a request."
)
@click.option(
    "--max-body", type=AT_LEAST_ONE, default=2**20, show_default=True, help="Bytes of a request."
)
@click.option(
    "--max-waiting", type=AT_LEAST_ONE, default=2_000, show_default=True, help="Sentences in queue."
)
@click.option("--timeout", type=POSITIVE, default=60.0, show_default=True, help="Seconds.")
@click.option(
    "--batch-sentences", type=AT_LEAST_ONE, default=32, show_default=True, help="At once."
)
@click.option(
    "--batch-wait",
    type=click.FloatRange(min=0, max=1),
    default=0.005,
    show_default=True,
    help="Seconds that an idle model waits for more.",
)
@click.option(
    "--keys",
    type=click.Path(path_type=Path),
    envvar="ALLYOUNEED_KEYS",
    show_envvar=True,
    help="A file with a key a line; only they may ask.",
)
@click.option(
    "--requests-per-minute", type=AT_LEAST_ONE, help="Of a key or an address. Default: any number."
)
@click.option(
    "--allow-origin", "origins", multiple=True, help="Let that site's pages ask; repeatable."
)
def serve(
    models: tuple[str, ...],
    host: str,
    port: int,
    device: str,
    threads: int | None,
    max_characters: int,
    max_sentences: int,
    max_body: int,
    max_waiting: int,
    timeout: float,
    batch_sentences: int,
    batch_wait: float,
    keys: Path | None,
    requests_per_minute: int | None,
    origins: tuple[str, ...],
) -> None:
    """Serve translations over HTTP, and a page at http://127.0.0.1:5000."""
    settings = Settings(
        max_characters=max_characters,
        max_sentences=max_sentences,
        max_body=max_body,
        timeout=timeout,
        max_waiting=max_waiting,
        batch_sentences=batch_sentences,
        batch_wait=batch_wait,
        requests_per_minute=requests_per_minute,
        keys=frozenset() if keys is None else _read_keys(keys),
        allowed_origins=origins,
    )
    try:
        from allyouneed.serving.server import named_models
        from allyouneed.serving.server import serve as run
    except ImportError as error:
        raise MissingExtraError(error.name or "fastapi", "serve", "serving") from None

    _log_as_json()
    if sys.stdout.isatty():
        click.echo(f"the page: http://{f'[{host}]' if ':' in host else host}:{port}")
    run(named_models(models), settings, host=host, port=port, device=device, n_threads=threads)


def _read_keys(path: Path) -> frozenset[str]:
    """A key a line; what follows `#` is a comment."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(
            f"--keys {path}: cannot be read: {error.strerror}; name a file with a key a line"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8; write a key a line") from None
    keys = {line.partition("#")[0].strip() for line in lines} - {""}
    if not keys:
        raise ConfigError(f"{path}: no key in it; write a key a line, or leave --keys out")
    return frozenset(keys)


def _log_as_json() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


# What every record has, and what uvicorn adds for terminals.
_NOT_FIELDS = {*vars(logging.makeLogRecord({})), "message", "color_message"}


class _JsonLines(logging.Formatter):
    """One object a line: time, level, logger, event, and the fields that came with it."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        fields |= {name: it for name, it in vars(record).items() if name not in _NOT_FIELDS}
        if record.exc_info and record.exc_info[0]:
            fields["exception"] = record.exc_info[0].__name__  # its message might quote a text
        return json.dumps(fields, ensure_ascii=False, default=str)
