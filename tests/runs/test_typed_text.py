"""Text as people type it, made of text as it is printed."""

import random
import re
import string
from pathlib import Path

import pytest
import typed_text
from typed_text import Pair

PRINTED = ("See Berlin in 1999, Tom!", "Sieh dir Berlin im Jahr 1999 an, Tom!")
SEEDS = range(50)


def changed(change: typed_text.Change, pair: Pair = PRINTED, seed: int = 0) -> Pair:
    return change(random.Random(seed), *pair)


def test_lower_case_is_read_and_not_written() -> None:
    assert changed(typed_text.lower_case) == (PRINTED[0].lower(), PRINTED[1])


def test_capitals_are_answered_in_capitals() -> None:
    assert changed(typed_text.capitals, ("Too big.", "Zu groß.")) == ("TOO BIG.", "ZU GROSS.")


@pytest.mark.parametrize("stop", [".", "!", "?", "?!", "..."])
def test_a_stop_that_is_missing_is_not_made_up(stop: str) -> None:
    pair = f"Come. Now{stop}", f"Komm. Jetzt{stop}"

    assert changed(typed_text.without_stop, pair) == ("Come. Now", "Komm. Jetzt")
    assert changed(typed_text.lower_case_without_stop, pair) == ("come. now", "Komm. Jetzt")


@pytest.mark.parametrize("seed", SEEDS)
def test_emoji_marks_and_quotes_stand_on_both_sides(seed: int) -> None:
    emoji = "|".join(map(re.escape, typed_text.EMOJI))
    added = {
        typed_text.with_emoji: rf"(?P<text>.*)(?P<added> (?:{emoji}){{1,3}})",
        typed_text.as_list_item: r"(?P<added>[-*•] |\d+[.)] )(?P<text>.*)",
        typed_text.in_quotes: r'(?P<added>")(?P<text>.*)"',
    }
    for change, pattern in added.items():
        source, target = (re.fullmatch(pattern, side) for side in changed(change, seed=seed))

        assert source
        assert target
        assert (source["text"], target["text"]) == PRINTED
        assert source["added"] == target["added"]


def letters_moved(before: str, after: str) -> int:
    """The fewest letters to put in, take out or swap with the next, by the textbook."""
    rows = [[*range(len(after) + 1)]]
    for i, old in enumerate(before, 1):
        rows.append([i])
        for j, new in enumerate(after, 1):
            costs = [rows[-2][j] + 1, rows[-1][j - 1] + 1, rows[-2][j - 1] + (old != new)]
            if i > 1 and j > 1 and (before[i - 2], old) == (new, after[j - 2]):
                costs.append(rows[-3][j - 2] + 1)
            rows[-1].append(min(costs))
    return rows[-1][-1]


def test_typos_are_slips_of_letters_in_the_source_alone() -> None:
    sentence = f"{'Many words that somebody typed in a hurry. ' * 2}In 1999 and 2024: 10,000!"
    typed = [changed(typed_text.with_typos, (sentence, "Ziel"), seed) for seed in SEEDS]
    slips = [letters_moved(sentence, source) for source, _ in typed]

    assert {target for _, target in typed} == {"Ziel"}
    assert max(slips) <= 1 + len(sentence) // 25
    assert sum(slips) > len(SEEDS)  # more than one in a sentence of this length
    for source, _ in typed:
        assert re.findall(r"\d+", source) == ["1999", "2024", "10", "000"]
        assert source[0] == "M"
        assert set(source) <= set(sentence) | set(string.ascii_lowercase)


@pytest.mark.parametrize("text", ["", "a", "7", "a b"])
def test_texts_too_short_for_a_typo_stay_as_they_are(text: str) -> None:
    assert {changed(typed_text.with_typos, (text, text), seed) for seed in SEEDS} == {(text, text)}


def make(n_pairs: int, into: str = "de", seed: int = 1) -> list[Pair]:
    return list(typed_text.typed(random.Random(seed), [PRINTED], n_pairs, into))


KINDS = (r"https://www\..+", r".+\?.+=\d+", r".+@.+\..+", r"\+\d.+", r".+\.pdf", r"#\w+", r"\d+")


@pytest.mark.parametrize("into", ["de", "en"])
def test_every_tenth_pair_holds_something_that_both_sides_keep(into: str) -> None:
    kept = set()
    for pair in make(2000, into)[::10]:
        english, german = pair if into == "de" else reversed(pair)
        kept |= {
            thing
            for english_frame, german_frame in typed_text.FRAMES
            for thing in re.findall(re.escape(english_frame).replace(r"\{\}", "(.+)"), english)
            if (english_frame.format(thing), german_frame.format(thing)) == (english, german)
        } or {f"not in a frame: {english} = {german}"}

    assert not [thing for thing in kept if thing.startswith("not in a frame")]
    assert not [kind for kind in KINDS if not any(re.fullmatch(kind, thing) for thing in kept)]


def test_the_other_pairs_are_changed_in_every_way() -> None:
    source, target = PRINTED

    pairs = [pair for number, pair in enumerate(make(5000)) if number % 10]

    assert {
        (source.lower(), target),
        (source.upper(), target.upper()),
        (source[:-1], target[:-1]),
        (source.lower()[:-1], target[:-1]),
        (f'"{source}"', f'"{target}"'),
        (f"• {source}", f"• {target}"),
        (f"{source} 👍", f"{target} 👍"),
    } <= set(pairs)


def test_the_same_seed_makes_the_same_pairs() -> None:
    assert make(100) == make(100)
    assert make(100) != make(100, seed=2)


@pytest.mark.parametrize("direction", ["en-de", "de-en"])
def test_files_are_named_by_side_and_language(direction: str, tmp_path: Path) -> None:
    source, target = direction.split("-")
    for language, lines in (("en", "One.\nTwo.\n"), ("de", "Eins.\nZwei.\n")):
        (tmp_path / f"numbers.{language}").write_text(lines, encoding="utf-8")

    typed_text.main(
        [
            direction,
            "--pairs",
            "20",
            "--output",
            f"{tmp_path}/new/typed",
            f"{tmp_path}/numbers.LANG",
        ]
    )

    made = [tmp_path / f"new/typed.source.{source}", tmp_path / f"new/typed.target.{target}"]
    assert sorted((tmp_path / "new").iterdir()) == made
    sources, targets = (path.read_text(encoding="utf-8").splitlines() for path in made)
    assert len(sources) == len(targets) == 20
    german = sources if source == "de" else targets
    assert any(line.lower().startswith(("eins", "zwei")) for line in german)
    assert not any(line.lower().startswith(("one", "two")) for line in german)


def test_files_that_do_not_belong_together_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "numbers.en").write_text("One.\nTwo.\n", encoding="utf-8")
    (tmp_path / "numbers.de").write_text("Eins.\n", encoding="utf-8")

    with pytest.raises(SystemExit) as stopped:
        typed_text.main(["en-de", "--output", f"{tmp_path}/typed", f"{tmp_path}/numbers.LANG"])

    assert stopped.value.code == 2
    assert "numbers.en has 2 lines but" in capsys.readouterr().err
    assert not list(tmp_path.glob("typed*"))
