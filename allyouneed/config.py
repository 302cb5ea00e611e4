"""Every setting of a model and of a run, with the paper's values as defaults.

The sections of a run file are the dataclasses below; `run_file` reads one.
"""

import re
import types
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from allyouneed.errors import ConfigError


def _positive(config: object, *names: str) -> None:
    for name in names:
        if not getattr(config, name) > 0:  # so that not-a-number is refused too
            raise ConfigError(f"{name} is {getattr(config, name)}; it must be more than 0")


def _fraction(config: object, name: str) -> None:
    if not 0 <= getattr(config, name) < 1:
        raise ConfigError(f"{name} is {getattr(config, name)}; it must be from 0 up to, not at, 1")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The columns of Table 3; the defaults are the base model."""

    vocab_size: int = 37_000  # source and target share one vocabulary
    n_layers: int = 6  # N, in the encoder and, unless the next line says otherwise, the decoder
    n_decoder_layers: int | None = None
    d_model: int = 512
    d_ff: int = 2048
    n_heads: int = 8
    d_k: int = 64
    d_v: int = 64
    dropout: float = 0.1
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    max_positions: int = 1024  # of learned positions only; sinusoids have no limit

    def __post_init__(self) -> None:
        _positive(self, "vocab_size", "n_layers", "d_model", "d_ff", "n_heads", "d_k", "d_v")
        _positive(self, "max_positions")
        _fraction(self, "dropout")
        if self.n_decoder_layers is not None:
            _positive(self, "n_decoder_layers")
        if self.d_model % 2:
            raise ConfigError(
                f"d_model is {self.d_model}; sines and cosines come in pairs, so it must be even"
            )

    @property
    def decoder_layers(self) -> int:
        return self.n_layers if self.n_decoder_layers is None else self.n_decoder_layers

    @property
    def max_length(self) -> int | None:
        """The longest sentence the model can take; None where there is no limit."""
        return None if self.positions == "sinusoidal" else self.max_positions


PRESETS: Mapping[str, ModelConfig] = types.MappingProxyType(
    {
        "tiny": ModelConfig(
            vocab_size=8_000, n_layers=4, d_model=128, d_ff=256, n_heads=4, d_k=32, d_v=32,
            dropout=0.3,
        ),
        "small": ModelConfig(
            vocab_size=8_000, n_layers=3, d_model=256, d_ff=1024, n_heads=4, d_k=64, d_v=64,
            dropout=0.3,
        ),
        "base": ModelConfig(),
        "big": ModelConfig(d_model=1024, d_ff=4096, n_heads=16, dropout=0.3),
    }
)  # fmt: skip


# In the name of a corpus' file, a word of its own: the language of that side.
LANG = "LANG"
_LANG = re.compile(rf"(?<![A-Za-z]){LANG}(?![A-Za-z])")


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """Parallel text: two aligned files, or one file of tab-separated pairs."""

    source: str | None = None
    target: str | None = None
    tsv: str | None = None
    files: str | None = None  # source and target in one: names that differ in the language only
    name: str | None = None
    weight: float = 1.0  # how often an epoch shows each pair; 0.5 shows half of them

    def __post_init__(self) -> None:
        given = [key for key in ("source", "target", "tsv", "files") if getattr(self, key)]
        if given not in (["source", "target"], ["tsv"], ["files"]):
            raise ConfigError(
                f"source is {self.source}, target is {self.target}, tsv is {self.tsv} and files is "
                f"{self.files}; a corpus is either source and target (two aligned files), or tsv "
                f"(one file), or files (two in one name, with {LANG} for the language)"
            )
        if self.files and not _LANG.search(self.files):
            raise ConfigError(
                f"files is {self.files}; write {LANG} where the two names have their language, "
                "or give source and target"
            )
        _positive(self, "weight")

    @property
    def label(self) -> str:
        """The name that reports and prepared files use."""
        return self.name or Path(self.tsv or self.source or self.files or "").name.split(".")[0]

    def between(self, source_language: str, target_language: str) -> "CorpusConfig":
        """The same corpus with the names of its two files written out."""
        source, target = self.files or self.source, self.files or self.target
        return replace(
            self,
            files=None,
            source=source and _LANG.sub(source_language, source),
            target=target and _LANG.sub(target_language, target),
        )


@dataclass(frozen=True, kw_only=True)
class FilterConfig:
    """Which pairs `prepare` leaves out; None or false turns a filter off."""

    max_tokens: int = 256  # on either side, counted in pieces with the end mark
    max_ratio: float | None = 3.0  # of the longer side to the shorter one, in characters
    copies: bool = True  # the target repeats the source
    duplicates: bool = True  # the pair was seen before, in any corpus
    max_foreign_letters: float | None = 0.5  # share of letters in a script the language lacks

    def __post_init__(self) -> None:
        _positive(self, "max_tokens")
        if self.max_ratio is not None and self.max_ratio < 1:
            raise ConfigError(f"max_ratio is {self.max_ratio}; it must be 1 or more")
        if self.max_foreign_letters is not None:
            _fraction(self, "max_foreign_letters")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """What to learn from."""

    corpora: tuple[CorpusConfig, ...] = ()
    dev: CorpusConfig | None = None  # validation during training
    filters: FilterConfig = field(default_factory=FilterConfig)
    tokenizer: str | None = None  # a tokenizer.model to use instead of learning one
    vocab_sample: int = 2_000_000  # sentences the vocabulary is learned from
    character_coverage: float = 0.9999  # rarer characters are spelled in bytes
    segmentations: int = 1  # ways to cut the text into pieces, from the second on at random ...
    subword_dropout: float = 0.1  # ... by leaving out this share of BPE's merges
    workers: int | None = None  # processes; None takes every core, up to 16

    def __post_init__(self) -> None:
        _positive(self, "vocab_sample", "segmentations")
        _fraction(self, "subword_dropout")
        if self.workers is not None:
            _positive(self, "workers")
        if not 0 < self.character_coverage <= 1:
            raise ConfigError(
                f"character_coverage is {self.character_coverage}; it must be above 0, at most 1"
            )

    def between(self, source_language: str, target_language: str) -> "DataConfig":
        """The same data with the names of all files written out."""
        languages = source_language, target_language
        return replace(
            self,
            corpora=tuple(corpus.between(*languages) for corpus in self.corpora),
            dev=self.dev and self.dev.between(*languages),
        )


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Section 5; the defaults are the base run."""

    start_from: str | None = None  # a model folder or shipped model to adapt; None: from chance
    steps: int = 100_000
    batch_tokens: int = 25_000  # source tokens a batch, and as many target tokens
    accumulate: int = 1  # batches a step
    batching: Literal["packed", "padded"] = "packed"
    row_width: int = 128  # of a packed row; longer sentences take rows twice or more as wide
    warmup_steps: int = 4000
    rate_scale: float = 1.0  # multiplies the rate of section 5.3
    cooldown_steps: int = 0  # the last steps, over which the rate falls to zero in a line
    adam_beta1: float = 0.9
    adam_beta2: float = 0.98
    adam_epsilon: float = 1e-9
    label_smoothing: float = 0.1
    clip_norm: float | None = None
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # auto: bfloat16 on a GPU
    fused: bool | None = None  # by kernels of our own; None: on a GPU
    compile: bool | None = None  # what is not fused, by torch.compile; None: on a GPU
    device: str = "auto"
    parallel: Literal["ddp", "fsdp"] = "ddp"  # the model of each rank: a replica, or a part
    seed: int = 1
    log_every: int = 50
    validate_every: int = 1000
    save_every: int = 1000
    keep_checkpoints: int = 5
    average: int = 5  # the last checkpoints that the final model is the mean of
    best_by: Literal["bleu", "loss"] = "bleu"
    patience: int | None = None  # validations without a better one before the run stops
    tensorboard: bool = False

    def __post_init__(self) -> None:
        _positive(self, "steps", "batch_tokens", "accumulate", "row_width", "warmup_steps")
        _positive(self, "rate_scale", "log_every", "validate_every", "save_every")
        _positive(self, "keep_checkpoints", "average", "adam_epsilon")
        for name in ("label_smoothing", "adam_beta1", "adam_beta2"):
            _fraction(self, name)
        if self.batching == "packed" and self.batch_tokens < self.row_width:
            raise ConfigError(
                f"batch_tokens is {self.batch_tokens}, less than one row of row_width = "
                f"{self.row_width}; raise the one or lower the other"
            )
        if self.parallel == "fsdp" and self.fused:
            raise ConfigError("fused kernels need whole weights; set parallel: ddp or fused: false")
        if self.seed < 0:
            raise ConfigError(f"seed is {self.seed}; it must be 0 or more")
        if not 0 <= self.cooldown_steps <= self.steps:
            raise ConfigError(
                f"cooldown_steps is {self.cooldown_steps}; it must be from 0 to {self.steps} steps"
            )
        for name in ("clip_norm", "patience"):
            if getattr(self, name) is not None:
                _positive(self, name)
        if self.average > self.keep_checkpoints:
            raise ConfigError(
                f"average is {self.average} but only keep_checkpoints = "
                f"{self.keep_checkpoints} are kept; raise the latter"
            )


@dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """Section 6.1: how a model translates unless it is told otherwise."""

    beam_size: int = 4
    length_penalty: float = 0.6  # α of ((5 + |Y|) / 6)^α
    max_extra_tokens: int = 50  # the output may be this much longer than the input
    lower_capitals: bool = False  # read TEXT LIKE THIS in lower case, and write it in capitals

    def __post_init__(self) -> None:
        _positive(self, "beam_size", "max_extra_tokens")
        if self.length_penalty < 0:
            raise ConfigError(f"length_penalty is {self.length_penalty}; 0 or more works")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One YAML file."""

    source_language: str = "en"
    target_language: str = "de"
    folder: str = "run"  # where everything the run makes is kept
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)

    def __post_init__(self) -> None:
        # Once and for all, so that nothing else has to know of names with a gap in them.
        data = self.data.between(self.source_language, self.target_language)
        object.__setattr__(self, "data", data)
        model, max_tokens = self.model, self.data.filters.max_tokens
        if model.positions == "learned" and max_tokens > model.max_positions:
            raise ConfigError(
                f"data.filters.max_tokens is {max_tokens} but the model learns "
                f"model.max_positions = {model.max_positions}; make them equal"
            )
        if self.training.patience is not None and self.data.dev is None:
            raise ConfigError("training.patience waits for validations; set data.dev as well")
