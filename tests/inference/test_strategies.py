import math

import pytest
import torch
from tiny_models import chain, random_transformer

from allyouneed.errors import ConfigError
from allyouneed.inference import BeamSearch, Greedy, Hypothesis, Limits, Sampling, search
from allyouneed.text.tokenizer import BEGIN, END, PAD

ONE_TOKEN = Limits(max_length=1)


def table(row: list[float]) -> torch.Tensor:
    """Logits that are the same after every token."""
    return torch.tensor(row).expand(len(row), -1).clone()


def first_tokens(logits: torch.Tensor, strategy: Sampling, n: int) -> list[int]:
    [found] = search(chain(logits), [[3]], strategy, ONE_TOKEN, n_best=n)
    return [END if it.finished else it.ids[0] for it in found]


def test_frequencies_follow_the_distribution() -> None:
    logits, n = table([0.0, 0.0, 0.3, -1.0, 1.5, 0.7]), 20_000
    expected = logits[0].index_fill(0, torch.tensor([PAD, BEGIN]), -math.inf).div(0.8).softmax(-1)

    tokens = first_tokens(logits, Sampling(temperature=0.8, seed=1), n)

    frequencies = torch.tensor(tokens).bincount(minlength=6) / n
    deviation = (expected * (1 - expected) / n).sqrt()
    assert ((frequencies - expected).abs() <= 5 * deviation).all()


def test_top_k_draws_from_the_k_most_probable_and_all_of_them() -> None:
    logits = table([9.0, 9.0, 0.1, 0.2, 0.4, 0.3])

    assert set(first_tokens(logits, Sampling(top_k=2, seed=1), 500)) == {4, 5}


def test_top_p_draws_from_the_fewest_that_hold_the_mass() -> None:
    probabilities = [0.05, 0.15, 0.5, 0.3]
    logits = table([-99.0, -99.0, *(math.log(p) for p in probabilities)])

    def drawn(top_p: float) -> set[int]:
        return set(first_tokens(logits, Sampling(top_p=top_p, seed=1), 500))

    assert drawn(0.4) == {4}
    assert drawn(0.7) == {4, 5}
    assert drawn(0.9) == {4, 5, 3}
    assert drawn(1.0) == {4, 5, 3, 2}


@pytest.mark.parametrize("seed", range(5))
def test_sampling_the_most_probable_alone_is_greedy(seed: int) -> None:
    model = random_transformer(seed)

    sampled = search(model, [[3, 4]], Sampling(top_k=1), Limits(5))

    assert sampled == search(model, [[3, 4]], Greedy(), Limits(5))


def test_a_seed_gives_a_sentence_the_same_samples_in_any_company() -> None:
    model = random_transformer(vocab_size=40)

    def samples(sources: list[list[int]], seed: int | None) -> list[list[Hypothesis]]:
        return search(model, sources, Sampling(seed=seed), Limits(5), n_best=3)

    [alone] = samples([[3, 4]], 1)
    in_company = samples([[7, 8, 9], [3, 4], [5]], 1)[1]

    assert [it.ids for it in alone] == [it.ids for it in in_company]
    assert len({it.ids for it in alone}) == 3
    assert samples([[3, 4]], 1) != samples([[3, 4]], 2)
    assert samples([[3, 4]], None) != samples([[3, 4]], None)


def test_what_has_ended_keeps_its_slot() -> None:
    logits = torch.full((6, 6), -99.0)
    logits[BEGIN, [3, END]] = torch.tensor([0.8, 0.2]).log()
    logits[3, [4, 5]] = torch.tensor([0.5, 0.4]).log()  # each more probable than having ended

    [found] = search(chain(logits), [[3]], BeamSearch(2), Limits(max_length=2), n_best=2)

    assert [it.ids for it in found] == [(), (3, 4)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: BeamSearch(0),
        lambda: BeamSearch(length_penalty=-0.1),
        lambda: Greedy(length_penalty=math.nan),
        lambda: Sampling(temperature=0),
        lambda: Sampling(top_k=0),
        lambda: Sampling(top_p=0),
        lambda: Sampling(top_p=1.1),
    ],
)
def test_settings_without_meaning_are_refused(make: type) -> None:
    with pytest.raises(ConfigError):
        make()
