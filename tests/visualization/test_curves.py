"""Learning curves from a run's log."""

import json
import sys
from pathlib import Path

import pytest

from allyouneed.errors import ConfigError, DataError, MissingExtraError
from allyouneed.visualization.curves import draw_curves, read_log


def step(number: int, loss: float = 2.0, **more: float) -> str:
    return json.dumps({"event": "step", "step": number, "loss": loss, "rate": 0.001, **more})


def validation(number: int, bleu: float | None) -> str:
    record = {"event": "validation", "step": number, "loss": 2.5, "perplexity": 12.2, "bleu": bleu}
    return json.dumps(record)


def write_log(folder: Path, *lines: str) -> Path:
    log = folder / "log.jsonl"
    log.write_text("\n".join(lines), encoding="utf-8")
    return log


def svg_text(log: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The drawn picture, its texts kept as texts."""
    import matplotlib as mpl

    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "none")
    draw_curves(log, log.with_suffix(".svg"))
    return log.with_suffix(".svg").read_text(encoding="utf-8")


def test_the_later_line_of_a_repeated_step_wins(tmp_path: Path) -> None:
    log = write_log(tmp_path, step(50, 5.0), step(100, 4.0), step(50, 4.9), validation(50, 1.0))

    steps, validations, _ = read_log(log)

    assert [(record["step"], record["loss"]) for record in steps] == [(50, 4.9), (100, 4.0)]
    assert [record["bleu"] for record in validations] == [1.0]


def test_torn_lines_and_other_events_are_skipped(tmp_path: Path) -> None:
    torn = '{"event": "st'
    log = write_log(tmp_path, '{"event": "start"}', torn + step(1), step(2), "7", "", torn)

    steps, validations, _ = read_log(log)

    assert [record["step"] for record in steps] == [2]
    assert validations == []


@pytest.mark.parametrize(("name", "magic"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_the_suffix_chooses_the_kind_of_picture(tmp_path: Path, name: str, magic: bytes) -> None:
    log = write_log(tmp_path, step(50), step(100), validation(100, 12.3))
    draw_curves(log, tmp_path / name)

    assert (tmp_path / name).read_bytes().startswith(magic)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "log.jsonl"])


def test_the_picture_names_run_curves_and_last_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my-run"
    folder.mkdir()
    log = write_log(
        folder, step(1000, 9.0, nll=3.25), validation(1000, 20.5), validation(2000, 19.5)
    )

    text = svg_text(log, monkeypatch)

    for words in ("my-run: 2,000 steps, best BLEU 20.5 at step 1,000", "training 3.25",
                  "validation 2.50", "validation BLEU", "19.5", "validation perplexity", "12.20",
                  "learning rate", "0.001"):  # fmt: skip
        assert words in text
    assert "9.00" not in text  # the smoothed loss does not compare with validation
    assert "label-smoothed" not in text


def test_a_smoothed_loss_is_called_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = svg_text(write_log(tmp_path, step(50, 2.0)), monkeypatch)

    assert "training: label-smoothed" in text
    assert "training 2.00" in text


def test_what_was_not_measured_gets_no_panel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(tmp_path, step(50), validation(50, None), step(100, float("nan")))

    text = svg_text(log, monkeypatch)

    assert "BLEU" not in text
    assert "validation perplexity" in text
    assert "training 2.00" in text  # the last loss that is a number


def test_pyplot_is_left_alone(tmp_path: Path) -> None:
    before = "matplotlib.pyplot" in sys.modules
    draw_curves(write_log(tmp_path, step(50)), tmp_path / "a.png")

    assert ("matplotlib.pyplot" in sys.modules) == before


def test_a_log_without_steps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no training steps"):
        draw_curves(write_log(tmp_path, "not a log"), tmp_path / "a.png")
    with pytest.raises(DataError, match="cannot be read: No such file"):
        draw_curves(tmp_path / "absent.jsonl", tmp_path / "a.png")


def test_other_kinds_of_pictures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.png or \.svg, not '\.jpg'"):
        draw_curves(write_log(tmp_path, step(50)), tmp_path / "a.jpg")


def test_a_picture_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be written"):
        draw_curves(write_log(tmp_path, step(50)), tmp_path / "absent" / "a.png")

    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


def test_without_matplotlib_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    with pytest.raises(MissingExtraError, match="pip install matplotlib"):
        draw_curves(write_log(tmp_path, step(50)), tmp_path / "a.png")
