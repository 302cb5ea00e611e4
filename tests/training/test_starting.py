"""Runs that adapt a model."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from torch.testing import assert_close

from allyouneed.checkpoint import load_manifest, load_weights
from allyouneed.config import ModelConfig, RunConfig
from allyouneed.errors import CheckpointError, ConfigError
from allyouneed.training.checkpoints import list_checkpoints
from allyouneed.training.run import train
from allyouneed.training.starting import with_start


def adapting(run: RunConfig, folder: Path, **training: Any) -> RunConfig:
    return dataclasses.replace(
        run,
        folder=str(folder),
        model=ModelConfig(),
        training=dataclasses.replace(run.training, start_from=f"{run.folder}/model", **training),
    )


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
