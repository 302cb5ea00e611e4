"""Settings: the paper's values by default, and no value that cannot work."""

import dataclasses
import math
from typing import Any

import pytest

from allyouneed.config import (
    PRESETS,
    CorpusConfig,
    DataConfig,
    DecodingConfig,
    FilterConfig,
    ModelConfig,
    RunConfig,
    TrainingConfig,
)
from allyouneed.errors import ConfigError


def test_the_default_model_is_the_papers_base() -> None:
    config = ModelConfig()

    assert PRESETS["base"] == config
    assert (config.n_layers, config.decoder_layers) == (6, 6)
    assert (config.d_model, config.d_ff) == (512, 2048)
    assert (config.n_heads, config.d_k, config.d_v) == (8, 64, 64)
    assert (config.dropout, config.vocab_size, config.positions) == (0.1, 37_000, "sinusoidal")


def test_big_differs_from_base_as_the_last_row_of_table_3_does() -> None:
    big = dataclasses.replace(PRESETS["base"], d_model=1024, d_ff=4096, n_heads=16, dropout=0.3)

    assert PRESETS["big"] == big


def test_the_default_training_is_section_5() -> None:
    config = TrainingConfig()

    assert (config.steps, config.batch_tokens, config.warmup_steps) == (100_000, 25_000, 4000)
    assert (config.adam_beta1, config.adam_beta2, config.adam_epsilon) == (0.9, 0.98, 1e-9)
    assert (config.label_smoothing, config.average) == (0.1, 5)
    assert (config.rate_scale, config.cooldown_steps, config.clip_norm) == (1, 0, None)


def test_the_default_decoding_is_section_6() -> None:
    config = DecodingConfig()

    assert (config.beam_size, config.length_penalty, config.max_extra_tokens) == (4, 0.6, 50)


def test_a_config_cannot_be_changed_after_it_was_checked() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ModelConfig().d_model = 511  # type: ignore[misc]


def test_the_decoder_is_as_deep_as_the_encoder_unless_told_otherwise() -> None:
    assert ModelConfig(n_layers=3).decoder_layers == 3
    assert ModelConfig(n_layers=3, n_decoder_layers=1).decoder_layers == 1


BAD_VALUES: list[tuple[type[Any], dict[str, Any]]] = [
    *[(ModelConfig, {name: 0}) for name in ("vocab_size", "n_layers", "n_decoder_layers")],
    *[(ModelConfig, {name: 0}) for name in ("d_model", "d_ff", "n_heads", "d_k", "d_v")],
    (ModelConfig, {"max_positions": 0}),
    (ModelConfig, {"d_model": 511}),
    (ModelConfig, {"dropout": 1.0}),
    (ModelConfig, {"dropout": -0.1}),
    *[(TrainingConfig, {name: 0}) for name in ("steps", "batch_tokens", "accumulate")],
    *[(TrainingConfig, {name: 0}) for name in ("row_width", "warmup_steps", "rate_scale")],
    *[(TrainingConfig, {name: 0}) for name in ("log_every", "validate_every", "save_every")],
    *[(TrainingConfig, {name: 0}) for name in ("keep_checkpoints", "clip_norm", "patience")],
    (TrainingConfig, {"average": 0}),
    (TrainingConfig, {"average": 6}),
    (TrainingConfig, {"rate_scale": math.nan}),
    (TrainingConfig, {"adam_beta1": 1.0}),
    (TrainingConfig, {"adam_beta2": 1.0}),
    (TrainingConfig, {"adam_epsilon": 0.0}),
    (TrainingConfig, {"label_smoothing": 1.0}),
    (TrainingConfig, {"cooldown_steps": -1}),
    (TrainingConfig, {"cooldown_steps": 100_001}),
    (DecodingConfig, {"beam_size": 0}),
    (DecodingConfig, {"max_extra_tokens": 0}),
    (DecodingConfig, {"length_penalty": -0.1}),
    (FilterConfig, {"max_tokens": 0}),
    (FilterConfig, {"max_ratio": 0.5}),
    (FilterConfig, {"max_foreign_letters": 1.5}),
    (DataConfig, {"vocab_sample": 0}),
    (DataConfig, {"workers": 0}),
    (DataConfig, {"character_coverage": 1.5}),
]


@pytest.mark.parametrize(("kind", "values"), BAD_VALUES, ids=str)
def test_a_value_that_cannot_work_is_refused_by_name(
    kind: type[Any], values: dict[str, Any]
) -> None:
    ((name, value),) = values.items()

    with pytest.raises(ConfigError, match=f"^{name} is {value}"):
        kind(**values)


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"source": "a"},
        {"target": "b"},
        {"source": "a", "target": "b", "tsv": "c"},
        {"target": "b", "tsv": "c"},
        {"files": "a.LANG", "tsv": "c"},
        {"files": "a.LANG", "source": "a", "target": "b"},
    ],
    ids=str,
)
def test_a_corpus_is_two_files_or_one(files: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="either source and target"):
        CorpusConfig(**files)  # type: ignore[arg-type]


def test_a_corpus_that_would_never_be_shown_is_refused() -> None:
    with pytest.raises(ConfigError, match="weight is 0"):
        CorpusConfig(tsv="a.tsv", weight=0)


def test_a_corpus_is_called_by_its_name_or_else_by_its_file() -> None:
    assert CorpusConfig(source="data/news.en.gz", target="data/news.de.gz").label == "news"
    assert CorpusConfig(tsv="data/web.tsv").label == "web"
    assert CorpusConfig(tsv="data/web.tsv", name="crawl").label == "crawl"
    assert CorpusConfig(files="data/talks.LANG.xz").label == "talks"


def test_files_of_one_name_need_a_place_for_the_language() -> None:
    with pytest.raises(ConfigError, match=r"^files is news\.en; write LANG"):
        CorpusConfig(files="news.en")


def test_a_run_writes_its_languages_into_the_names_of_its_files() -> None:
    data = DataConfig(
        corpora=(
            CorpusConfig(files="news/LANG/a.LANG.xz", weight=2, name="news"),
            CorpusConfig(source="typed.LANG", target="printed.LANG"),
            CorpusConfig(source="plain.1", target="SLANG/LANGUAGES"),
            CorpusConfig(tsv="LANG.tsv"),
        ),
        dev=CorpusConfig(files="dev.LANG"),
    )

    run = RunConfig(source_language="de", target_language="en", data=data)

    assert run.data.corpora == (
        CorpusConfig(source="news/de/a.de.xz", target="news/en/a.en.xz", weight=2, name="news"),
        CorpusConfig(source="typed.de", target="printed.en"),
        CorpusConfig(source="plain.1", target="SLANG/LANGUAGES"),
        CorpusConfig(tsv="LANG.tsv"),
    )
    assert run.data.dev == CorpusConfig(source="dev.de", target="dev.en")


def test_fused_kernels_and_a_model_in_parts_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="fused kernels need whole weights"):
        TrainingConfig(parallel="fsdp", fused=True)
