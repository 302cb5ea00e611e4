"""Pairs as people type them, made of pairs as they are printed.

Printed text begins with a capital, ends with a stop and is spelled well; what people type often
does not. Every pair that is drawn is changed in one way: what only looks different (capitals, a
missing full stop, an emoji) on both sides, what is wrong (typos, lower case) on the source side
alone, so that a model learns to write well whatever it reads. To these come short sentences around
things that must be copied: addresses, numbers, names of files.

    python runs/typed_text.py en-de --output work/typed CORPUS.LANG.xz …

reads CORPUS.en.xz and CORPUS.de.xz and writes work/typed.source.en and work/typed.target.de.
"""

import argparse
import random
import string
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from allyouneed.config import CorpusConfig
from allyouneed.data.corpus import Corpus
from allyouneed.errors import UserError
from allyouneed.evaluation.lines import write_lines

EMOJI = (
    *("😀", "😂", "😊", "😍", "😉", "😎", "😢", "😭", "😡", "🤔", "🙏", "👍", "👎", "👏", "💪"),
    *("🎉", "🎂", "❤️", "🔥", "⭐", "✅", "❌", "⚠️", "🚀", "🌍", "☀️", "🌧️", "🍕", "☕", "🐶"),
    *("🐱", "🚗", "✈️", "📧", "📞", "💡"),
)
Pair = tuple[str, str]
Change = Callable[[random.Random, str, str], Pair]


def lower_case(_rng: random.Random, source: str, target: str) -> Pair:
    return source.lower(), target


def lower_case_without_stop(rng: random.Random, source: str, target: str) -> Pair:
    return without_stop(rng, source.lower(), target)


def capitals(_rng: random.Random, source: str, target: str) -> Pair:
    return source.upper(), target.upper()


def without_stop(_rng: random.Random, source: str, target: str) -> Pair:
    return source.rstrip(".!?"), target.rstrip(".!?")


def with_emoji(rng: random.Random, source: str, target: str) -> Pair:
    emoji = " " + "".join(rng.choices(EMOJI, k=rng.choice((1, 1, 1, 2, 3))))
    return source + emoji, target + emoji


def as_list_item(rng: random.Random, source: str, target: str) -> Pair:
    mark = rng.choice(("- ", "* ", "• ", f"{rng.randint(1, 12)}. ", f"{rng.randint(1, 9)}) "))
    return mark + source, mark + target


def in_quotes(_rng: random.Random, source: str, target: str) -> Pair:
    return f'"{source}"', f'"{target}"'


def with_typos(rng: random.Random, source: str, target: str) -> Pair:
    """A slip of the fingers for every 25 characters and one more, where they hit two letters."""
    letters = list(source)
    for _ in range(1 + len(letters) // 25):
        at = rng.randrange(1, max(2, len(letters) - 1))
        if not letters[at : at + 2] or not "".join(letters[at : at + 2]).isalpha():
            continue  # numbers are not touched: nobody could put them right again
        slip = rng.randrange(4)
        if slip == 0:
            letters[at : at + 2] = reversed(letters[at : at + 2])
        elif slip == 1:
            del letters[at]
        elif slip == 2:
            letters.insert(at, letters[at])
        else:
            letters[at] = rng.choice(string.ascii_lowercase)
    return "".join(letters), target


CHANGES: dict[Change, int] = {
    lower_case: 3,
    lower_case_without_stop: 4,
    capitals: 3,
    without_stop: 4,
    with_emoji: 2,
    as_list_item: 1,
    in_quotes: 1,
    with_typos: 6,
}

FRAMES = (
    ("See {}.", "Siehe {}."),
    ("See {} for details.", "Einzelheiten finden Sie unter {}."),
    ("More at {}", "Mehr unter {}"),
    ("Visit {} today!", "Besuchen Sie noch heute {}!"),
    ("Please write to {}.", "Bitte schreiben Sie an {}."),
    ("My e-mail address is {}.", "Meine E-Mail-Adresse ist {}."),
    ("Contact: {}", "Kontakt: {}"),
    ("Call me at {}.", "Rufen Sie mich unter {} an."),
    ("Phone: {}", "Telefon: {}"),
    ("Open the file {}.", "Öffnen Sie die Datei {}."),
    ("The number is {}.", "Die Nummer lautet {}."),
    ("Order no. {} has been shipped.", "Die Bestellung Nr. {} wurde versandt."),
    ("Your code is {}.", "Ihr Code lautet {}."),
    ("Thanks {}", "Danke {}"),
)


def _word(rng: random.Random, least: int = 2, most: int = 9) -> str:
    return "".join(rng.choices(string.ascii_lowercase, k=rng.randint(least, most)))


def _copied(rng: random.Random) -> str:
    """Something that stays as it is in every language."""
    host = f"{_word(rng, 4)}.{rng.choice(('com', 'org', 'net', 'de', 'eu', 'io', 'co.uk'))}"
    path = "/".join(_word(rng) for _ in range(rng.randint(0, 3)))
    number = rng.randint(1, 10 ** rng.randint(1, 9))
    return rng.choice(
        (
            f"https://www.{host}/{path}",
            f"https://{host}/{path}?{_word(rng, 1, 3)}={number}",
            f"www.{host}",
            host,
            f"{_word(rng)}.{_word(rng)}@{host}",
            f"{_word(rng)}{rng.randint(1, 99)}@{host}",
            f"+{rng.randint(1, 99)} {rng.randint(10, 999)} {rng.randint(10_000, 9_999_999)}",
            f"0{rng.randint(10, 999)}/{rng.randint(10_000, 9_999_999)}",
            f"{_word(rng)}.{rng.choice(('pdf', 'txt', 'docx', 'py', 'png', 'zip'))}",
            f"{_word(rng).upper()}-{number}",
            f"#{_word(rng)}",
            f"@{_word(rng)}{rng.randint(0, 99)}",
            str(number),
        )
    )


def typed(rng: random.Random, pairs: list[Pair], n_pairs: int, into: str) -> Iterator[Pair]:
    """`n_pairs` pairs, of which every tenth is a frame around something to copy."""
    changes, weights = list(CHANGES), list(CHANGES.values())
    for number in range(n_pairs):
        if number % 10:
            source, target = rng.choice(pairs)
            yield rng.choices(changes, weights)[0](rng, source, target)
        else:
            thing = _copied(rng)
            frame = [side.format(thing) for side in rng.choice(FRAMES)]
            yield (frame[0], frame[1]) if into == "de" else (frame[1], frame[0])


def run(options: argparse.Namespace) -> None:
    languages = options.direction.split("-")
    pairs = [
        pair
        for files in options.corpora
        for pair in Corpus(CorpusConfig(files=files).between(*languages))
    ]
    made = list(typed(random.Random(options.seed), pairs, options.pairs, into=languages[1]))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for side, name in enumerate(("source", "target")):
        path = options.output.with_name(f"{options.output.name}.{name}.{languages[side]}")
        write_lines(path, (pair[side] for pair in made))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=150_000, help="how many to make")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True, help="what the names begin with")
    parser.add_argument("direction", choices=("en-de", "de-en"))
    parser.add_argument("corpora", nargs="+", metavar="CORPUS", help="files; LANG: the language")
    try:
        run(parser.parse_args(arguments))
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
