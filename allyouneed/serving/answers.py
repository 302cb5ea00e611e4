"""Translations as JSON: the objects that our own endpoints answer with."""

import math
from collections.abc import Sequence
from typing import NotRequired

import numpy as np
from typing_extensions import TypedDict  # pydantic reads typing's from Python 3.12 on only

from allyouneed.serving.word_spans import Span, word_spans
from allyouneed.translator import Candidate, Details, Translation

_LEAST_SHARE = 0.03  # of a word's attention; less is not told, but the most is always


class WordAnswer(TypedDict):
    before: str
    text: str


class TargetWordAnswer(WordAnswer):
    confidence: float
    attention: list[tuple[int, float]]


class TokenAnswer(TypedDict):
    text: str
    log_probability: float
    source: int


class HypothesisAnswer(TypedDict):
    text: str
    score: float
    log_probability: float
    finished: bool
    words: NotRequired[list[TargetWordAnswer]]
    tokens: NotRequired[list[TokenAnswer]]


class SentenceAnswer(TypedDict):
    source: str
    words: NotRequired[list[WordAnswer]]
    tokens: NotRequired[list[str]]
    hypotheses: list[HypothesisAnswer]


class TextAnswer(TypedDict):
    text: str
    layout: list[str]
    sentences: list[SentenceAnswer]


def sentence_answer(
    translation: Translation, details: Sequence[Details] | None = None
) -> SentenceAnswer:
    """A translation and, if they are given, the details of its hypotheses."""
    hypotheses = [_hypothesis(candidate) for candidate in translation.hypotheses]
    if details is None:
        return {"source": translation.source, "hypotheses": hypotheses}
    source_words = word_spans(translation.source, translation.source_tokens)
    for answer, candidate, detail in zip(hypotheses, translation.hypotheses, details, strict=True):
        answer["words"] = _target_words(candidate, detail, source_words)
        answer["tokens"] = _tokens(candidate, detail)
    return {
        "source": translation.source,
        "words": [{"before": word.before, "text": word.text} for word in source_words],
        "tokens": list(translation.source_tokens),
        "hypotheses": hypotheses,
    }


def _hypothesis(candidate: Candidate) -> HypothesisAnswer:
    return {
        "text": candidate.text,
        "score": round(candidate.score, 4),
        "log_probability": round(candidate.log_probability, 4),
        "finished": candidate.finished,
    }


def _target_words(
    candidate: Candidate, details: Details, source_words: Sequence[Span]
) -> list[TargetWordAnswer]:
    answers: list[TargetWordAnswer] = []
    for word in word_spans(candidate.text, candidate.tokens):
        tokens = slice(word.tokens.start, word.tokens.stop)
        shares = details.attention[tokens].mean(0)
        answers.append(
            {
                "before": word.before,
                "text": word.text,
                "confidence": round(
                    math.exp(math.fsum(details.token_log_probabilities[tokens])), 4
                ),
                "attention": _shares(
                    [shares[it.tokens.start : it.tokens.stop].sum() for it in source_words]
                ),
            }
        )
    return answers


def _shares(weights: Sequence[np.float32]) -> list[tuple[int, float]]:
    """(Place, weight), the greatest first: those that count, and the greatest in any case."""
    order = sorted(range(len(weights)), key=weights.__getitem__, reverse=True)
    told = [place for place in order if weights[place] >= _LEAST_SHARE] or order[:1]
    return [(place, round(float(weights[place]), 4)) for place in told]


def _tokens(candidate: Candidate, details: Details) -> list[TokenAnswer]:
    sources = details.attention[:, :-1].argmax(-1).tolist() if candidate.tokens else []
    # The end mark's log P comes last, and is none of a token.
    rows = zip(candidate.tokens, details.token_log_probabilities, sources, strict=False)
    return [
        {"text": token, "log_probability": round(log_probability, 4), "source": source}
        for token, log_probability, source in rows
    ]
