"""BPE-dropout (Provilkov, Emelianenko and Voita, 2020): words cut into pieces in random ways.

A model that sees a word in several cuts learns what its parts mean, which helps where there is
little text. SentencePiece can do it too, but not reproducibly.
"""

import functools
import random
from collections.abc import Sequence

from allyouneed.text.normalize import normalize
from allyouneed.text.tokenizer import Tokenizer

_SPACE = "▁"


class SubwordDropout:
    """Encodes like `tokenizer`, but leaves out each merge with a probability.

    A seed stands for one way to cut every word there is: the same word is cut alike wherever it
    stands, in any process. Other ways are other seeds.
    """

    def __init__(self, tokenizer: Tokenizer, probability: float, seed: int) -> None:
        self._tokenizer = tokenizer
        self._probability = probability
        self._seed = seed
        self._ranked = tokenizer.ranked_pieces()
        self._cut = functools.lru_cache(maxsize=200_000)(self._cut_word)

    def __reduce__(self) -> tuple[type, tuple[Tokenizer, float, int]]:
        return SubwordDropout, (self._tokenizer, self._probability, self._seed)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [
            [id_ for word in normalize(text).split() for id_ in self._cut(word)] for text in texts
        ]

    def _cut_word(self, word: str) -> list[int]:
        dice = random.Random(f"{self._seed} {word}")
        parts = list(_SPACE + word)
        while len(parts) > 1:
            merges = [
                (self._ranked[merged][0], place)
                for place, merged in enumerate(map(str.__add__, parts, parts[1:]))
                if merged in self._ranked and dice.random() >= self._probability
            ]
            if not merges:
                break
            _, place = min(merges)
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
        return [id_ for part in parts for id_ in self._ids(part)]

    def _ids(self, part: str) -> list[int]:
        """A part is a piece, or a character that is spelled in bytes."""
        if part in self._ranked:
            return [self._ranked[part][1]]
        return [self._ranked[f"<0x{byte:02X}>"][1] for byte in part.encode()]
