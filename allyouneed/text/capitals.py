"""Text all in capitals, which a vocabulary of printed text cuts into single letters."""

_FEWEST = 5  # letters; fewer are an abbreviation


def are_capitals(text: str) -> bool:
    return text.isupper() and sum(map(str.isupper, text)) >= _FEWEST
