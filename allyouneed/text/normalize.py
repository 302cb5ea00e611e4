"""One spelling for every text: what is learned from, translated and compared is normalised."""

import re
import unicodedata

# Control characters that are no white space, soft hyphens, zero-width spaces, word joiners and
# byte order marks. Joiners (U+200C, U+200D), direction marks and variation selectors stay: words,
# right-to-left text and emoji need them.
_INVISIBLE = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u200b\u2060\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which no UTF-8 text can hold
_SPACE_MARK = "\u2581"  # what SentencePiece writes for a space


def normalize(text: str) -> str:
    """NFC on one line: single spaces, nothing invisible, nothing that UTF-8 cannot hold."""
    if not text.isprintable():  # as most text is; the two searches cost more than this question
        text = _SURROGATE.sub("\ufffd", _INVISIBLE.sub("", text))
    text = unicodedata.normalize("NFC", text.replace(_SPACE_MARK, "_"))
    return " ".join(text.split())
