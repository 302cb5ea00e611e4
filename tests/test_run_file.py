"""Run files: what is written is read back, and what is wrong is named."""

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allyouneed.config import (
    PRESETS,
    CorpusConfig,
    DataConfig,
    FilterConfig,
    ModelConfig,
    RunConfig,
    TrainingConfig,
)
from allyouneed.errors import ConfigError
from allyouneed.run_file import load_run, save_run

POSITIVE = st.integers(1, 10**6)
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)
RUNS = st.builds(
    RunConfig,
    source_language=NAMES,
    folder=NAMES,
    model=st.builds(
        ModelConfig,
        n_heads=POSITIVE,
        dropout=st.floats(0, 1, exclude_max=True),
        n_decoder_layers=st.none() | POSITIVE,
        positions=st.sampled_from(["sinusoidal", "learned"]),
    ),
    data=st.builds(
        DataConfig,
        corpora=st.lists(st.builds(CorpusConfig, tsv=NAMES, name=NAMES)).map(tuple),
        dev=st.none() | st.builds(CorpusConfig, source=NAMES, target=NAMES),
        filters=st.builds(FilterConfig, copies=st.booleans(), max_ratio=st.none() | st.just(2.5)),
    ),
    training=st.builds(
        TrainingConfig,
        adam_epsilon=st.floats(0, 1, exclude_min=True),
        compile=st.sampled_from([None, True, False]),
        seed=st.integers(min_value=0),
    ),
)


def written(tmp_path: Path, text: str, name: str = "run.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(run=RUNS)
def test_a_run_that_was_saved_is_loaded_again(tmp_path: Path, run: RunConfig) -> None:
    save_run(run, tmp_path / "run.yaml")

    assert load_run(tmp_path / "run.yaml") == run
    assert [path.name for path in tmp_path.iterdir()] == ["run.yaml"]


def test_a_run_file_that_cannot_be_finished_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_run(RunConfig(), tmp_path / "run.yaml")

    def full_disk(path: Path, *_: object, **__: object) -> int:
        path.touch()
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_text", full_disk)
    with pytest.raises(OSError, match="no space"):
        save_run(RunConfig(folder="other"), tmp_path / "run.yaml")

    assert load_run(tmp_path / "run.yaml") == RunConfig()
    assert [path.name for path in tmp_path.iterdir()] == ["run.yaml"]


def test_what_a_run_file_leaves_out_has_its_default(tmp_path: Path) -> None:
    run = load_run(written(tmp_path, "training: {steps: 7}"))

    assert run == RunConfig(training=TrainingConfig(steps=7))


@pytest.mark.parametrize("text", ["model: big", "model: {preset: big}"])
def test_a_preset_gives_a_model_its_values(tmp_path: Path, text: str) -> None:
    assert load_run(written(tmp_path, text)).model == PRESETS["big"]


def test_values_beside_a_preset_win_over_it(tmp_path: Path) -> None:
    path = written(tmp_path, "model: {preset: big, dropout: 0.1}")

    assert load_run(path).model == dataclasses.replace(PRESETS["big"], dropout=0.1)


@pytest.mark.parametrize("text", ["model: base", "model: {d_ff: 64}", "training: {steps: 5}"])
def test_overrides_win_over_the_file(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)

    run = load_run(path, ["model.d_ff=128", "training.steps=9", "folder=here"])

    assert (run.model.d_ff, run.training.steps, run.folder) == (128, 9, "here")


def test_the_last_of_two_overrides_wins(tmp_path: Path) -> None:
    path = written(tmp_path, "model: base")

    assert load_run(path, ["model=big", "model=tiny"]).model == PRESETS["tiny"]


@pytest.mark.parametrize("number", ["1e-9", "1.0e-9", "0.000000001"])
def test_a_number_may_be_written_as_people_write_it(tmp_path: Path, number: str) -> None:
    path = written(tmp_path, f"training: {{adam_epsilon: {number}}}")

    assert load_run(path).training.adam_epsilon == 1e-9


MISTAKES = {
    "modle: base": "modle is not a setting; did you mean model?",
    "training: {stepz: 5}": "training.stepz is not a setting; did you mean steps?",
    "data: {filters: {quality: 1}}": "data.filters.quality is not a setting; there are max_tokens",
    "1: 2": "1 is not a setting",
    "model: huge": "model.preset is 'huge'; there are tiny, small, base, big",
    "model: {preset: [base]}": "model.preset is ['base']; there are tiny, small, base, big",
    "training: {steps: many}": "training.steps is 'many'; it must be of type int",
    "training: {steps: 1.5}": "training.steps is 1.5; it must be of type int",
    "training: {steps: true}": "training.steps is True; it must be of type int",
    "training: {rate_scale: true}": "training.rate_scale is True; it must be of type float",
    "training: {rate_scale: fast}": "training.rate_scale is 'fast'; it must be of type float",
    "training: {compile: 1}": "training.compile is 1; it must be of type bool",
    "source_language: no": "source_language is False; it must be of type str",
    "training: {batching: loose}": "training.batching is 'loose'; choose from packed, padded",
    "training: 5": "training must hold keys, found 5",
    "data: {corpora: {tsv: a}}": "data.corpora is {'tsv': 'a'}; it must be a list",
    "data: {corpora: [{tsv: 1}]}": "data.corpora[0].tsv is 1; it must be of type str",
    "data: {corpora: [{tsv: a}, {source: b}]}": "data.corpora[1].source is b, target is None",
    "model: {dropout: 1.5}": "model.dropout is 1.5; it must be from 0",
    "[model]": "a run file holds",
    "": "a run file holds",
    "model: [": "not readable as a run file",
    "data: {corpora: [{files: a.en}]}": "data.corpora[0].files is a.en; write LANG",
    "extends: [a.yaml]": "extends is ['a.yaml']; it must be the name of a run file",
    'extends: ""': "extends is ''; it must be the name of a run file",
    "extends: run.yaml": "extends is run.yaml, which extends this file in turn",
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.items())
def test_a_mistake_is_named_with_its_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)

    with pytest.raises(ConfigError, match=f"^{re.escape(f'{path}: {message}')}"):
        load_run(path)


def test_overrides_of_the_languages_turn_a_run_round(tmp_path: Path) -> None:
    path = written(tmp_path, "data: {corpora: [{files: a.LANG.xz}], dev: {files: b.LANG}}")

    run = load_run(path, ["source_language=de", "target_language=en"])

    assert run.data.corpora == (CorpusConfig(source="a.de.xz", target="a.en.xz"),)
    assert run.data.dev == CorpusConfig(source="b.de", target="b.en")


def test_a_run_file_says_only_what_differs_from_the_one_it_extends(tmp_path: Path) -> None:
    written(
        tmp_path,
        """
        folder: base
        model: {preset: tiny, d_ff: 99}
        data: {corpora: [{tsv: a}], filters: {copies: false}, dev: {tsv: b}}
        training: {steps: 7, seed: 3}
        """,
        "base.yaml",
    )
    path = written(
        tmp_path,
        """
        extends: base.yaml
        model: {n_heads: 5}
        data: {filters: {max_tokens: 9}, dev: {files: c.LANG}, corpora: [{tsv: d}, {tsv: e}]}
        training: {steps: 8}
        """,
    )

    run = load_run(path, ["training.seed=4"])

    assert run == RunConfig(
        folder="base",
        model=dataclasses.replace(PRESETS["tiny"], d_ff=99, n_heads=5),
        data=DataConfig(
            corpora=(CorpusConfig(tsv="d"), CorpusConfig(tsv="e")),
            dev=CorpusConfig(source="c.en", target="c.de"),
            filters=FilterConfig(max_tokens=9, copies=False),
        ),
        training=TrainingConfig(steps=8, seed=4),
    )


@pytest.mark.parametrize("base_model", ["tiny", "{preset: tiny}"])
def test_the_short_name_of_a_preset_can_be_extended(tmp_path: Path, base_model: str) -> None:
    written(tmp_path, f"model: {base_model}", "base.yaml")
    path = written(tmp_path, "{extends: base.yaml, model: {d_ff: 3}}")

    assert load_run(path).model == dataclasses.replace(PRESETS["tiny"], d_ff=3)


def test_a_run_file_extends_what_lies_beside_it_wherever_it_is_read_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").mkdir()
    written(tmp_path / "runs", "folder: first", "first.yaml")
    written(tmp_path / "runs", "{extends: first.yaml, training: {seed: 5}}", "second.yaml")
    written(tmp_path, "{extends: runs/second.yaml, training: {steps: 6}}")
    monkeypatch.chdir(tmp_path / "runs")

    run = load_run(Path("../run.yaml"))

    assert (run.folder, run.training.seed, run.training.steps) == ("first", 5, 6)


def test_a_mistake_in_what_is_extended_is_named_there(tmp_path: Path) -> None:
    base = written(tmp_path, "training: {stepz: 5}", "base.yaml")

    with pytest.raises(ConfigError, match=f"^{re.escape(str(base))}: training.stepz"):
        load_run(written(tmp_path, "extends: base.yaml"))


def test_run_files_that_extend_each_other_are_refused(tmp_path: Path) -> None:
    written(tmp_path, "extends: run.yaml", "base.yaml")

    with pytest.raises(ConfigError, match=r"base\.yaml: extends is run\.yaml, which"):
        load_run(written(tmp_path, "extends: base.yaml"))


def test_a_missing_run_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml"):
        load_run(tmp_path / "none.yaml")


def test_a_run_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_bytes(b"folder: \xff\xfe")

    with pytest.raises(ConfigError, match=r"run\.yaml: not readable"):
        load_run(path)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.steps", "write section.key=value"),
        ("training.steps=[", "'[' is not a YAML value"),
        ("folder.name=x", "folder holds one value, not a section"),
        ("training.stepz=5", "did you mean steps?"),
    ],
)
def test_a_wrong_override_is_named(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_run(written(tmp_path, "folder: here"), [override])
