"""Section 3.1 and 5.4: residual, norm after the sum, and dropout where the paper puts it."""

import pytest
import torch
import torch.nn.functional as F
from tiny_world import CONFIG, SRC, TGT, random_model
from torch import Tensor, nn
from torch.testing import assert_close

from allyouneed.model import (
    AddNorm,
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    Transformer,
)

D_MODEL = CONFIG.d_model
EVERYTHING = torch.ones(1, 1, 1, 1, dtype=torch.bool)


def normed(x: Tensor) -> Tensor:
    return F.layer_norm(x, (D_MODEL,))


def assert_normed(x: Tensor) -> None:
    assert_close(x.mean(dim=-1), torch.zeros(x.shape[:-1]), rtol=0, atol=1e-5)
    assert_close(x.var(dim=-1, correction=0), torch.ones(x.shape[:-1]), rtol=0, atol=1e-3)


def drop_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    def dropped(x: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
        assert (p, training, inplace) == (CONFIG.dropout, True, False)
        return torch.zeros_like(x)

    monkeypatch.setattr(F, "dropout", dropped)


def test_the_norm_comes_after_the_sum() -> None:
    x, sublayer_output = torch.randn(2, 3, D_MODEL), torch.randn(2, 3, D_MODEL)

    result = AddNorm(D_MODEL, dropout=0.0)(x, sublayer_output)

    assert_close(result, normed(x + sublayer_output))


def test_the_last_thing_in_every_layer_and_in_both_stacks_is_one_norm() -> None:
    torch.manual_seed(0)
    model = Transformer(CONFIG).eval()  # fresh: every gain is one and every bias zero

    memory = model.encode(SRC)

    assert_normed(memory)
    assert_normed(model.decode(TGT, memory, SRC))


def test_there_is_one_norm_a_sublayer_and_none_after_the_last() -> None:
    model = Transformer(CONFIG)
    norms = [name for name, module in model.named_modules() if isinstance(module, nn.LayerNorm)]

    assert len(norms) == 2 * CONFIG.n_layers + 3 * CONFIG.decoder_layers
    assert all(".layers." in name for name in norms)


def test_dropout_takes_the_output_of_each_encoder_sublayer_and_spares_the_residual(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer = EncoderLayer(CONFIG)
    x = torch.randn(2, 3, D_MODEL)
    drop_everything(monkeypatch)

    assert_close(layer(x, EVERYTHING), normed(normed(x)))


def test_dropout_takes_the_output_of_each_decoder_sublayer_and_spares_the_residual(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer = DecoderLayer(CONFIG)
    x = torch.randn(2, 3, D_MODEL)
    memory = layer.memory_attention.read(torch.randn(2, 4, D_MODEL))
    drop_everything(monkeypatch)

    result, _ = layer(x, memory, EVERYTHING)

    assert_close(result, normed(normed(normed(x))))


def test_dropout_takes_the_sums_of_embeddings_and_positions_of_both_stacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Transformer(CONFIG)  # its biases are zero, so nothing comes of nothing
    drop_everything(monkeypatch)

    memory = model.encode(SRC)

    assert not memory.any()
    assert not model.decode(TGT, torch.randn_like(memory), SRC).any()


def test_dropout_happens_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model().train()
    shapes = []

    def note(x: Tensor, *_: object) -> Tensor:
        shapes.append(x.shape)
        return x

    def attend(q: Tensor, _: Tensor, v: Tensor, **options: object) -> Tensor:
        assert options.keys() == {"attn_mask"}  # in particular no dropout_p
        return torch.zeros(*q.shape[:-1], v.size(-1))

    monkeypatch.setattr(F, "dropout", note)
    monkeypatch.setattr(F, "scaled_dot_product_attention", attend)
    model(SRC, TGT)

    src, tgt = (*SRC.ids.shape, D_MODEL), (*TGT.ids.shape, D_MODEL)
    in_encoder, in_decoder = 1 + 2 * CONFIG.n_layers, 1 + 3 * CONFIG.decoder_layers
    assert shapes == [src] * in_encoder + [tgt] * in_decoder
    drops = [module for module in model.modules() if isinstance(module, nn.Dropout)]
    assert len(drops) == in_encoder + in_decoder - 1  # the two embeddings share theirs


def test_training_is_random_and_evaluation_is_not() -> None:
    model = random_model()

    assert_close(model(SRC, TGT), model(SRC, TGT), rtol=0, atol=0)
    model.train()
    assert not torch.equal(model(SRC, TGT), model(SRC, TGT))


def test_feed_forward_is_equation_2_at_every_position() -> None:
    network = FeedForward(D_MODEL, d_ff=7)
    x = torch.randn(2, 3, D_MODEL)

    expected = (x @ network.w_1.weight.T + network.w_1.bias).clamp(min=0)
    expected = expected @ network.w_2.weight.T + network.w_2.bias

    assert_close(network(x), expected)


def test_biases_are_where_the_equations_have_them_and_start_at_zero() -> None:
    model = Transformer(CONFIG)

    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            assert all(name.endswith("weight") for name, _ in module.named_parameters())
        if isinstance(module, FeedForward):
            assert not module.w_1.bias.any()
            assert not module.w_2.bias.any()
