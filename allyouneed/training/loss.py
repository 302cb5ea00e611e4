"""Label smoothing (section 5.4).

Shapes: B rows, T width, V vocabulary.
"""

from typing import NamedTuple

from torch import Tensor

from allyouneed.data.batches import IGNORE


class Loss(NamedTuple):
    """Sums over the target tokens of a batch, in nats."""

    smoothed: Tensor  # what training lowers
    nll: Tensor  # cross-entropy with the true token alone; exp of its mean is the perplexity


def label_smoothed_loss(logits: Tensor, labels: Tensor, smoothing: float) -> Loss:
    """Cross-entropy with (1 − ε) on the true token and ε spread evenly over the vocabulary.

    logits (B, T, V), labels (B, T) with IGNORE at padding.
    """
    log_probabilities = logits.float().log_softmax(dim=-1)
    counted = labels != IGNORE
    true_token = labels.where(counted, 0).unsqueeze(-1)
    nll = -log_probabilities.gather(-1, true_token).squeeze(-1)
    uniform = -log_probabilities.mean(dim=-1)
    smoothed = (1 - smoothing) * nll + smoothing * uniform
    return Loss((smoothed * counted).sum(), (nll.detach() * counted).sum())
