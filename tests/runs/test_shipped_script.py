"""The script that makes the shipped models, on a toy text and with toy sizes."""

import lzma
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from allyouneed.manifest import load_manifest
from allyouneed.run_file import load_run

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "runs" / "shipped.sh"
ENGLISH = ["a", "red", "green", "dog", "cat", "house", "sees", "over", "the", "one", "two", "runs"]
GERMAN = ["ein", "rot", "grün", "hund", "katze", "haus", "sieht", "über", "der", "eins", "zwei"]
SMALL = (
    *("model.vocab_size=400", "model.n_layers=1", "model.d_model=16", "model.d_ff=32"),
    *("model.n_heads=2", "model.d_k=8", "model.d_v=8", "model.n_decoder_layers=1"),
    *("data.workers=1", "training.steps=2", "training.cooldown_steps=1", "training.device=cpu"),
    *("training.batch_tokens=512", "training.save_every=1", "training.average=2"),
)


def write_toy_corpora(folder: Path) -> None:
    """Under all the names that the runs read."""
    rng = random.Random(0)
    run = load_run(ROOT / "runs" / "en-de-base.yaml")
    assert run.data.dev
    for corpus in (*run.data.corpora[:-1], run.data.dev):  # the last one the script makes
        for name, words in ((corpus.source, ENGLISH), (corpus.target, GERMAN)):
            assert name
            lines = [" ".join(rng.choices(words, k=rng.randint(3, 6))) for _ in range(20)]
            content = "".join(f"{line.capitalize()}.\n" for line in lines).encode()
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(lzma.compress(content) if ".xz" in name else content)


def run_script(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "TYPED_PAIRS": "40",
    }
    return subprocess.run(
        [SCRIPT, *arguments],
        cwd=folder,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )


def test_every_step_is_made_from_the_corpora_to_the_scores(tmp_path: Path) -> None:
    write_toy_corpora(tmp_path)
    overrides = [argument for value in SMALL for argument in ("--set", value)]

    shown = run_script(tmp_path, "de-en", *overrides)

    assert shown.returncode == 0, shown.stderr
    made = tmp_path / "work"
    for side in ("source.en", "target.de", "source.de", "target.en"):
        assert len((made / f"typed.{side}").read_text(encoding="utf-8").splitlines()) == 40
    manifest = load_manifest(made / "de-en/int8")
    assert (manifest.source_language, manifest.target_language) == ("de", "en")
    assert manifest.model.d_model == 16
    vocabularies = [
        made / f"{folder}/tokenizer.model" for folder in ("en-de-base/data", "de-en/int8")
    ]
    assert vocabularies[0].read_bytes() == vocabularies[1].read_bytes()
    weights = [made / f"de-en/{folder}/model.safetensors" for folder in ("model", "int8")]
    assert weights[0].stat().st_size > 2 * weights[1].stat().st_size
    assert "typed" in shown.stdout  # in the table of what the filters left of each corpus
    assert "BLEU" in shown.stdout


def test_a_step_that_fails_ends_it(tmp_path: Path) -> None:
    shown = run_script(tmp_path, "en-de")

    assert shown.returncode == 2
    assert "tatoeba.en.xz: cannot be read" in shown.stderr
    assert "The vocabulary" not in shown.stderr


@pytest.mark.parametrize("arguments", [[], ["en-fr"]])
def test_directions_that_do_not_ship_are_refused(tmp_path: Path, arguments: list[str]) -> None:
    shown = run_script(tmp_path, *arguments)

    assert shown.returncode == 2
    assert "usage: runs/shipped.sh en-de|de-en" in shown.stderr
    assert not list(tmp_path.iterdir())
