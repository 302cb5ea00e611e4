"""Translated files, kept in memory until they are fetched or forgotten."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

_LIFETIME = 600.0  # seconds
_MOST_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Download:
    filename: str
    content: bytes
    until: float


class Downloads:
    """Found only by those who know the name, which cannot be guessed."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._files: dict[str, Download] = {}  # the oldest first

    def add(self, filename: str, content: bytes) -> str:
        """Keep a file and give it a name; the oldest go when there is too much."""
        self._forget_old()
        name = secrets.token_urlsafe(24)
        self._files[name] = Download(filename, content, self._clock() + _LIFETIME)
        while sum(len(file.content) for file in self._files.values()) > _MOST_BYTES:
            del self._files[next(iter(self._files))]
        return name

    def get(self, name: str) -> Download | None:
        self._forget_old()
        return self._files.get(name)

    def _forget_old(self) -> None:
        now = self._clock()
        self._files = {name: file for name, file in self._files.items() if file.until > now}
