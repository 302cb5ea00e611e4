"""The paper's BLEU against a transcription of its definition."""

import math
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.errors import DataError, MissingExtraError
from allyouneed.evaluation.metrics import score_corpus
from allyouneed.evaluation.paper_bleu import paper_bleu, split_hyphens

Tokens = list[str]


def bleu_of_tokens(hypotheses: list[Tokens], references: list[Tokens]) -> float:
    """Papineni et al. 2002 with one reference and no smoothing: what multi-bleu.perl prints."""
    logs = []
    for n in range(1, 5):
        matched = total = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            found, wanted = ngrams(hypothesis, n), ngrams(reference, n)
            matched += (found & wanted).total()
            total += found.total()
        if not matched:
            return 0.0
        logs.append(math.log(matched / total))
    n_hypothesis, n_reference = (sum(map(len, side)) for side in (hypotheses, references))
    brevity = min(0.0, 1 - n_reference / n_hypothesis)
    return 100 * math.exp(brevity + sum(logs) / 4)


def ngrams(tokens: Tokens, n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def test_it_is_multi_bleu_over_moses_tokens_with_compounds_split() -> None:
    hypothesis = "Der „EU-Haushalt“ wächst z.B. um 3,5 % am Montag."
    reference = 'Der EU-Haushalt" wächst, z.B. um 3,5 % am Montag, weiter.'
    # “ is among the punctuation that the paper's script replaced; „ is not.
    hypothesis_tokens = 'Der „ EU ##AT##-##AT## Haushalt " wächst z.B. um 3,5 % am Montag .'
    reference_tokens = 'Der EU ##AT##-##AT## Haushalt " wächst , z.B. um 3,5 % am Montag , weiter .'

    score = paper_bleu([hypothesis], [reference], "de")

    expected = bleu_of_tokens([hypothesis_tokens.split()], [reference_tokens.split()])
    assert score.value == pytest.approx(expected)
    assert 0 < expected < 100


words = st.lists(st.sampled_from(["der", "Hund", "sieht", "die", "Katze"]), max_size=9)
corpora = st.lists(st.tuples(words, words), min_size=1, max_size=4)


@given(corpora)
def test_it_agrees_with_the_definition_on_any_words(corpus: list[tuple[Tokens, Tokens]]) -> None:
    hypotheses, references = ([pair[side] for pair in corpus] for side in (0, 1))

    score = paper_bleu(
        [" ".join(words) for words in hypotheses], [" ".join(words) for words in references], "de"
    )

    expected = bleu_of_tokens(hypotheses, references) if any(hypotheses) else 0.0
    assert score.value == pytest.approx(expected)


def test_without_a_matching_four_gram_it_is_zero_unlike_sacrebleu() -> None:
    hypotheses, references = ["Hund im Garten heute"], ["Hund im Garten gestern"]

    assert paper_bleu(hypotheses, references, "de").value == 0
    assert score_corpus(hypotheses, references)["bleu"].value > 0


def test_case_counts_unless_lowercase_is_asked_for() -> None:
    hypotheses, references = ["Der hund schläft im Garten"], ["der Hund schläft im garten"]

    assert paper_bleu(hypotheses, references, "de").value == 0
    assert paper_bleu(hypotheses, references, "de", lowercase=True).value == pytest.approx(100)


@pytest.mark.parametrize(
    ("hypothesis", "reference"),
    [
        ("Auf dem Schild steht „Halt.“", 'Auf dem Schild steht "Halt".'),
        ("Auf dem ’Schild’ steht nichts", 'Auf dem "Schild" steht nichts'),
    ],
)
def test_the_lower_cased_form_normalises_quotes_as_perl_did(
    hypothesis: str, reference: str
) -> None:
    assert paper_bleu([hypothesis], [reference], "de").value < 99
    assert paper_bleu([hypothesis], [reference], "de", lowercase=True).value == pytest.approx(100)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ("rich-text", "rich ##AT##-##AT## text"),
        ("ein T-Shirt , ein Go-Kart", "ein T ##AT##-##AT## Shirt , ein Go ##AT##-##AT## Kart"),
        ("a-b-c", "a ##AT##-##AT## b-c"),  # b is spent on the first match, as in Perl
        ("Hin- und Rückweg - -5", "Hin- und Rückweg - -5"),
    ],
)
def test_compounds_are_split_where_perl_split_them(tokens: str, expected: str) -> None:
    assert split_hyphens(tokens) == expected


def test_splitting_gives_credit_for_half_a_compound() -> None:
    hypotheses, references = ["Ein rotes Go-Kart rollt"], ["Ein rotes Go-Cart rollt"]

    assert paper_bleu(hypotheses, references, "de", split_compounds=False).value == 0
    assert paper_bleu(hypotheses, references, "de").value > 0


def test_the_signature_tells_the_two_forms_apart() -> None:
    lines = ["Ein Hund schläft im Garten"]

    paper = paper_bleu(lines, lines, "de")
    multi30k = paper_bleu(lines, lines, "fr", lowercase=True, split_compounds=False)

    assert paper.signature.startswith("nrefs:1|case:mixed|eff:no|punct:replaced|tok:moses-de-")
    assert "|compounds:split|smooth:none|" in paper.signature
    assert multi30k.signature.startswith("nrefs:1|case:lc|eff:no|punct:normalized|tok:moses-fr-")
    assert "|compounds:whole|smooth:none|" in multi30k.signature


def test_without_sacremoses_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)

    with pytest.raises(MissingExtraError, match="pip install sacremoses"):
        paper_bleu(["a"], ["a"], "de")


def test_sides_that_do_not_pair_are_refused() -> None:
    with pytest.raises(DataError, match="1 translations but 2 references"):
        paper_bleu(["a"], ["a", "b"], "de")
