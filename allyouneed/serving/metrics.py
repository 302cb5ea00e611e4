"""What Prometheus is told: counts and histograms in base units, of a bounded number of labels."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128)
_METHODS = {"GET", "HEAD", "POST", "OPTIONS"}


class Metrics:
    """One server's; no label holds anything that a client can choose freely."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ours: Any = partial(dict, namespace="allyouneed", registry=self._registry)
        self._requests = Counter(
            "http_requests", "Requests answered.", ["method", "path", "status"], **ours()
        )
        self._duration = Histogram(
            "http_request_duration_seconds",
            "From the first byte of a request to the last of its answer.",
            ["path"],
            **ours(buckets=_SECONDS),
        )
        self.in_flight = Gauge("http_requests_in_flight", "Requests being answered.", **ours())
        self._waiting = Gauge("waiting_sentences", "Sentences in the queue.", **ours())
        self._queue = Histogram(
            "queue_seconds", "How long a sentence waited.", **ours(buckets=_SECONDS)
        )
        self._batch_sentences = Histogram(
            "batch_sentences", "Sentences translated together.", **ours(buckets=_SENTENCES)
        )
        self._batch_duration = Histogram(
            "batch_duration_seconds", "How long a batch took.", **ours(buckets=_SECONDS)
        )
        self._sentences = Counter("sentences", "Sentences translated.", **ours())
        self._tokens = Counter("source_tokens", "Source tokens translated.", **ours())

    def request(self, method: str, path: str, status: int, seconds: float) -> None:
        method = method if method in _METHODS else "other"
        self._requests.labels(method, path, str(status)).inc()
        self._duration.labels(path).observe(seconds)

    def waiting(self, n_sentences: int) -> None:
        self._waiting.set(n_sentences)

    def queue_seconds(self, waits: Iterable[float]) -> None:
        for seconds in waits:
            self._queue.observe(seconds)

    def batch(self, n_sentences: int, n_tokens: int, seconds: float) -> None:
        self._batch_sentences.observe(n_sentences)
        self._batch_duration.observe(seconds)
        self._sentences.inc(n_sentences)
        self._tokens.inc(n_tokens)

    def exposition(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self._registry)
