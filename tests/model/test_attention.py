"""Section 3.2: the fused kernel, who sees whom, and the weights on request."""

import importlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_world import CONFIG, SRC, TGT, packed, random_model
from torch import Tensor
from torch.testing import assert_close

from allyouneed.model import (
    KeysValues,
    MultiHeadAttention,
    attention_weights,
    scaled_dot_product_attention,
)
from allyouneed.rows import PADDING, Rows, one_sentence_a_row

SIZE = st.integers(1, 6)


def random_mask(*shape: int) -> Tensor:
    mask = torch.rand(*shape) < 0.5
    mask[..., 0] = True  # a query needs at least one key
    return mask


def small_heads() -> MultiHeadAttention:
    torch.manual_seed(0)
    return MultiHeadAttention(d_model=16, n_heads=4, d_k=3, d_v=5)


def layer_outputs(src: Rows, tgt: Rows) -> list[Tensor]:
    """What every decoder layer of one model makes of a batch."""
    model = random_model(dtype=torch.float64)
    outputs: list[Tensor] = []
    for layer in model.decoder.layers:
        layer.register_forward_hook(lambda _module, _inputs, output: outputs.append(output[0]))
    with torch.no_grad():
        model(src, tgt)
    assert len(outputs) == model.config.decoder_layers
    return outputs


@settings(deadline=None, max_examples=50)
@given(batch=SIZE, heads=SIZE, queries=SIZE, keys=SIZE, d_k=SIZE, d_v=SIZE, seed=st.integers(0, 99))
def test_fused_attention_is_the_formula(
    batch: int, heads: int, queries: int, keys: int, d_k: int, d_v: int, seed: int
) -> None:
    torch.manual_seed(seed)
    q = torch.randn(batch, heads, queries, d_k, dtype=torch.float64)
    k = torch.randn(batch, heads, keys, d_k, dtype=torch.float64)
    v = torch.randn(batch, heads, keys, d_v, dtype=torch.float64)
    mask = random_mask(batch, 1, queries, keys)

    assert_close(scaled_dot_product_attention(q, k, v, mask), attention_weights(q, k, mask) @ v)
    assert_close(scaled_dot_product_attention(q, k, v), attention_weights(q, k) @ v)


def test_weights_of_a_module_are_those_its_output_is_made_with() -> None:
    heads = small_heads()
    x, memory, mask = torch.randn(2, 3, 16), torch.randn(2, 5, 16), random_mask(2, 1, 3, 5)
    kv = heads.read(memory)

    mixed = heads.weights(x, kv, mask) @ kv.v  # (B, H, T, d_v)

    assert_close(heads(x, kv, mask), heads.w_o(mixed.transpose(1, 2).flatten(2)))


def test_keys_that_are_masked_cannot_change_the_output() -> None:
    heads = small_heads()
    x, memory = torch.randn(1, 3, 16), torch.randn(1, 5, 16)
    mask = torch.tensor([[True, True, True, True, False]])

    before = heads(x, heads.read(memory), mask)
    memory[:, -1] += 100.0
    after = heads(x, heads.read(memory), mask)

    assert_close(after, before, rtol=0, atol=0)


def test_reading_in_two_parts_is_reading_at_once() -> None:
    heads = small_heads()
    memory = torch.randn(2, 5, 16)

    parts = heads.read(memory[:, :2]).extended(heads.read(memory[:, 2:]))

    for part, whole in zip(parts, heads.read(memory), strict=True):
        assert_close(part, whole)


def test_keys_and_values_select_the_same_rows() -> None:
    kv = KeysValues(torch.randn(3, 2, 4, 5), torch.randn(3, 2, 4, 6))
    rows = torch.tensor([2, 0, 0])

    selected = kv.select(rows)

    assert_close(selected.k, kv.k[rows])
    assert_close(selected.v, kv.v[rows])


def test_padding_cannot_change_any_real_token() -> None:
    model = random_model()
    real = TGT.sentence != PADDING
    other_src = SRC._replace(ids=torch.where(SRC.sentence == PADDING, 18, SRC.ids))
    other_tgt = TGT._replace(ids=torch.where(real, TGT.ids, 18))

    before, after = model(SRC, TGT), model(other_src, other_tgt)

    assert_close(after[real], before[real], rtol=0, atol=0)


@pytest.mark.parametrize("changed", range(5))
def test_a_later_token_cannot_change_an_earlier_output_of_any_layer(changed: int) -> None:
    src = one_sentence_a_row([[5, 6, 2]])
    tgt = one_sentence_a_row([[1, 7, 8, 9, 10]])
    other = tgt._replace(ids=tgt.ids.clone())
    other.ids[0, changed] = 15

    for before, after in zip(layer_outputs(src, tgt), layer_outputs(src, other), strict=True):
        assert_close(after[0, :changed], before[0, :changed], rtol=0, atol=0)
        assert (after[0, changed:] - before[0, changed:]).abs().amax(dim=-1).min() > 0


def test_a_source_token_changes_the_targets_of_its_own_sentence_only() -> None:
    src = packed([[[5, 6, 2], [7, 8, 9, 2]]], width=8)
    tgt = packed([[[1, 10], [1, 11, 12]]], width=6)
    other = src._replace(ids=src.ids.clone())
    other.ids[0, 4] = 15  # in the second sentence
    model = random_model(dtype=torch.float64)

    difference = (model(other, tgt) - model(src, tgt)).abs().amax(dim=-1)[0]

    assert difference[tgt.sentence[0] == 0].max() == 0
    assert difference[tgt.sentence[0] == 1].min() > 0


def test_every_heads_weights_sum_to_one() -> None:
    maps = random_model().attention_maps(SRC, TGT)

    for weights in (*maps.encoder, *maps.decoder, *maps.memory):
        assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))


def test_asking_for_maps_leaves_the_model_as_it_was() -> None:
    model = random_model()
    before = model(SRC, TGT)

    model.attention_maps(SRC, TGT)

    assert_close(model(SRC, TGT), before, rtol=0, atol=0)
    assert all(not module._forward_hooks for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_failure_while_asking_for_maps_leaves_no_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model()
    forbid_weights(monkeypatch)

    with pytest.raises(AssertionError, match="materialised"):
        model.attention_maps(SRC, TGT)

    assert all(not module._forward_hooks for module in model.modules())


def test_training_and_decoding_never_compute_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model()
    forbid_weights(monkeypatch)

    model(SRC, TGT).sum().backward()
    logits, _ = model.step(torch.ones(3, dtype=torch.long), model.start(SRC))

    assert model.embedding.weight.grad is not None
    assert logits.isfinite().all()


def test_nothing_of_the_size_of_the_weights_is_kept_for_the_backward_pass() -> None:
    model = random_model()
    saved: list[torch.Size] = []

    def note(tensor: Tensor) -> Tensor:
        saved.append(tensor.shape)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        model(SRC, TGT)

    batch, width = SRC.ids.shape
    assert saved
    assert (batch, CONFIG.n_heads, width, width) not in saved


def forbid_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the weights were materialised")

    # By name, since `allyouneed.model.attention` is also the function that the package exports.
    module = importlib.import_module("allyouneed.model.attention")
    monkeypatch.setattr(module, "attention_weights", refuse)
