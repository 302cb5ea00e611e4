"""Model folders: read back as written, in any precision; damage is named."""

import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from allyouneed.checkpoint import (
    CONFIG,
    TOKENIZER,
    WEIGHTS,
    Manifest,
    average_weights,
    load_model,
    load_weights,
    new_model_folder,
    save_model,
)
from allyouneed.config import ModelConfig
from allyouneed.errors import CheckpointError, DataError
from allyouneed.model.transformer import Transformer
from allyouneed.text.tokenizer import Tokenizer

MODEL = ModelConfig(vocab_size=300, n_layers=1, d_model=16, d_ff=32, n_heads=2, d_k=8, d_v=8)
MANIFEST = Manifest(source_language="en", target_language="de", max_source_tokens=64, model=MODEL)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    text = ["ein hund und eine katze laufen über die straße"] * 10
    return Tokenizer.learn(text, MODEL.vocab_size, character_coverage=1.0)


@pytest.fixture
def folder(tmp_path: Path, tokenizer: Tokenizer) -> Path:
    save_model(tmp_path / "model", Transformer(MODEL).state_dict(), tokenizer, MANIFEST)
    return tmp_path / "model"


def test_a_model_is_read_back_as_it_was_written(tmp_path: Path, tokenizer: Tokenizer) -> None:
    model = Transformer(MODEL)
    save_model(tmp_path / "model", model.state_dict(), tokenizer, MANIFEST)

    loaded = load_model(tmp_path / "model")

    assert_close(loaded.model.state_dict(), model.state_dict(), rtol=0, atol=0)
    assert loaded.manifest == MANIFEST
    assert loaded.tokenizer.serialized == tokenizer.serialized
    assert not loaded.model.training


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float16, 2**-11), (torch.bfloat16, 2**-8), (torch.int8, 1 / 250)],
)
def test_fewer_bits_are_smaller_and_nearly_the_same(
    tmp_path: Path, tokenizer: Tokenizer, dtype: torch.dtype, tolerance: float
) -> None:
    weights = Transformer(MODEL).state_dict()
    save_model(tmp_path / "whole", weights, tokenizer, MANIFEST)
    save_model(tmp_path / "model", weights, tokenizer, MANIFEST, dtype)

    loaded = load_weights(tmp_path / "model")

    assert loaded.keys() == weights.keys()
    for name, tensor in weights.items():
        assert loaded[name].dtype == torch.float32
        largest = tensor.abs().amax(dim=-1, keepdim=True)
        assert ((loaded[name] - tensor).abs() <= tolerance * largest).all()
    sizes = [(tmp_path / name / WEIGHTS).stat().st_size for name in ("model", "whole")]
    assert sizes[0] < 0.6 * sizes[1]


def test_saving_again_replaces_the_folder(folder: Path, tokenizer: Tokenizer) -> None:
    other = Transformer(MODEL).state_dict()
    save_model(folder, other, tokenizer, MANIFEST)

    assert_close(load_weights(folder), dict(other), rtol=0, atol=0)
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_a_failure_while_writing_leaves_what_was_there(folder: Path) -> None:
    before = load_weights(folder)

    def fail_halfway() -> None:
        with new_model_folder(folder) as unfinished:
            (unfinished / WEIGHTS).write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(CheckpointError, match="No space left"):
        fail_halfway()

    assert_close(load_weights(folder), before, rtol=0, atol=0)
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("is_folder", [True, False])
def test_what_is_not_a_model_is_not_replaced(
    tmp_path: Path, tokenizer: Tokenizer, is_folder: bool
) -> None:
    precious = tmp_path / "precious"
    if is_folder:
        precious.mkdir()
        (precious / "thesis.txt").write_text("years of work")
    else:
        precious.write_text("years of work")
    weights = Transformer(MODEL).state_dict()

    with pytest.raises(CheckpointError, match="something else than a model"):
        save_model(precious, weights, tokenizer, MANIFEST)

    kept = precious / "thesis.txt" if is_folder else precious
    assert kept.read_text() == "years of work"


def test_models_of_different_shapes_have_no_average(folder: Path, tokenizer: Tokenizer) -> None:
    other = dataclasses.replace(MODEL, d_ff=64)
    save_model(folder.with_name("other"), Transformer(other).state_dict(), tokenizer, MANIFEST)

    with pytest.raises(CheckpointError, match="different shapes"):
        average_weights([folder, folder.with_name("other")])


def test_models_of_different_vocabularies_have_no_average(folder: Path) -> None:
    other, weights = folder.with_name("other"), load_weights(folder)
    save_model(other, weights, Tokenizer.learn(["cc dd"] * 5, 265), MANIFEST)

    with pytest.raises(CheckpointError, match="different vocabularies"):
        average_weights([folder, other])


def test_the_average_is_the_mean(tmp_path: Path, tokenizer: Tokenizer) -> None:
    models = [Transformer(MODEL).state_dict() for _ in range(3)]
    for number, weights in enumerate(models):
        save_model(tmp_path / str(number), weights, tokenizer, MANIFEST)

    mean = average_weights([tmp_path / str(number) for number in range(3)])

    for name, tensor in mean.items():
        assert_close(tensor, torch.stack([weights[name] for weights in models]).mean(dim=0))


def test_damage_is_named(folder: Path) -> None:
    whole = {name: (folder / name).read_bytes() for name in (CONFIG, WEIGHTS, TOKENIZER)}
    config = json.loads(whole[CONFIG])
    smaller = Tokenizer.learn(["aa bb"] * 5, 265, character_coverage=1.0)
    damages: list[tuple[str, bytes | None, type[Exception], str]] = [
        (CONFIG, None, CheckpointError, "not a model folder"),
        (CONFIG, b"{", CheckpointError, "config.json: not readable as JSON: Expecting"),
        (CONFIG, b"", CheckpointError, "config.json: not readable as JSON: it is empty"),
        (CONFIG, b"[]", CheckpointError, "config.json: the file must hold keys, found"),
        (CONFIG, json.dumps(config | {"format": 99}).encode(), CheckpointError, "format 99"),
        (CONFIG, json.dumps(config | {"colour": 1}).encode(), CheckpointError, "colour"),
        (CONFIG, b'{"format": 1}', CheckpointError, "config.json: source_language is missing"),
        (
            CONFIG,
            json.dumps(config | {"model": config["model"] | {"d_ff": 64}}).encode(),
            CheckpointError,
            "disagree",
        ),
        (WEIGHTS, None, CheckpointError, "has no model.safetensors"),
        (WEIGHTS, whole[WEIGHTS][:-100], CheckpointError, "damaged"),
        (TOKENIZER, None, DataError, "no tokenizer"),
        (TOKENIZER, smaller.serialized, CheckpointError, "embed 300 pieces but .* has 265"),
    ]
    for name, content, kind, message in damages:
        (folder / name).unlink()
        if content is not None:
            (folder / name).write_bytes(content)
        with pytest.raises(kind, match=message):
            load_model(folder)
        (folder / name).write_bytes(whole[name])
    load_model(folder)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_what_is_no_number_is_named(
    tmp_path: Path, tokenizer: Tokenizer, value: float, dtype: torch.dtype
) -> None:
    weights = Transformer(MODEL).state_dict()
    name = "encoder.layers.0.feed_forward.w_1.bias"
    weights[name][3] = value
    save_model(tmp_path / "model", weights, tokenizer, MANIFEST, dtype)

    with pytest.raises(CheckpointError, match=f"model: {name} holds what is no number"):
        load_model(tmp_path / "model")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such model folder"):
        load_model(tmp_path / "nowhere")
