"""What training shows: a bar on a terminal, lines elsewhere."""

import io
from dataclasses import replace

from rich.console import Console
from rich.progress import Progress

from allyouneed.cli import train_display
from allyouneed.cli.train_display import LiveBar, PlainLines, describe, make_display
from allyouneed.training.events import Event, Finished, Saved, Started, Stepped, Stopped, Validated

EVENTS: list[Event] = [
    Started(
        step=0, steps=200, warmup_steps=50, peak_rate=1e-3, n_parameters=7_000_000, n_pairs=29_000,
        device="cpu", precision="float32",
    ),
    Stepped(
        step=50, epoch=0, loss=6.5, nll=0.0, grad_norm=1.5, rate=1e-4, tokens_per_second=12_345.0,
        time=60.0,
    ),
    Validated(step=50, loss=0.0, bleu=12.3, best=True, time=61.0),
    Saved(step=50, path="run/checkpoints/step-00000050"),
    Finished(
        step=200, reason="all steps made", path="run/model", averaged=5, loss=1.0, bleu=34.5,
        best_bleu=34.5, time=99.0,
    ),
]  # fmt: skip


def test_a_log_gets_a_line_an_event() -> None:
    stream = io.StringIO()
    with make_display(stream) as display:
        assert isinstance(display, PlainLines)
        display.preparing("encoding", 0.1, 10)
        display.preparing("encoding", 0.9, 90)
        for event in EVENTS:
            display.report(event)

    preparing, started, step, validation, finished = stream.getvalue().splitlines()
    assert preparing == "encoding"
    assert "7.0 M parameters, 29,000 pairs" in started
    assert step.endswith("0:00:00 left")
    for figure in ("step 50", "loss 6.500", "perplexity 1.00", "rate 1.00e-04", "12,345 tokens/s"):
        assert figure in step
    assert "BLEU 12.30 (best)" in validation
    assert "run/model, dev BLEU 34.50" in finished


def test_a_rate_that_is_too_low_or_high_is_named() -> None:
    started = EVENTS[0]
    assert isinstance(started, Started)

    assert "warm-up" not in str(describe(started))
    assert "lower training.warmup_steps" in str(describe(replace(started, warmup_steps=200)))
    hot = str(describe(replace(started, peak_rate=2e-2)))
    assert "rate up to 2.0e-02" in hot
    assert "rise to 2.0e-02" in hot
    assert "raise training.warmup_steps" in hot


def test_a_better_model_than_the_mean_is_named() -> None:
    finished = EVENTS[-1]
    assert isinstance(finished, Finished)

    assert "best" not in str(describe(finished))
    better = str(describe(replace(finished, best_bleu=40.0)))
    assert "best beside it scored 40.00" in better
    assert "a lower training.average" in better
    alone = str(describe(replace(finished, best_bleu=40.0, averaged=1)))
    assert "the last checkpoint is run/model" in alone
    assert "best beside it scored 40.00" in alone
    assert "training.average" not in alone


def test_brackets_in_a_path_are_no_markup() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80, color_system=None)
    with Progress(*train_display.COLUMNS, console=console) as progress:
        bar = LiveBar(progress)
        bar.preparing("reading [/v2]", 0.5, 10)
        bar.report(Stopped(step=3, path="runs/[/v2]/x"))

    assert "runs/[/v2]/x" in stream.getvalue()


def test_a_narrow_terminal_shows_bar_time_left_and_figures_in_one_line() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80, color_system=None)
    with Progress(*train_display.COLUMNS, console=console, auto_refresh=False) as progress:
        bar = LiveBar(progress)
        bar.preparing("encoding", 0.5, 10)
        for event in EVENTS[:2]:
            bar.report(event)
        stream.seek(0)
        stream.truncate()
        progress.refresh()
        shown = stream.getvalue().strip().splitlines()

    assert len(shown) == 1
    for figure in ("50/200", "loss 6.500", "ppl 1.0", "rate 1.0e-04", "12.3k tok/s"):
        assert figure in shown[0]
