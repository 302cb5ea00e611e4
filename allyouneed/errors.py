"""What a person can mend: each message says what was found and what to do about it."""


class UserError(Exception):
    """The command line shows the message without a traceback and exits with `exit_code`."""

    exit_code = 2


class ConfigError(UserError):
    """A run file, a flag or a value in it is wrong."""


class DataError(UserError):
    """A corpus, a prepared folder or an input text cannot be used."""


class CheckpointError(UserError):
    """A model folder or checkpoint is missing, damaged or does not fit."""


class TrainingError(UserError):
    """A run cannot go on: out of memory, a loss that is not a number."""


class MissingExtraError(UserError):
    """A feature needs a package that the core install leaves out."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package}, of the extra {extra}; install it with: "
            f"pip install {package} (in a clone, all of it: pip install -e '.[{extra}]')"
        )
