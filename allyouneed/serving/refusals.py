"""Answers other than the one that was hoped for."""

from http import HTTPStatus


class Refusal(Exception):  # noqa: N818  (what the server says, not what went wrong in it)
    """A status of 4xx or 5xx, why, and what to do about it."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after  # seconds

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


class ClientGone(Exception):  # noqa: N818  (nobody is left to read an error)
    """Whoever asked has hung up."""


def bad_request(message: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, f"Invalid request: {message}")
