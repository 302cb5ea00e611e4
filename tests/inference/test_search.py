import importlib
import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import (
    chain,
    chain_log_probability,
    random_transformer,
    scored,
    sentences_up_to,
)

from allyouneed.errors import ConfigError
from allyouneed.inference import (
    BeamSearch,
    Greedy,
    Hypothesis,
    Limits,
    Sampling,
    Strategy,
    search,
)
from allyouneed.inference.teacher_forcing import token_log_probs
from allyouneed.rows import one_sentence_a_row
from allyouneed.text.tokenizer import BEGIN, END, PAD

SOURCES = [[3, 4, 5], [5], [4, 4, 3, 5, 3, 3], [3, 4], [5, 5, 5, 4]]
STRATEGIES: list[Strategy] = [BeamSearch(3), BeamSearch(1), Greedy(), Sampling(seed=7)]
SEEDS = range(4)


def same(left: Sequence[Sequence[Hypothesis]], right: Sequence[Sequence[Hypothesis]]) -> bool:
    """Whether two searches found the same sentences, with scores that agree to float32."""
    flat = [
        (a, b)
        for first, second in zip(left, right, strict=True)
        for a, b in zip(first, second, strict=True)
    ]
    return all(
        a.ids == b.ids
        and a.finished == b.finished
        and math.isclose(a.score, b.score, rel_tol=1e-4, abs_tol=1e-5)
        for a, b in flat
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_cached_steps_find_the_probability_of_teacher_forcing(
    strategy: Strategy, seed: int
) -> None:
    model = random_transformer(seed)

    for source, (best,) in zip(SOURCES, search(model, SOURCES, strategy, Limits(6)), strict=True):
        [log_probs] = token_log_probs(model, [source], [best.ids])
        expected = sum(log_probs if best.finished else log_probs[:-1])
        assert math.isclose(best.log_probability, expected, rel_tol=1e-4)


def test_greedy_takes_the_best_token_of_an_uncached_pass() -> None:
    model = random_transformer(vocab_size=12)
    source = [5, 9, 7]
    target = [BEGIN]
    while target[-1] != END and len(target) < 9:
        logits = model(one_sentence_a_row([[*source, END]]), one_sentence_a_row([target]))[0, -1]
        logits[[PAD, BEGIN]] = -math.inf
        target.append(int(logits.argmax()))

    [[found]] = search(model, [source], Greedy(), Limits(5))

    assert found.ids == tuple(id_ for id_ in target[1:] if id_ != END)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_batch_padding_and_order_change_nothing(strategy: Strategy, seed: int) -> None:
    model = random_transformer(seed, vocab_size=9)

    together = search(model, SOURCES, strategy, Limits(7))
    alone = [search(model, [source], strategy, Limits(7))[0] for source in SOURCES]
    backwards = search(model, SOURCES[::-1], strategy, Limits(7))[::-1]

    assert same(together, alone)
    assert same(together, backwards)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_beam_of_one_is_greedy(seed: int) -> None:
    model = random_transformer(seed, vocab_size=9)

    assert search(model, SOURCES, BeamSearch(1), Limits(8)) == search(
        model, SOURCES, Greedy(), Limits(8)
    )


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_beam_as_wide_as_the_space_searches_all_of_it(seed: int, alpha: float) -> None:
    model = random_transformer(seed)
    everything = list(sentences_up_to(4))
    log_probs = token_log_probs(model, [SOURCES[0]] * len(everything), everything)
    expected = sorted(
        (scored(ids, sum(row), alpha) for ids, row in zip(everything, log_probs, strict=True)),
        key=lambda hypothesis: hypothesis.score,
        reverse=True,
    )

    [found] = search(
        model, [SOURCES[0]], BeamSearch(3**4 + 40, alpha), Limits(max_length=4), n_best=40
    )

    assert same([found], [expected])


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    size=st.integers(1, 5),
    alpha=st.sampled_from([0.0, 0.6, 1.5]),
    data=st.data(),
)
def test_stopping_early_never_changes_the_result(
    seed: int, size: int, alpha: float, data: st.DataObject
) -> None:
    n_best = data.draw(st.integers(1, size))
    model = chain(3 * torch.randn(6, 6, generator=torch.Generator().manual_seed(seed)))
    arguments = (model, [[3], [4, 5]], BeamSearch(size, alpha), Limits(8), n_best)
    module = importlib.import_module("allyouneed.inference.plain_search")
    early = search(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_best_to_come", lambda *_: torch.tensor(math.inf))
        late = search(*arguments)

    assert early == late


def test_a_longer_hypothesis_that_will_win_is_waited_for() -> None:
    logits = torch.full((6, 6), -99.0)
    logits[BEGIN, [END, 3]] = torch.tensor([0.5, 0.45]).log()
    logits[[3, 4, 5], [4, 5, END]] = 0.0  # certain, so that length alone lifts the score

    [[best]] = search(chain(logits), [[3]], BeamSearch(2), Limits(max_length=4))

    assert best.ids == (3, 4, 5)


def test_search_stops_when_nothing_better_can_come() -> None:
    logits = torch.zeros(6, 6)
    logits[:, END] = 6.0  # almost all that is said ends at once
    model = chain(logits)

    search(model, [[3]], BeamSearch(4), Limits(50))

    assert model.n_steps == 1


@settings(deadline=None, max_examples=40)
@given(logits=st.lists(st.floats(-8, 8, width=32), min_size=36, max_size=36))
def test_n_best_are_distinct_ordered_and_finished_first(logits: list[float]) -> None:
    model = chain(torch.tensor(logits).view(6, 6))

    [found] = search(model, [[3, 4]], BeamSearch(4), Limits(3), n_best=4)

    assert len({(it.ids, it.finished) for it in found}) == len(found) == 4
    assert found == sorted(found, key=lambda it: (it.finished, it.score), reverse=True)


@settings(deadline=None, max_examples=40)
@given(logits=st.lists(st.floats(-8, 8, width=32), min_size=36, max_size=36))
def test_the_score_is_log_probability_over_the_papers_penalty(logits: list[float]) -> None:
    table = torch.tensor(logits).view(6, 6)

    for best in search(chain(table), [[3, 4]], BeamSearch(3, 0.6), Limits(4), n_best=3)[0]:
        if best.finished:
            log_probability = chain_log_probability(table, best.ids)
            length = len(best.ids) + 1
            expected = log_probability / ((5 + length) / 6) ** 0.6
            assert math.isclose(best.score, expected, rel_tol=1e-4, abs_tol=1e-5)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pad_and_begin_are_never_said(strategy: Strategy) -> None:
    logits = torch.zeros(6, 6)
    logits[:, [PAD, BEGIN]] = 9.0

    [[best]] = search(chain(logits), [[3] * 20], strategy, Limits(50))

    assert not {PAD, BEGIN} & set(best.ids)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_length_stays_between_the_limits(strategy: Strategy) -> None:
    likely_end, unlikely_end = torch.zeros(6, 6), torch.zeros(6, 6)
    likely_end[:, END], unlikely_end[:, END] = 20.0, -20.0

    [[short]] = search(chain(likely_end), [[3]], strategy, Limits(min_length=3))
    [[long], [longer]] = search(chain(unlikely_end), [[3], [3, 4]], strategy, Limits(5))
    [[capped]] = search(chain(unlikely_end), [[3]], strategy, Limits(5, max_length=2))

    assert (len(short.ids), short.finished) == (3, True)
    assert (len(long.ids), long.finished) == (1 + 5, False)
    assert (len(longer.ids), longer.finished) == (2 + 5, False)
    assert len(capped.ids) == 2


def test_learned_positions_bound_the_length() -> None:
    model = chain(torch.ones(6, 6).index_fill(1, torch.tensor(END), -9.0))
    model.max_length = 4  # type: ignore[misc]

    assert len(search(model, [[3]], Greedy(), Limits(50))[0][0].ids) == 4


@pytest.mark.parametrize("seed", SEEDS)
def test_a_forced_prefix_restricts_the_search_to_what_begins_with_it(seed: int) -> None:
    model = random_transformer(seed)
    prefixes: list[list[int]] = [[4, 3], [], [5]]
    sources, limits = SOURCES[:3], Limits(max_length=4)
    everything = search(model, sources, BeamSearch(130), limits, n_best=40)

    found = search(model, sources, BeamSearch(130), limits, n_best=1, prefixes=prefixes)

    begun = [
        [it for it in hypotheses if list(it.ids[: len(prefix)]) == prefix][:1]
        for hypotheses, prefix in zip(everything, prefixes, strict=True)
    ]
    assert same(found, begun)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_forced_prefix_longer_than_the_limit_is_still_said(strategy: Strategy) -> None:
    prefix = [5, 3, 4, 5, 5]

    [[best]] = search(random_transformer(), [[3]], strategy, Limits(max_length=2), 1, [prefix])

    assert list(best.ids[:5]) == prefix


def test_no_sources_give_no_hypotheses() -> None:
    assert search(random_transformer(), [], Greedy(), Limits()) == []


def test_more_best_than_slots_is_refused() -> None:
    for strategy in (BeamSearch(2), Greedy()):
        with pytest.raises(ConfigError, match="3"):
            search(random_transformer(), [[3]], strategy, Limits(), n_best=3)


def test_impossible_limits_are_refused() -> None:
    with pytest.raises(ConfigError, match="min_length 5"):
        Limits(max_length=5, min_length=5)
    with pytest.raises(ConfigError, match="max_extra_tokens is 0"):
        Limits(max_extra_tokens=0)
    with pytest.raises(ConfigError, match="min_length is -1"):
        Limits(min_length=-1)
