"""The run files that are included: the paper's are the paper's, the shipped models' theirs."""

from pathlib import Path

import pytest
from toy_world import write_toy_text

from allyouneed.config import CorpusConfig, DecodingConfig, RunConfig
from allyouneed.manifest import load_manifest
from allyouneed.models import PRETRAINED
from allyouneed.run_file import load_run, save_run
from allyouneed.training.events import Finished
from allyouneed.training.run import train

RUNS = Path(__file__).parents[2] / "runs"
SMALL = (
    *("model.vocab_size=400", "model.n_layers=1", "model.d_model=16", "model.d_ff=32"),
    *("model.n_heads=2", "model.d_k=8", "model.d_v=8", "data.workers=1"),
    *("training.steps=1", "training.batch_tokens=256", "training.device=cpu"),
)


def included(name: str, *overrides: str) -> RunConfig:
    return load_run(RUNS / f"{name}.yaml", overrides)


def put_toy_text(run: RunConfig, tmp_path: Path) -> None:
    """Under every name that the run reads, below the folder that is current."""
    text = write_toy_text(tmp_path)
    assert run.data.dev
    for corpus in (*run.data.corpora, run.data.dev):
        for name, toy in ((corpus.source, text.source), (corpus.target, text.target)):
            assert name
            assert toy
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_bytes(Path(toy).read_bytes())


@pytest.mark.parametrize("path", sorted(RUNS.glob("*.yaml")), ids=lambda path: path.stem)
def test_what_a_run_saves_of_its_settings_stands_on_its_own(path: Path, tmp_path: Path) -> None:
    run = load_run(path)

    save_run(run, tmp_path / "settings.yaml")

    assert load_run(tmp_path / "settings.yaml") == run
    assert "LANG" not in (tmp_path / "settings.yaml").read_text(encoding="utf-8")


# Table 3 and section 5: N, d_model, d_ff, h, d_k, d_v, P_drop, ε_ls, steps; then, of section 6.1,
# the checkpoints that are averaged, and the seconds a step of section 5.2.
@pytest.mark.parametrize(
    ("name", "table", "averaged", "seconds"),
    [
        ("wmt14-base", [6, 6, 512, 2048, 8, 64, 64, 0.1, 0.1, 100_000], 5, 0.4),
        ("wmt14-big", [6, 6, 1024, 4096, 16, 64, 64, 0.3, 0.1, 300_000], 20, 1.0),
        ("wmt14-en-fr", [6, 6, 1024, 4096, 16, 64, 64, 0.1, 0.1, 300_000], 20, 1.0),
    ],
)
def test_the_papers_runs_are_the_papers(
    name: str, table: list[float], averaged: int, seconds: float
) -> None:
    run = included(name)
    model, training = run.model, run.training

    assert table == [
        *(model.n_layers, model.decoder_layers, model.d_model, model.d_ff, model.n_heads),
        *(model.d_k, model.d_v, model.dropout, training.label_smoothing, training.steps),
    ]
    assert model.vocab_size == (32_000 if run.target_language == "fr" else 37_000)
    assert model.positions == "sinusoidal"
    assert (training.batch_tokens, training.accumulate, training.warmup_steps) == (25_000, 1, 4000)
    assert (training.adam_beta1, training.adam_beta2, training.adam_epsilon) == (0.9, 0.98, 1e-9)
    assert (training.rate_scale, training.cooldown_steps, training.clip_norm) == (1, 0, None)
    assert training.average == training.keep_checkpoints == averaged
    assert training.save_every * seconds == 600  # ten minutes on the paper's hardware
    assert run.decoding == DecodingConfig()  # section 6.1


@pytest.mark.parametrize("name", ["wmt14-base", "wmt14-big", "wmt14-en-fr"])
def test_the_papers_runs_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = included(name, *SMALL)
    if name == "wmt14-en-fr":  # text that is compressed is read in other tests
        run = included(name, *SMALL, "data.corpora=[{files: data/wmt14/commoncrawl.fr-en.LANG}]")
    put_toy_text(run, tmp_path)

    outcome = train(run)

    assert isinstance(outcome, Finished)
    assert outcome.path == f"work/{name}/model"


@pytest.mark.parametrize("direction", ["en-de", "de-en"])
def test_the_run_of_a_shipped_model_describes_that_model(direction: str) -> None:
    run, shipped = included(direction), load_manifest(PRETRAINED / direction)

    assert run.model == shipped.model
    assert run.decoding == shipped.decoding
    assert f"{run.source_language}-{run.target_language}" == direction
    assert (shipped.source_language, shipped.target_language) == tuple(direction.split("-"))
    assert run.folder == f"work/{direction}"


def test_shipped_models_and_their_teacher_learn_from_the_same_pairs() -> None:
    teacher, forth, back = map(included, ("en-de-base", "en-de", "de-en"))

    assert forth.data.corpora == teacher.data.corpora
    *printed, typed = back.data.corpora
    assert printed == [
        CorpusConfig(source=corpus.target, target=corpus.source, weight=corpus.weight)
        for corpus in forth.data.corpora[:-1]
    ]
    assert typed == CorpusConfig(source="work/typed.source.de", target="work/typed.target.en")
    assert forth.data.tokenizer == back.data.tokenizer == f"{teacher.folder}/data/tokenizer.model"


def test_a_teacher_of_the_other_direction_is_the_same_turned_round() -> None:
    back = included("en-de-base", "source_language=de", "target_language=en")

    assert back.data.corpora == included("de-en").data.corpora
    assert back.data.dev == CorpusConfig(
        source="data/en-de/dev/newstest2013.de", target="data/en-de/dev/newstest2013.en"
    )
