"""A model's weights in the order in which the native engine numbers them."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from allyouneed.config import ModelConfig
from allyouneed.errors import CheckpointError
from allyouneed.weights import Weights


class Linear(NamedTuple):
    """Linear maps of one input, which are computed as one."""

    outputs: Mapping[str, int]  # how many each has, by its name
    n_in: int
    has_bias: bool = False

    @property
    def n_out(self) -> int:
        return sum(self.outputs.values())


def linears(config: ModelConfig) -> Iterator[Linear]:
    yield Linear({"embedding": config.vocab_size}, config.d_model)
    for layer in _layers("encoder", config.n_layers):
        yield from _own_attention(config, layer)
        yield from _feed_forward(config, layer)
    for layer in _layers("decoder", config.decoder_layers):
        yield from _own_attention(config, layer)
        yield from _memory_attention(config, layer)
        yield from _feed_forward(config, layer)


def norms(config: ModelConfig) -> Iterator[str]:
    for layer in _layers("encoder", config.n_layers):
        yield from (f"{layer}.{kind}_norm.norm" for kind in ("self_attention", "feed_forward"))
    for layer in _layers("decoder", config.decoder_layers):
        for kind in ("self_attention", "memory_attention", "feed_forward"):
            yield f"{layer}.{kind}_norm.norm"


def check_names(config: ModelConfig, weights: Weights) -> None:
    """Refuse weights of another model, as of one with more layers."""
    expected = {f"{name}.{part}" for name in norms(config) for part in ("weight", "bias")}
    for linear in linears(config):
        parts = ("weight", "bias") if linear.has_bias else ("weight",)
        expected |= {f"{name}.{part}" for name in linear.outputs for part in parts}
    if config.positions == "learned":
        expected.add("positions.weight")
    if different := sorted(expected ^ set(weights.names)):
        raise CheckpointError(
            f"weights and settings disagree: {', '.join(different[:3])} in only one of them; copy "
            "both anew from one model"
        )


def _layers(stack: str, n_layers: int) -> list[str]:
    return [f"{stack}.layers.{number}" for number in range(n_layers)]


def _own_attention(config: ModelConfig, layer: str) -> Iterator[Linear]:
    heads = f"{layer}.self_attention"
    n_k, n_v = config.n_heads * config.d_k, config.n_heads * config.d_v
    together = {f"{heads}.w_q": n_k, f"{heads}.w_k": n_k, f"{heads}.w_v": n_v}
    yield Linear(together, config.d_model)
    yield Linear({f"{heads}.w_o": config.d_model}, n_v)


def _memory_attention(config: ModelConfig, layer: str) -> Iterator[Linear]:
    heads = f"{layer}.memory_attention"
    n_k, n_v = config.n_heads * config.d_k, config.n_heads * config.d_v
    yield Linear({f"{heads}.w_q": n_k}, config.d_model)
    yield Linear({f"{heads}.w_k": n_k, f"{heads}.w_v": n_v}, config.d_model)
    yield Linear({f"{heads}.w_o": config.d_model}, n_v)


def _feed_forward(config: ModelConfig, layer: str) -> Iterator[Linear]:
    name = f"{layer}.feed_forward"
    yield Linear({f"{name}.w_1": config.d_ff}, config.d_model, has_bias=True)
    yield Linear({f"{name}.w_2": config.d_model}, config.d_ff, has_bias=True)
