"""Who may ask, and how often."""

import hashlib
import hmac
import math
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from time import monotonic

from allyouneed.serving.refusals import Refusal
from allyouneed.serving.settings import Settings

_MOST_CALLERS = 10_000  # remembered; then those who have not asked for a minute are forgotten


class Admission:
    """Keys and rates. Keys are kept and compared as digests only."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = monotonic) -> None:
        self._digests = [_digest(key) for key in settings.keys]
        self._rate = settings.requests_per_minute
        self._clock = clock
        self._allowances: dict[bytes, _Allowance] = {}

    @property
    def key_required(self) -> bool:
        return bool(self._digests)

    def admit(self, key: str | None, address: str) -> None:
        """Let a request pass, or refuse it."""
        caller = _digest(key) if key and self._digests else address.encode()
        if self._digests:
            self._check_key(key, caller)
        if self._rate is not None:
            self._count(caller, self._rate)

    def _check_key(self, key: str | None, digest: bytes) -> None:
        if not key:
            raise Refusal(
                HTTPStatus.FORBIDDEN,
                "an API key is required: send it as api_key, or as Authorization: Bearer KEY",
            )
        # All are compared, each in constant time: how long it takes tells nothing of a key.
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        if not any(matches):
            raise Refusal(HTTPStatus.FORBIDDEN, "Invalid API key")

    def _count(self, caller: bytes, rate: int) -> None:
        now = self._clock()
        if len(self._allowances) >= _MOST_CALLERS:
            self._allowances = {
                it: allowance for it, allowance in self._allowances.items() if now < allowance.full
            }
        allowance = self._allowances.setdefault(caller, _Allowance(now))
        if (seconds := allowance.take(now, rate)) > 0:
            raise Refusal(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"Slowdown: {rate} requests per minute are allowed",
                retry_after=math.ceil(seconds),
            )


@dataclass
class _Allowance:
    """A bucket of a minute's requests that fills steadily; `full` is when it will be."""

    full: float

    def take(self, now: float, rate: int) -> float:
        """Use up one request; or say in how many seconds there will be one."""
        full = max(self.full, now) + 60 / rate
        if (missing := full - now - 60) > 1e-6:
            return missing
        self.full = full
        return 0.0


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
