"""How long a translation may be."""

from dataclasses import dataclass

from allyouneed.errors import ConfigError


@dataclass(frozen=True)
class Limits:
    """How long a translation may be, in tokens; a longest length counts the end mark."""

    max_extra_tokens: int = 50  # more than the source has
    max_length: int | None = None
    min_length: int = 0  # tokens before the end mark

    def __post_init__(self) -> None:
        if self.max_extra_tokens < 1:
            raise ConfigError(f"max_extra_tokens is {self.max_extra_tokens}; 1 or more works")
        if self.min_length < 0:
            raise ConfigError(f"min_length is {self.min_length}; 0 or more works")
        if self.max_length is not None and self.max_length <= self.min_length:
            raise ConfigError(
                f"max_length is {self.max_length}, min_length {self.min_length}: "
                "nothing is long and short enough; raise the former or lower the latter"
            )

    def longest(self, n_source_tokens: int) -> int:
        """The most tokens that a source of so many may become."""
        longest = max(n_source_tokens + self.max_extra_tokens, self.min_length + 1)
        return longest if self.max_length is None else min(longest, self.max_length)
