"""SentencePiece BPE: one vocabulary for both languages (section 5.1).

The first ids are fixed: 0 pad, 1 begin, 2 end, 3 unknown, then the 256 bytes, so that a character
which the vocabulary lacks is spelled in bytes and `UNKNOWN` never comes out of `encode`.
"""

import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import sentencepiece

from allyouneed.errors import DataError
from allyouneed.text.normalize import normalize

PAD, BEGIN, END, UNKNOWN = 0, 1, 2, 3


class Tokenizer:
    """Text <-> ids. Decoding what was encoded gives back the normalised text."""

    def __init__(self, processor: sentencepiece.SentencePieceProcessor) -> None:
        self._processor = processor

    @classmethod
    def learn(
        cls, sentences: Iterable[str], vocab_size: int, *, character_coverage: float = 0.9999
    ) -> "Tokenizer":
        """Learn exactly `vocab_size` pieces; the same sentences give the same pieces."""
        # BPE never looks beyond a word, so words with their counts teach it the same pieces as the
        # sentences do, in a fraction of the memory.
        counts: Counter[str] = Counter()
        for sentence in sentences:
            counts.update(normalize(sentence).split())
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=(f"{word}\t{count}" for word, count in counts.items()),
                input_format="tsv",
                model_writer=model,
                model_type="bpe",
                vocab_size=vocab_size,
                character_coverage=character_coverage,
                byte_fallback=True,
                split_digits=True,  # numbers are copied digit by digit
                normalization_rule_name="identity",  # `normalize` has done it
                remove_extra_whitespaces=False,
                pad_id=PAD,
                bos_id=BEGIN,
                eos_id=END,
                unk_id=UNKNOWN,
                minloglevel=2,
            )
        except RuntimeError as error:
            raise DataError(_explain(str(error), vocab_size)) from None
        return cls.from_bytes(model.getvalue())

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        try:
            return cls.from_bytes(path.read_bytes())
        except OSError as error:
            raise DataError(f"{path}: no tokenizer to read here: {error.strerror}") from None
        except DataError as error:
            raise DataError(f"{path}: {error}") from None

    @classmethod
    def from_bytes(cls, serialized: bytes) -> "Tokenizer":
        processor = sentencepiece.SentencePieceProcessor()
        try:
            processor.load_from_serialized_proto(serialized)
        except RuntimeError:
            raise DataError("not a SentencePiece model; it is damaged or another file") from None
        ids = (processor.pad_id(), processor.bos_id(), processor.eos_id(), processor.unk_id())
        if ids != (PAD, BEGIN, END, UNKNOWN):
            raise DataError(
                f"pad, begin, end and unknown have the ids {ids} instead of 0, 1, 2, 3; "
                "use a tokenizer that allyouneed learned"
            )
        return cls(processor)

    @property
    def serialized(self) -> bytes:
        return bytes(self._processor.serialized_model_proto())

    def save(self, path: Path) -> None:
        path.write_bytes(self.serialized)

    def __reduce__(self) -> tuple[Callable[[bytes], "Tokenizer"], tuple[bytes]]:
        return Tokenizer.from_bytes, (self.serialized,)

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    def encode(self, text: str) -> list[int]:
        """Ids of the normalised text, without begin or end."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        # One thread: SentencePiece would start one a core in each of our worker processes.
        ids: list[list[int]] = self._processor.encode(
            [normalize(text) for text in texts], num_threads=1
        )
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; pad, begin and end leave no trace."""
        return str(self._processor.decode([int(id_) for id_ in ids]))

    def ranked_pieces(self) -> dict[str, tuple[int, int]]:
        """Of each piece, the place at which BPE learned it (low ones are merged first), and id."""
        processor = self._processor
        return {
            str(processor.id_to_piece(id_)): (round(-processor.get_score(id_)), id_)
            for id_ in range(len(self))
        }

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each id stands for; `▁` marks a space."""
        return [str(self._processor.id_to_piece(int(id_))) for id_ in ids]

    def ids(self, pieces: Sequence[str]) -> list[int]:
        """The ids that `pieces` came from."""
        return [int(self._processor.piece_to_id(piece)) for piece in pieces]

    def knows(self, piece: str) -> bool:
        """Whether it is a piece of text; pad, begin, end and unknown are none."""
        return self._processor.piece_to_id(piece) not in (PAD, BEGIN, END, UNKNOWN)


def _explain(message: str, vocab_size: int) -> str:
    """What SentencePiece's refusal means for the run file."""
    if largest := re.search(r"too high .* value <= (\d+)", message):
        return (
            f"the text is too small for {vocab_size} pieces; "
            f"set model.vocab_size to {largest[1]} or less"
        )
    if smallest := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return (
            f"{vocab_size} pieces cannot hold the bytes and characters of the text; "
            f"set model.vocab_size to {smallest[1]} or more, or lower data.character_coverage"
        )
    if "sentences_.empty()" in message:
        return "there is no text to learn a vocabulary from"
    return f"SentencePiece cannot learn a vocabulary of {vocab_size}: {message}"
