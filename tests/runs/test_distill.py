"""A teacher that knows nothing yet translates what its students would learn from."""

from pathlib import Path

import distill
import pytest
from tiny_translator import tiny_translator

from allyouneed.checkpoint import save_model
from allyouneed.translator import Translator

NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A teacher, two corpora, and shards of three lines."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(distill, "SHARD", 3)
    tiny = tiny_translator()
    save_model(tmp_path / "teacher", tiny.model.state_dict(), tiny.tokenizer, tiny.manifest)
    Path("small.en").write_text("one\ntwo\n", encoding="utf-8")
    Path("large.en").write_text("".join(f"{number}\n" for number in NUMBERS), encoding="utf-8")


def distilled(*arguments: str) -> dict[str, list[str]]:
    options = ["--model", "teacher", "--output", "new", "--processes", "1", "--beam-size", "2"]
    distill.main([*options, *arguments])
    return {
        path.name: path.read_text(encoding="utf-8").splitlines()
        for path in sorted(Path("new").iterdir())
    }


def test_every_line_stands_beside_its_translation() -> None:
    made = distilled("large.en", "small.en")

    assert list(made) == [
        *("large.source.en", "large.target.de", "small.source.en", "small.target.de"),
    ]
    assert sorted(made["large.source.en"]) == sorted(NUMBERS)
    assert made["small.source.en"] == ["one", "two"]
    teacher = Translator.load("teacher", device="cpu")
    for corpus in ("large", "small"):
        translations = teacher.translate(made[f"{corpus}.source.en"])
        assert made[f"{corpus}.target.de"] == [translation.text for translation in translations]


def test_what_there_is_no_time_for_is_left_out() -> None:
    assert distilled("--minutes", "0", "large.en", "small.en") == {}


def test_shards_hold_every_line_once_the_smallest_corpus_first() -> None:
    shards = list(distill.shards([Path("large.en"), Path("small.en")]))

    small, *large = shards
    assert small == distill.Shard("small", 0, ["one", "two"])
    assert sorted(shard.number for shard in large) == [0, 1, 2, 3]
    assert [shard.number for shard in large] != [0, 1, 2, 3]
    in_order = sorted(large, key=lambda shard: shard.number)
    assert [line for shard in in_order for line in shard.lines] == NUMBERS
    assert shards == list(distill.shards([Path("large.en"), Path("small.en")]))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["small.en", "none.en"], "none.en: cannot be read: No such file"),
        (["small.en", "small.en.xz"], "2 files are called small; give each a name of its own"),
        (["small.en", "large.en"], "large.target.de: is there already; move it away"),
    ],
)
def test_what_cannot_work_is_said_at_once(
    files: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("small.en.xz").touch()
    Path("new").mkdir()
    Path("new/large.target.de").write_text("eins\n", encoding="utf-8")

    with pytest.raises(SystemExit) as stopped:
        distilled(*files)

    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in Path("new").iterdir()] == ["large.target.de"]
