"""How good the model is so far: loss, and BLEU by real beam search, on the development set."""

from typing import NamedTuple

from allyouneed.config import CorpusConfig
from allyouneed.data.corpus import Corpus
from allyouneed.evaluation.metrics import corpus_bleu
from allyouneed.translator import Translator


class DevScores(NamedTuple):
    """Scores on the development set."""

    loss: float  # nats a token
    bleu: float


class DevSet:
    """Sentences and their translations, as text."""

    def __init__(self, corpus: CorpusConfig) -> None:
        self._sources, self._references = map(list, zip(*Corpus(corpus), strict=True))

    def score(self, translator: Translator) -> DevScores:
        scores = translator.score(self._sources, self._references)
        translations = translator.translate(self._sources)
        log_probability = sum(score.log_probability for score in scores)
        return DevScores(
            loss=-log_probability / sum(score.n_tokens for score in scores),
            bleu=corpus_bleu([translation.text for translation in translations], self._references),
        )
