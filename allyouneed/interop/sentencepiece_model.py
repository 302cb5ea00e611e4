"""The tokenizer as other programs run it: SentencePiece alone, without our `normalize` before."""

import sentencepiece

from allyouneed.text.tokenizer import Tokenizer


def standalone(tokenizer: Tokenizer) -> bytes:
    """The same pieces in a model that itself joins spaces and strips them from both ends."""
    processor = sentencepiece.SentencePieceProcessor()
    processor.load_from_serialized_proto(tokenizer.serialized)
    processor.override_normalizer_spec(remove_extra_whitespaces=True)
    return bytes(processor.serialized_model_proto())


def pieces(tokenizer: Tokenizer) -> list[str]:
    """All pieces in the order of their ids."""
    return tokenizer.pieces(range(len(tokenizer)))
