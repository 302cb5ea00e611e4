"""Runs that adapt a model."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from allyouneed.checkpoint import (
    TOKENIZER,
    load_manifest,
    load_model,
    load_weights,
    save_model,
)
from allyouneed.config import CorpusConfig, DecodingConfig, ModelConfig, RunConfig
from allyouneed.errors import CheckpointError, ConfigError
from allyouneed.training.checkpoints import list_checkpoints
from allyouneed.training.run import train
from allyouneed.training.starting import with_start


def adapting(run: RunConfig, folder: Path, **training: Any) -> RunConfig:
    return dataclasses.replace(
        run,
        folder=str(folder),
        model=ModelConfig(),
        training=dataclasses.replace(
            run.training, **{"start_from": f"{run.folder}/model"} | training
        ),
    )


def with_data(run: RunConfig, **data: Any) -> RunConfig:
    return dataclasses.replace(run, data=dataclasses.replace(run.data, **data))


def copy_of(
    trained: RunConfig, folder: Path, dtype: torch.dtype = torch.float32, **manifest: Any
) -> Path:
    """The model of a run, stored or described in another way."""
    model, tokenizer, its_manifest = load_model(Path(trained.folder) / "model")
    changed = dataclasses.replace(its_manifest, **manifest)
    save_model(folder, model.state_dict(), tokenizer, changed, dtype)
    return folder


def validations(run: RunConfig) -> list[dict[str, Any]]:
    lines = (Path(run.folder) / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == "validation"]


@pytest.fixture
def trained(toy_run: RunConfig) -> RunConfig:
    train(toy_run)
    return toy_run


def test_it_goes_on_with_the_weights_of_the_model(trained: RunConfig, tmp_path: Path) -> None:
    train(adapting(trained, tmp_path / "adapted", steps=2, rate_scale=1e-9))

    adapted = load_weights(tmp_path / "adapted" / "model")
    assert_close(adapted, load_weights(Path(trained.folder) / "model"), rtol=0, atol=1e-6)


def test_sizes_and_vocabulary_are_the_models_and_dropout_is_the_runs(
    trained: RunConfig, tmp_path: Path
) -> None:
    run = adapting(trained, tmp_path / "adapted")
    run = dataclasses.replace(run, model=ModelConfig(dropout=0.25))

    model = with_start(run).model

    expected = load_manifest(Path(trained.folder) / "model").model
    assert model == dataclasses.replace(expected, dropout=0.25)
    named = with_start(run).data.tokenizer
    assert named is not None
    assert (
        Path(named).read_bytes()
        == (Path(trained.folder) / "model" / "tokenizer.model").read_bytes()
    )
    assert with_start(with_start(run)) == with_start(run)


def test_a_model_in_eight_bits_learns_other_text_and_keeps_its_vocabulary(
    trained: RunConfig, tmp_path: Path
) -> None:
    start = copy_of(trained, tmp_path / "int8", torch.int8)
    (tmp_path / "other.src").write_text("haus hund\nkatze rot\n" * 20, encoding="utf-8")
    (tmp_path / "other.tgt").write_text("das haus\ndie katze\n" * 20, encoding="utf-8")
    other = CorpusConfig(source=f"{tmp_path}/other.src", target=f"{tmp_path}/other.tgt")
    run = adapting(trained, tmp_path / "adapted", start_from=str(start), rate_scale=0.3)

    train(with_data(run, corpora=(other,), dev=other))

    losses = [event["loss"] for event in validations(run)]
    assert losses == sorted(losses, reverse=True)
    adapted = tmp_path / "adapted" / "model" / TOKENIZER
    assert adapted.read_bytes() == (start / TOKENIZER).read_bytes()


def test_the_model_is_scored_before_the_first_step_and_only_then(
    trained: RunConfig, toy_text: CorpusConfig, tmp_path: Path
) -> None:
    run = with_data(adapting(trained, tmp_path / "adapted"), dev=toy_text)

    train(run, stop_requested=lambda: True)
    train(run)

    assert [event["step"] for event in validations(run)] == [0, 6, 12]


def test_what_the_model_knows_of_long_texts_and_decoding_is_kept(
    trained: RunConfig, tmp_path: Path
) -> None:
    decoding = DecodingConfig(length_penalty=1.4)
    start = copy_of(trained, tmp_path / "start", max_source_tokens=99, decoding=decoding)
    silent = adapting(trained, tmp_path / "silent", start_from=str(start), steps=1)
    outspoken = dataclasses.replace(
        silent, folder=str(tmp_path / "outspoken"), decoding=DecodingConfig(beam_size=2)
    )

    train(silent)
    train(outspoken)

    kept, said = (load_manifest(Path(run.folder) / "model") for run in (silent, outspoken))
    assert kept.max_source_tokens == said.max_source_tokens == 99
    assert kept.decoding == decoding
    assert said.decoding == dataclasses.replace(decoding, beam_size=2)


def test_longer_texts_than_the_model_knew_are_learned(trained: RunConfig, tmp_path: Path) -> None:
    start = copy_of(trained, tmp_path / "start", max_source_tokens=2)

    train(adapting(trained, tmp_path / "adapted", start_from=str(start), steps=1))

    known, adapted = (
        load_manifest(Path(folder) / "model") for folder in (trained.folder, tmp_path / "adapted")
    )
    assert adapted.max_source_tokens == known.max_source_tokens > 2


def test_an_interrupted_adaptation_goes_on_from_its_own_checkpoint(
    trained: RunConfig, tmp_path: Path
) -> None:
    run = adapting(trained, tmp_path / "adapted", steps=8)
    whole = dataclasses.replace(run, folder=str(tmp_path / "whole"))
    train(whole)
    asked = iter(range(100))

    train(run, stop_requested=lambda: next(asked) == 4)
    train(run)

    newest = [
        load_weights(list_checkpoints(Path(it.folder) / "checkpoints")[-1]) for it in (run, whole)
    ]
    assert_close(newest[0], newest[1], rtol=0, atol=0)


def test_another_model_language_or_vocabulary_is_refused(
    trained: RunConfig, tmp_path: Path
) -> None:
    run = adapting(trained, tmp_path / "adapted")
    other_vocabulary = tmp_path / "other.model"
    other_vocabulary.write_bytes(b"another")

    with pytest.raises(ConfigError, match="another model than"):
        with_start(dataclasses.replace(run, model=ModelConfig(n_layers=2)))
    with pytest.raises(ConfigError, match="translates en to de, not de to en"):
        with_start(dataclasses.replace(run, source_language="de", target_language="en"))
    data = dataclasses.replace(run.data, tokenizer=str(other_vocabulary))
    with pytest.raises(ConfigError, match="keeps its vocabulary"):
        with_start(dataclasses.replace(run, data=data))
    data = dataclasses.replace(run.data, tokenizer="no-such.model")
    with pytest.raises(ConfigError, match="cannot be read"):
        with_start(dataclasses.replace(run, data=data))
    training = dataclasses.replace(run.training, start_from="no-such-model")
    with pytest.raises(CheckpointError, match="not a model folder"):
        with_start(dataclasses.replace(run, training=training))
