"""`allyouneed prepare`: what a person sees."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from allyouneed.cli.prepare import prepare
from allyouneed.data.shards import PreparedData
from allyouneed.errors import DataError

PAIRS = "".join(f"the cat saw {n} dogs\tdie Katze sah {n} Hunde\n" for n in range(50))


@pytest.fixture
def run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("pets.tsv").write_text(f"{PAIRS}[b]same\t[b]same\n\tnothing\n", encoding="utf-8")
    Path("run.yaml").write_text(
        "folder: out\nmodel: {vocab_size: 300}\ndata: {corpora: [{tsv: pets.tsv}]}\n"
    )
    return Path("run.yaml")


def invoke(*arguments: str) -> Result:
    result = CliRunner().invoke(prepare, arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_counts_and_examples_are_shown(run_file: Path) -> None:
    output = invoke(str(run_file)).output

    rows = [line.split() for line in output.splitlines()]
    assert ["pets", "52", "1", "0", "0", "1", "0", "0", "50"] in rows
    assert ["all", "52", "1", "0", "0", "1", "0", "0", "50"] in rows
    assert "left out as copy:\n  pets: [b]same ||| [b]same\n" in output
    assert "out/data: 50 pairs in 300 pieces" in output
    assert len(PreparedData.open(Path("out/data"))) == 50


def test_stages_are_told_on_the_error_stream_without_a_terminal(run_file: Path) -> None:
    assert invoke(str(run_file)).stderr.splitlines() == [
        "counting pairs",
        "counting words",
        "learning the vocabulary",
        "encoding",
    ]


def test_quiet_leaves_the_examples_out(run_file: Path) -> None:
    output = invoke(str(run_file), "--quiet").output

    assert "pets" in output
    assert "left out" not in output


def test_what_is_up_to_date_is_prepared_again_only_by_force(run_file: Path) -> None:
    invoke(str(run_file))
    Path("out/data/0.ids").touch()
    before = Path("out/data/0.ids").stat().st_mtime_ns

    assert "out/data is up to date" in invoke(str(run_file)).output
    assert Path("out/data/0.ids").stat().st_mtime_ns == before
    assert "50 pairs" in invoke(str(run_file), "--force").output
    assert Path("out/data/0.ids").stat().st_mtime_ns > before


def test_overrides_reach_the_run(run_file: Path) -> None:
    output = invoke(str(run_file), "--set", "data.filters.copies=false", "--set", "folder=b").output

    assert "b/data: 51 pairs" in output


def test_a_mistake_in_the_text_is_a_user_error(run_file: Path) -> None:
    with Path("pets.tsv").open("ab") as file:
        file.write(b"bad \xff\tline\n")

    with pytest.raises(DataError, match=r"pets\.tsv, line 53"):
        invoke(str(run_file))

    assert not Path("out/data").exists()


@pytest.mark.parametrize("room", [1000, 8000])  # less than the tokenizer, less than the ids
def test_a_full_disk_is_told_and_leaves_nothing(run_file: Path, room: int) -> None:
    Path("pets.tsv").write_text("".join(PAIRS.replace("dogs", f"dogs {n}") for n in range(20)))
    script = (
        "import resource, signal\n"
        "from allyouneed.cli.main import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))\n"
        "main()\n"
    )

    run = subprocess.run(
        [sys.executable, "-B", "-c", script, "prepare", str(run_file)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 2
    assert "error: out/data: cannot be written" in run.stderr
    assert "Traceback" not in run.stderr
    assert list(Path("out").iterdir()) == []
