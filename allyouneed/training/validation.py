"""How good the model is so far: loss, and BLEU by real beam search, on the development set."""

from typing import NamedTuple

from allyouneed.config import CorpusConfig
from allyouneed.data.corpus import Corpus
from allyouneed.evaluation.metrics import corpus_bleu
from allyouneed.training.distributed import ALONE, Ranks
from allyouneed.translator import Translator


class DevScores(NamedTuple):
    """Scores on the development set."""

    loss: float  # nats a token
    bleu: float


class DevSet:
    """Sentences and their translations, as text."""

    def __init__(self, corpus: CorpusConfig) -> None:
        self._sources, self._references = map(list, zip(*Corpus(corpus), strict=True))

    def score(self, translator: Translator, ranks: Ranks = ALONE) -> DevScores:
        """Each rank translates its share; all of them get the scores of the whole."""
        mine = slice(ranks.number, None, ranks.count)
        scores = translator.score(self._sources[mine], self._references[mine])
        texts = [translation.text for translation in translator.translate(self._sources[mine])]
        all_texts = [""] * len(self._sources)
        log_probability, n_tokens = 0.0, 0
        for number, part in enumerate(ranks.gather((scores, texts))):
            log_probability += sum(score.log_probability for score in part[0])
            n_tokens += sum(score.n_tokens for score in part[0])
            all_texts[number :: ranks.count] = part[1]
        return DevScores(
            loss=-log_probability / n_tokens, bleu=corpus_bleu(all_texts, self._references)
        )
