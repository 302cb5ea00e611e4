"""BLEU as the paper and its contemporaries computed it: over Moses tokens, by multi-bleu.

The figures of Table 2 come from tensor2tensor's get_ende_bleu.sh: Unicode punctuation replaced,
Moses tokens, hyphenated compounds split, no smoothing. Splitting gives frequent words to match, so
the number is higher than sacreBLEU's for the same text and compares only with its like.
"""

import re
from collections.abc import Callable, Sequence

from allyouneed.errors import MissingExtraError
from allyouneed.evaluation.metrics import Score, check_aligned


def paper_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    language: str,
    *,
    lowercase: bool = False,
    split_compounds: bool = True,
) -> Score:
    """Score raw text; with `lowercase` prepared as Multi30k's published results are."""
    import sacrebleu
    from sacrebleu.metrics.bleu import BLEU

    check_aligned(hypotheses, references)
    tokenize, version = _moses(language, lowercase=lowercase)

    def prepare(line: str) -> str:
        tokens = tokenize(line)
        return split_hyphens(tokens) if split_compounds else tokens

    # multi-bleu.perl: tokens are what white space separates, and nothing is smoothed.
    bleu = BLEU(tokenize="none", smooth_method="none", force=True)
    value = bleu.corpus_score(
        [prepare(line) for line in hypotheses], [[prepare(line) for line in references]]
    ).score
    signature = "|".join(
        (
            "nrefs:1",
            f"case:{'lc' if lowercase else 'mixed'}",
            "eff:no",
            f"punct:{'normalized' if lowercase else 'replaced'}",
            f"tok:moses-{language}-{version}",
            f"compounds:{'split' if split_compounds else 'whole'}",
            "smooth:none",
            f"version:{sacrebleu.__version__}",
        )
    )
    return Score("lower-cased BLEU" if lowercase else "paper BLEU", value, signature)


def split_hyphens(tokens: str) -> str:
    """Make three tokens of "rich-text", by the very expression of the paper's script.

    A match consumes the letters beside the hyphen, so "a-b-c" is split once, as it was then.
    """
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", tokens)


def _moses(language: str, *, lowercase: bool) -> tuple[Callable[[str], str], str]:
    """A function from a raw line to its tokens, and the version of the package behind it."""
    try:
        import sacremoses
    except ImportError:
        raise MissingExtraError("sacremoses", "paper-bleu", "the paper's BLEU") from None

    punctuation = sacremoses.MosesPunctNormalizer(language, perl_parity=True)
    tokenizer = sacremoses.MosesTokenizer(language)

    def tokenize(line: str) -> str:
        if lowercase:
            # Multi30k's script lower-cases before it cuts, and its lines still end in "\n",
            # which lets a rule of the normalizer move a last full stop out of the quotes.
            line = punctuation.normalize(line.lower() + "\n")
        else:
            line = punctuation.replace_unicode_punct(line)
        # Escaping & as &amp; renames tokens alike on both sides, which no BLEU can see.
        return str(tokenizer.tokenize(line, return_str=True, escape=False))

    return tokenize, sacremoses.__version__
