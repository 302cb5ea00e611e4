"""Which language a text is in, and what languages are called."""

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from allyouneed.errors import UserError

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "ca": "Catalan", "cs": "Czech", "da": "Danish",
    "de": "German", "el": "Greek", "en": "English", "es": "Spanish", "et": "Estonian",
    "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish", "he": "Hebrew",
    "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "id": "Indonesian", "is": "Icelandic",
    "it": "Italian", "ja": "Japanese", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian",
    "mt": "Maltese", "nb": "Norwegian", "nl": "Dutch", "no": "Norwegian", "pl": "Polish",
    "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian",
    "sr": "Serbian", "sv": "Swedish", "ta": "Tamil", "th": "Thai", "tr": "Turkish",
    "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip


def language_name(code: str) -> str:
    """The English name of a language, or the code itself where that is not known."""
    return _NAMES.get(code, code)


def recognise(text: str, candidates: Iterable[str]) -> list[tuple[str, float]]:
    """The candidates and how probable each is as the language of `text`; the likeliest first.

    Candidates that the recogniser does not know have the probability 0. A text that says nothing,
    such as a number, leaves them alike, in the order of their codes.
    """
    codes = frozenset(candidates)
    identifier = _identifier_of(codes)
    known = dict(identifier.rank(text)) if identifier else {}
    found = [(code, float(known.get(code, 0.0))) for code in sorted(codes)]
    return sorted(found, key=lambda it: it[1], reverse=True)


@functools.lru_cache(maxsize=32)
def _identifier_of(codes: frozenset[str]) -> "LanguageIdentifier | None":
    """A recogniser of these languages alone; None if it knows none of them."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise UserError(
            "recognising languages needs py3langid, which a whole install has; "
            "install it with: pip install py3langid"
        ) from None
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    known = codes & set(identifier.labels)
    if not known:
        return None
    identifier.set_languages(known)
    return identifier
