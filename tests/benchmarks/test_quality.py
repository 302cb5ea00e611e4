"""Tables and pictures of quality, from a model that takes a second."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_translator import tiny_translator

from allyouneed.checkpoint import save_model

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A model that knows nothing, and a test set for it."""
    monkeypatch.chdir(tmp_path)
    made = tiny_translator()
    save_model(tmp_path / "tiny", made.model.state_dict(), made.tokenizer, made.manifest)
    Path("numbers.en").write_text("one\ntwo, three\nfour\n", encoding="utf-8")
    Path("numbers.de").write_text("eins\nzwei, drei\nvier\n", encoding="utf-8")


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / script), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_every_system_is_scored_and_drawn() -> None:
    pytest.importorskip("sacremoses")
    pytest.importorskip("matplotlib")
    sets = ["--sets", "numbers", "--paper", "numbers", "--lines", "2", "--beam-sizes", "2", "1"]
    files = ["--json", "figures.json", "--markdown", "table.md", "--translations", "."]

    shown = run("quality.py", "tiny", *sets, *files)
    drawn = run("quality_plots.py", "speed", "figures.json", "--set", "numbers",
                "--output", "speed.svg")  # fmt: skip

    assert (shown.returncode, drawn.stderr) == (0, ""), shown.stderr
    wide, narrow = json.loads(Path("figures.json").read_text(encoding="utf-8"))
    assert (wide["system"], wide["beam_size"], wide["times_as_fast"]) == ("tiny-beam2", 2, 1.0)
    assert (narrow["system"], narrow["beam_size"]) == ("tiny-beam1", 1)
    assert narrow["times_as_fast"] == pytest.approx(
        narrow["words_a_second"] / wide["words_a_second"]
    )
    assert wide["megabytes"] == sum(it.stat().st_size for it in Path("tiny").iterdir()) / 1e6
    assert wide["scores"]["numbers"].keys() == {"bleu", "chrf", "paper"}
    table = Path("table.md").read_text(encoding="utf-8")
    assert table in shown.stdout
    assert "| en→de | beam | MB | times as fast | numbers | numbers, paper |" in table
    assert "the first 2 lines" in table
    for score in wide["scores"]["numbers"].values():
        assert f"{score['value']:.2f}" in table
        assert table.count(score["signature"]) == 1
    assert len(Path("tiny-beam1.numbers.de").read_text(encoding="utf-8").splitlines()) == 2
    assert Path("speed.svg").exists()


def test_runs_are_drawn_from_their_logs() -> None:
    pytest.importorskip("matplotlib")
    Path("run").mkdir()
    records = [
        {"event": "step", "step": 5, "nll": 3.0, "time": 30.0},
        {"event": "validation", "step": 5, "loss": 3.5, "bleu": 7.5, "time": 60.0},
    ]
    log = "\n".join(map(json.dumps, records))
    Path("run/log.jsonl").write_text(log, encoding="utf-8")

    for picture in ("time", "curves"):
        drawn = run("quality_plots.py", picture, "run", "peer=run/log.jsonl",
                    "--output", f"{picture}.svg")  # fmt: skip

        assert drawn.stderr == ""
        assert Path(f"{picture}.svg").exists()


def test_typed_text_is_counted_by_kind_and_failures_are_listed() -> None:
    cases = (
        "greetings:\n  - {source: one, keeps: [seven]}\nodd:\n  - {source: '?!', unchanged: true}\n"
    )
    Path("cases.yaml").write_text(cases, encoding="utf-8")
    files = ["--cases", "cases.yaml", "--failures", "failures.yaml", "--json", "all.json"]

    shown = run("typed_cases.py", "tiny", *files)

    assert shown.returncode == 0, shown.stderr
    assert "greetings                0 of 1      0%" in shown.stdout
    assert "odd                      1 of 1    100%" in shown.stdout
    assert "all                      1 of 2     50%" in shown.stdout
    failures = Path("failures.yaml").read_text(encoding="utf-8")
    assert failures.startswith("greetings | one: loses “seven”")
    assert "odd" not in failures
    odd = json.loads(Path("all.json").read_text(encoding="utf-8"))[1]
    assert odd == {"kind": "odd", "source": "?!", "translation": "?!", "faults": []}


@pytest.mark.parametrize(
    ("script", "arguments", "message"),
    [
        ("quality.py", "tiny --sets absent", "absent.de: cannot be read"),
        ("quality.py", "tiny --sets numbers --json absent/a.json", "absent: no such folder"),
        ("quality.py", "tiny a/../tiny --sets numbers", "two share a name"),
        ("quality_plots.py", "speed numbers.en --output a.svg", "not the figures of quality.py"),
        ("quality_plots.py", "time numbers.en --output a.svg", "hold nothing to draw"),
        ("quality_plots.py", "time numbers.en --output a.jpg", "pictures are .png or .svg"),
        ("typed_cases.py", "absent", "not a model folder"),
    ],
)
def test_what_cannot_be_used_is_said_and_nothing_is_written(
    script: str, arguments: str, message: str
) -> None:
    Path("a").mkdir()
    before = sorted(Path().iterdir())

    shown = run(script, *arguments.split())

    assert shown.returncode == 2
    assert message in " ".join(shown.stderr.split())
    assert "Traceback" not in shown.stderr
    assert sorted(Path().iterdir()) == before
