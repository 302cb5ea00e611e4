"""Adam and the rate of section 5.3."""

import pytest
import torch

from allyouneed.config import TrainingConfig
from allyouneed.training.optimizer import make_adam, rate


def test_the_rate_is_the_papers_formula() -> None:
    config = TrainingConfig(warmup_steps=4000)

    for step in (1, 2000, 4000, 4001, 100_000):
        formula = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert rate(step, 512, config) == pytest.approx(formula)


def test_the_rate_peaks_at_the_end_of_the_warm_up() -> None:
    config = TrainingConfig(warmup_steps=100, steps=1000)
    rates = [rate(step, 512, config) for step in range(1, 1001)]

    assert rates.index(max(rates)) == 99


def test_a_cooldown_falls_in_a_line_to_almost_zero_and_changes_nothing_before() -> None:
    warm = TrainingConfig(warmup_steps=10, steps=100)
    cooled = TrainingConfig(warmup_steps=10, steps=100, cooldown_steps=40)
    shares = [rate(step, 512, cooled) / rate(step, 512, warm) for step in range(1, 101)]

    assert shares[:60] == [1.0] * 60
    assert shares[60:] == pytest.approx([(40 - k) / 41 for k in range(40)])


def test_adam_has_the_papers_constants() -> None:
    optimizer = make_adam(torch.nn.Linear(2, 2), TrainingConfig())

    assert optimizer.defaults["betas"] == (0.9, 0.98)
    assert optimizer.defaults["eps"] == 1e-9
    assert optimizer.defaults["weight_decay"] == 0
