"""Which pairs are not worth learning from. The first filter in `FILTERS` that objects counts."""

import hashlib
import unicodedata
from functools import cache
from typing import NamedTuple

from allyouneed.config import FilterConfig

EMPTY = "empty"
TOO_LONG = "too long"
LENGTH_RATIO = "length ratio"
COPY = "copy"
WRONG_SCRIPT = "wrong script"
DUPLICATE = "duplicate"
FILTERS = (EMPTY, TOO_LONG, LENGTH_RATIO, COPY, WRONG_SCRIPT, DUPLICATE)

# A script is the first word of its letters' Unicode names.
_SCRIPTS_OF_LANGUAGES = {
    "LATIN": "af az bs ca cs cy da de en eo es et eu fi fr ga gl hr hu id is it lb lt lv ms mt nb "
    "nl nn no pl pt ro sk sl sq sv sw tl tr uz vi",
    "CYRILLIC": "be bg kk ky mk mn ru tg uk",
    "ARABIC": "ar fa ps ur",
    "DEVANAGARI": "hi mr ne",
    "ARMENIAN": "hy",
    "BENGALI": "bn",
    "ETHIOPIC": "am",
    "GEORGIAN": "ka",
    "GREEK": "el",
    "GUJARATI": "gu",
    "HANGUL CJK": "ko",
    "HEBREW": "he yi",
    "HIRAGANA KATAKANA KATAKANA-HIRAGANA CJK IDEOGRAPHIC": "ja",
    "CJK IDEOGRAPHIC": "zh",
    "KANNADA": "kn",
    "KHMER": "km",
    "LAO": "lo",
    "MALAYALAM": "ml",
    "MYANMAR": "my",
    "SINHALA": "si",
    "TAMIL": "ta",
    "TELUGU": "te",
    "THAI": "th",
    "LATIN CYRILLIC": "sr",
}


class TokenizedPair(NamedTuple):
    """Normalised text and its ids, without marks."""

    src: str
    tgt: str
    src_ids: list[int]
    tgt_ids: list[int]


class PairFilters:
    """The filters that judge a pair by itself, as a run sets them."""

    def __init__(self, config: FilterConfig, source_language: str, target_language: str) -> None:
        self.config = config
        self._src_scripts = scripts_of(source_language)
        self._tgt_scripts = scripts_of(target_language)

    def objection(self, pair: TokenizedPair) -> str | None:
        """The name of the first filter that refuses `pair`, if one does."""
        config = self.config
        if is_empty(pair):
            return EMPTY
        if is_too_long(pair, config.max_tokens):
            return TOO_LONG
        if config.max_ratio is not None and is_lopsided(pair, config.max_ratio):
            return LENGTH_RATIO
        if config.copies and is_copy(pair):
            return COPY
        limit = config.max_foreign_letters
        if limit is not None and (
            foreign_share(pair.src, self._src_scripts) > limit
            or foreign_share(pair.tgt, self._tgt_scripts) > limit
        ):
            return WRONG_SCRIPT
        return None


def is_empty(pair: TokenizedPair) -> bool:
    return not pair.src or not pair.tgt


def is_too_long(pair: TokenizedPair, max_tokens: int) -> bool:
    return max(len(pair.src_ids), len(pair.tgt_ids)) + 1 > max_tokens  # 1 for the end mark


def is_lopsided(pair: TokenizedPair, max_ratio: float) -> bool:
    shorter, longer = sorted((len(pair.src), len(pair.tgt)))
    return longer > max_ratio * shorter


def is_copy(pair: TokenizedPair) -> bool:
    return pair.src == pair.tgt


def foreign_share(text: str, scripts: frozenset[str] | None) -> float:
    """Share of the letters of `text` that belong to none of `scripts`; None knows no foreigner."""
    if scripts is None:
        return 0.0
    chars = set(text)
    foreign = [char for char in chars if (script := script_of(char)) and script not in scripts]
    if not foreign:
        return 0.0
    return sum(map(text.count, foreign)) / sum(map(text.count, filter(script_of, chars)))


@cache
def script_of(char: str) -> str:
    """LATIN, CYRILLIC, … for a letter, nothing for all else."""
    if not char.isalpha():
        return ""
    return unicodedata.name(char, "UNNAMED").split()[0]


def scripts_of(language: str) -> frozenset[str] | None:
    """Scripts of a language code such as `de` or `pt-BR`; None where the table lacks it."""
    code = language.replace("_", "-").split("-")[0].lower()
    for scripts, codes in _SCRIPTS_OF_LANGUAGES.items():
        if code in codes.split():
            return frozenset(scripts.split())
    return None


def hash_of(pair: TokenizedPair) -> int:
    """64 bits that tell pairs apart; the same in every process, which `hash` is not."""
    text = f"{pair.src}\n{pair.tgt}"  # normalised text has no newline of its own
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
