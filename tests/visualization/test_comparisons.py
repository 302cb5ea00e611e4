"""Several runs, or several systems, in one picture."""

import json
from pathlib import Path

import pytest

from allyouneed.errors import ConfigError, DataError
from allyouneed.visualization.curves import compare_runs
from allyouneed.visualization.trade_off import System, draw_trade_off

mpl = pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def _texts_stay_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "none")


def write_log(path: Path, bleu: float, *, finished: bool = False) -> Path:
    records = [
        {"event": "step", "step": 100, "nll": 4.0, "time": 60.0},
        {"event": "step", "step": 200, "nll": 3.25, "time": 90.0},
        {"event": "validation", "step": 200, "loss": 3.5, "bleu": bleu, "time": 120.0},
    ]
    if finished:
        records.append({"event": "finish", "step": 200, "bleu": bleu + 1, "time": 120.0})
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return path


def test_bleu_of_runs_is_drawn_over_minutes(tmp_path: Path) -> None:
    logs = {
        "ours": write_log(tmp_path / "ours.jsonl", 20.5, finished=True),
        "peer": write_log(tmp_path / "peer.jsonl", 10.5),
    }

    compare_runs(logs, tmp_path / "a.svg", "A race", "time")

    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for words in ("A race", "validation BLEU", "ours 21.5", "peer 10.5", "minutes of training"):
        assert f">{words}<" in drawn
    assert ">2<" in drawn  # minutes, not seconds
    assert "loss" not in drawn


def test_bleu_and_losses_of_many_runs_are_drawn_over_steps(tmp_path: Path) -> None:
    logs = {name: write_log(tmp_path / name, bleu) for name, bleu in (("a", 1), ("b", 2), ("c", 3))}

    compare_runs(logs, tmp_path / "a.svg", "Many", "step")

    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for words in ("a 1.0", "b 2.0", "c 3.0", "a 3.50", "a 3.25", "training loss, nats a token"):
        assert f">{words}<" in drawn
    assert drawn.index(">c 3.0<") < drawn.index(">b 2.0<") < drawn.index(">a 1.0<")  # best on top


def test_runs_without_a_validation_have_no_bleu_to_draw(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"event": "validation", "step": 1, "bleu": 3.0}', encoding="utf-8")

    with pytest.raises(DataError, match="nothing to draw"):
        compare_runs({"a run": log}, tmp_path / "a.svg", "", "time")  # it has no time


def test_systems_stand_by_speed_and_quality_with_their_sizes(tmp_path: Path) -> None:
    systems = [
        System("teacher", "en→de", 1.0, 26.4, 250.0),
        System("student", "en→de", 6.0, 25.52, 21.3),
        System("student", "de→en", 5.0, 30.0, 21.0),
    ]

    draw_trade_off(systems, tmp_path / "a.svg", "Students")

    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for words in ("Students", "en→de: BLEU", "de→en: BLEU", "times as fast as teacher",
                  "26.4, 250 MB", "25.5, 21 MB", "30.0, 21 MB"):  # fmt: skip
        assert drawn.count(words) == 1


def test_nothing_to_draw_and_other_kinds_of_pictures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no system to draw"):
        draw_trade_off([], tmp_path / "a.svg", "")
    with pytest.raises(ConfigError, match=r"not '\.jpg'"):
        draw_trade_off([], tmp_path / "a.jpg", "")
