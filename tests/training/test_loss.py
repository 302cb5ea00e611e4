"""Label smoothing: the formula of section 5.4, over real tokens only."""

import math

import torch
import torch.nn.functional as F
from torch.testing import assert_close

from allyouneed.data.batches import IGNORE
from allyouneed.training.loss import label_smoothed_loss


def test_the_loss_is_the_cross_entropy_with_the_smoothed_distribution() -> None:
    logits, labels = torch.randn(2, 3, 7), torch.randint(7, (2, 3))
    smoothed_labels = F.one_hot(labels, 7) * 0.9 + 0.1 / 7

    loss = label_smoothed_loss(logits, labels, smoothing=0.1)

    assert_close(loss.smoothed, -(smoothed_labels * logits.log_softmax(-1)).sum())


def test_value_and_gradient_agree_with_torch() -> None:
    logits, labels = torch.randn(2, 3, 7, requires_grad=True), torch.randint(7, (2, 3))
    labels[0, 2] = IGNORE

    ours = label_smoothed_loss(logits, labels, smoothing=0.2).smoothed
    theirs = F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), label_smoothing=0.2, reduction="sum"
    )

    assert_close(ours, theirs)
    assert_close(torch.autograd.grad(ours, logits), torch.autograd.grad(theirs, logits))


def test_nll_is_the_log_of_the_true_token_alone() -> None:
    uniform = torch.zeros(1, 4, 10)
    labels = torch.tensor([[1, 2, IGNORE, IGNORE]])

    assert_close(label_smoothed_loss(uniform, labels, 0.1).nll.item(), 2 * math.log(10))


def test_padding_costs_nothing_and_teaches_nothing() -> None:
    logits = torch.randn(1, 3, 5, requires_grad=True)
    loss = label_smoothed_loss(logits, torch.tensor([[1, IGNORE, 2]]), 0.1)

    (gradient,) = torch.autograd.grad(loss.smoothed, logits)

    assert gradient[0, 1].abs().max() == 0
    assert gradient[0, 0].abs().max() > 0
