"""Pieces as a person reads them, alone and joined to words."""

import re
from collections.abc import Sequence

SPACE = "▁"
MARKS = ("<s>", "</s>")
BYTE = re.compile(r"<0x([0-9A-F]{2})>")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # would move the cursor of a terminal
UNREADABLE = "\ufffd"


def labels(pieces: Sequence[str]) -> list[str]:
    """A short name for each piece; `·` before one that goes on with the word before it."""
    return [_label(piece) for piece in pieces]


def words(pieces: Sequence[str]) -> list[range]:
    """The places of each word's pieces. Marks and closing punctuation are words of their own."""
    starts = [
        place
        for place, piece in enumerate(pieces)
        if place == 0 or piece.startswith(SPACE) or {piece, pieces[place - 1]} & {*MARKS}
    ]
    found = []
    for start, end in zip(starts, [*starts[1:], len(pieces)], strict=True):
        closing = end
        while closing > start and not _has_letters(pieces[closing - 1]):
            closing -= 1
        if closing == start:  # nothing but punctuation
            closing = end
        found += [part for part in (range(start, closing), range(closing, end)) if part]
    return found


def spell(pieces: Sequence[str]) -> str:
    """The text of a word's pieces, those that stand for bytes too."""
    parts = (
        bytes.fromhex(byte[1]) if (byte := BYTE.fullmatch(piece)) else piece.encode()
        for piece in pieces
    )
    text = b"".join(parts).decode(errors="replace").replace(SPACE, " ").strip(" ")
    return CONTROL.sub(UNREADABLE, text) or SPACE


def _label(piece: str) -> str:
    text = spell([piece])
    if UNREADABLE in text:  # a part of a character, or a control character
        return piece
    return f"·{text}" if text[0].isalnum() and not piece.startswith(SPACE) else text


def _has_letters(piece: str) -> bool:
    """Bytes spell letters more often than punctuation, unless they are ASCII."""
    byte = BYTE.fullmatch(piece)
    if byte and int(byte[1], 16) >= 0x80:
        return True
    return piece in MARKS or any(character.isalnum() for character in spell([piece]))
