"""What a server allows, and how it joins what it is asked."""

from dataclasses import dataclass

from allyouneed.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Lengths are those of one request; times are in seconds."""

    max_characters: int = 50_000
    max_sentences: int = 1_000
    max_body: int = 2**20  # bytes
    max_beam_size: int = 16
    timeout: float = 60.0  # a request; in a stream, each of its sentences
    max_waiting: int = 2_000  # sentences of all requests; beyond, the answer is 503
    batch_sentences: int = 32
    batch_wait: float = 0.005  # how long an idle model waits for company
    requests_per_minute: int | None = None  # of a key, or of an address where there are no keys
    keys: frozenset[str] = frozenset()  # none: everybody may ask
    allowed_origins: tuple[str, ...] = ()  # of other sites' pages

    def __post_init__(self) -> None:
        if self.max_waiting < self.max_sentences:
            raise ConfigError(
                f"a request may have {self.max_sentences} sentences, but only {self.max_waiting} "
                "may wait; raise the latter or lower the former"
            )
