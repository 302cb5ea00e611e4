"""Text all in capitals, which a vocabulary of printed text cuts into single letters."""

import re

_FEWEST = 5  # letters; fewer are an abbreviation
# The first letter of a sentence and the marks before it, wherever `split_to_fit` looks for one.
_BEGINNING = re.compile(r"(?:^|(?<=\w\w[.!?…]\s))\W*\w")


def are_capitals(text: str) -> bool:
    return text.isupper() and sum(map(str.isupper, text)) >= _FEWEST


def lowered(text: str) -> str:
    """In lower case, but for the first letter of every sentence."""
    return _BEGINNING.sub(lambda beginning: beginning[0].upper(), text.lower())
