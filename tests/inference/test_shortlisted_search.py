"""With a shortlist: the native engine finds what the plain model finds, and nothing else."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from native_models import (
    CONFIG,
    WORTH_SHARING,
    engine_of,
    needs_compiler,
    random_model,
    random_shortlist,
    sources,
)
from searches import LIMITS, assert_same, found_fast
from tiny_translator import tokenizer

from allyouneed.checkpoint import Manifest, save_model
from allyouneed.errors import CheckpointError, ConfigError
from allyouneed.inference import BeamSearch, Greedy, Limits, Sampling, search
from allyouneed.inference.fast_search import fast_search
from allyouneed.shortlist import Shortlist
from allyouneed.text.tokenizer import END
from allyouneed.translator import Translator

SHORTLIST = random_shortlist(CONFIG.vocab_size, n_always=9, most=3)
MODEL = dataclasses.replace(CONFIG, vocab_size=330)
TEXTS = ["one man, two.", "three four five", "Ten!"]


def allowed(shortlist: Shortlist, source: list[int], prefix: list[int]) -> set[int]:
    return {*shortlist.always.tolist(), *shortlist.choices(source, prefix).tolist()}


@needs_compiler
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("strategy", "n_best"), [(BeamSearch(4), 4), (Greedy(), 1)])
@pytest.mark.parametrize("limits", [LIMITS, Limits(9, min_length=7)])
def test_the_native_engine_finds_what_the_plain_model_finds(
    threads: int, strategy: BeamSearch | Greedy, n_best: int, limits: Limits
) -> None:
    config, texts = WORTH_SHARING, sources(40, vocab_size=WORTH_SHARING.vocab_size)
    model = random_model(config)
    shortlist = random_shortlist(config.vocab_size, n_always=200, most=20)
    prefixes = [text[::-1][: number % 3] for number, text in enumerate(texts)]
    engine = engine_of(model, threads=threads, shortlist=shortlist)

    for batch_tokens in (60, 2000):  # the former so few that slots are refilled many times
        arguments = (texts, strategy, limits, n_best, prefixes)
        fast = found_fast(engine, *arguments, batch_tokens)

        assert_same(fast, search(model, *arguments, shortlist))


def test_nothing_but_a_sentences_own_pieces_comes_out_and_these_have_all_the_probability() -> None:
    model, texts = random_model(), sources(12)
    prefixes = [[50 + number] for number in range(12)]

    free = search(model, texts, BeamSearch(3), LIMITS, 3, prefixes)
    bound = search(model, texts, BeamSearch(3), LIMITS, 3, prefixes, SHORTLIST)

    for text, prefix, hypotheses in zip(texts, prefixes, bound, strict=True):
        for hypothesis in hypotheses:
            assert {*hypothesis.ids, END} <= allowed(SHORTLIST, text, prefix)
            assert list(hypothesis.ids[:1]) == prefix
    assert [it[0].ids for it in bound] != [it[0].ids for it in free]
    one_step = search(model, texts[:1], BeamSearch(20), Limits(1, 1), 20, None, SHORTLIST)
    assert sum(np.exp(it.log_probability) for it in one_step[0]) == pytest.approx(1, abs=1e-4)


@needs_compiler
def test_others_in_the_batch_change_nothing() -> None:
    engine, texts = engine_of(random_model(), shortlist=SHORTLIST), sources(20)

    def found(some: list[list[int]]) -> list[tuple[int, ...]]:
        results = dict(fast_search(engine, some, BeamSearch(3), LIMITS, 1, [()] * len(some), 2000))
        return [results[place][0].ids for place in range(len(some))]

    assert found(texts) == [found([text])[0] for text in texts]


@needs_compiler
def test_a_list_of_everything_changes_nothing() -> None:
    everything = Shortlist(
        np.arange(CONFIG.vocab_size), np.zeros(CONFIG.vocab_size), np.empty(0, np.int32)
    )
    model, texts = random_model(), sources(10)
    arguments = (texts, BeamSearch(3), LIMITS, 2, [()] * 10)

    for eight_bits in (False, True):
        free = engine_of(model, eight_bits=eight_bits)
        bound = engine_of(model, eight_bits=eight_bits, shortlist=everything)
        assert dict(fast_search(bound, *arguments, 60)) == dict(fast_search(free, *arguments, 60))
    assert search(model, *arguments, everything) == search(model, *arguments)


def saved(folder: Path, shortlist: Shortlist | None, by_default: bool | None) -> Path:
    manifest = Manifest(
        source_language="en",
        target_language="de",
        max_source_tokens=30,
        model=MODEL,
        shortlist=by_default,
    )
    weights = random_model(MODEL).state_dict()
    save_model(folder, weights, tokenizer(), manifest, torch.float32, shortlist)
    return folder


@pytest.mark.parametrize("engine", ["plain", pytest.param("float32", marks=needs_compiler)])
@pytest.mark.parametrize("by_default", [True, False])
def test_the_model_says_whether_its_list_is_used_unless_the_user_does(
    tmp_path: Path, engine: str, by_default: bool
) -> None:
    shortlist = random_shortlist(330, n_always=20, most=2)
    folder = saved(tmp_path / "model", shortlist, by_default)

    def tokens(wanted: bool | None) -> list[tuple[str, ...]]:
        translator = Translator.load(folder, "cpu", engine=engine, shortlist=wanted)
        return [
            it.tokens
            for strategy in (None, Sampling(seed=1))
            for it in translator.translate(TEXTS, strategy=strategy)
        ]

    free, bound = tokens(False), tokens(True)
    assert tokens(None) == (bound if by_default else free)
    for source, its_free, its_bound in zip(TEXTS * 2, free, bound, strict=True):
        pieces = allowed(shortlist, tokenizer().encode(source), [])
        assert set(tokenizer().ids(its_bound)) <= pieces
        assert not set(tokenizer().ids(its_free)) <= pieces


def test_a_list_that_is_not_there_is_missed(tmp_path: Path) -> None:
    without = saved(tmp_path / "without", None, True)  # a list that was not given is not named
    lost = saved(tmp_path / "lost", random_shortlist(330, 20, 2), True)
    (lost / "shortlist.safetensors").unlink()

    Translator.load(without, "cpu")
    with pytest.raises(ConfigError, match="`allyouneed shortlist` learns one"):
        Translator.load(without, "cpu", shortlist=True)
    with pytest.raises(CheckpointError, match="it has no shortlist"):
        Translator.load(lost, "cpu")
    Translator.load(lost, "cpu", shortlist=False)
