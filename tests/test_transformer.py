"""Multi-head attention and the transformer layers against PyTorch, parameters and state dicts included."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from peer import torch

import gradino as gd
from gradino import nn

D, HEADS, B, T, S = 12, 3, 2, 5, 7
RTOL = 1e-9


def peers(name: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """A layer of each library with the same weights, moved through state dicts: there and, as strictly, back again."""
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(*args, **kwargs, dtype=torch.float64)
    with torch.no_grad():
        for p in theirs.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    ours = getattr(nn, name)(*args, **kwargs, dtype="float64")
    state = {key: value.numpy() for key, value in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict({key: gd.tensor(value) for key, value in state.items()})
    theirs.load_state_dict({key: torch.tensor(value.numpy()) for key, value in ours.state_dict().items()})
    return ours.eval(), theirs.eval()


def pair(a: np.ndarray | None) -> tuple[Any, Any]:
    if a is None:
        return None, None
    x, y = gd.tensor(a), torch.tensor(a)
    return (x.requires_grad_(), y.requires_grad_()) if a.dtype == np.float64 else (x, y)


def close(got: gd.Tensor, want: Any, what: Any) -> None:
    assert got.shape == tuple(want.shape), what
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=RTOL, atol=1e-10, err_msg=str(what))


def agree(ours: Any, theirs: Any, inputs: list[np.ndarray | None], what: Any, **named: Any) -> None:
    """Results and all gradients."""
    pairs = [pair(a) for a in inputs]
    masks = {key: pair(value) if isinstance(value, np.ndarray) else (value, value) for key, value in named.items()}
    y = ours(*(p[0] for p in pairs), **{key: value[0] for key, value in masks.items()})
    z = theirs(*(p[1] for p in pairs), **{key: value[1] for key, value in masks.items()})
    y, z = (list(r) if isinstance(r, tuple) else [r] for r in (y, z))
    assert len(y) == len(z), what
    for got, want in zip(y, z):
        if want is None:
            assert got is None, what
            continue
        close(got, want, what)
    weights = [None if want is None else np.random.default_rng(5).normal(size=tuple(want.shape)) for want in z]
    sum((got * gd.tensor(w)).sum() for got, w in zip(y, weights) if w is not None).backward()  # type: ignore[union-attr, misc]
    sum((want * torch.tensor(w)).sum() for want, w in zip(z, weights) if w is not None).backward()
    for k, (x, t) in enumerate(pairs):
        if x is not None:
            close(x.grad, t.grad, (what, "input", k))
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters()):
        close(p.grad, q.grad, (what, name))


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def hidden(*shape: int, seed: int = 1) -> np.ndarray:
    """Bools of which the first in each row is False: PyTorch gives NaN where all are hidden."""
    mask = np.random.default_rng(seed).random(shape) < 0.4
    mask[..., 0] = False
    return mask


CAUSAL = np.triu(np.ones((T, T), bool), 1)
MASKS: list[dict[str, Any]] = [
    {}, {"attn_mask": hidden(T, S)}, {"attn_mask": hidden(B * HEADS, T, S)}, {"key_padding_mask": hidden(B, S)},
    {"key_padding_mask": hidden(B, S), "attn_mask": hidden(T, S, seed=2)}, {"attn_mask": normal(T, S)},
    {"attn_mask": normal(T, S), "key_padding_mask": np.where(hidden(B, S), -np.inf, 0.0)},
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"add_bias_kv": True, "add_zero_attn": True}, {"kdim": 4, "vdim": 6}])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("weights", [{"need_weights": False}, {}, {"average_attn_weights": False}])
def test_multi_head(options: dict[str, Any], batch_first: bool, weights: dict[str, Any]) -> None:
    for masks in MASKS:
        if options.get("add_bias_kv") and "key_padding_mask" in masks and masks["key_padding_mask"].dtype != bool:
            continue  # PyTorch's own masks do not fit then
        ours, theirs = peers("MultiheadAttention", D, HEADS, batch_first=batch_first, **options)
        shapes = [(T, B, D), (S, B, options.get("kdim", D)), (S, B, options.get("vdim", D))]
        inputs: list[Any] = [normal(*(s[1], s[0], s[2]) if batch_first else s, seed=k) for k, s in enumerate(shapes)]
        masks = {key: value.copy() for key, value in masks.items()}
        agree(ours, theirs, inputs, (options, batch_first, weights, sorted(masks)), **masks, **weights)


def test_multi_head_of_one_tensor_and_without_batch() -> None:
    for shape in ((T, B, D), (T, D)):
        for same in (1, 2, 3):
            ours, theirs = peers("MultiheadAttention", D, HEADS)
            x, t = pair(normal(*shape))
            u, w = pair(normal(*shape, seed=4))
            a = {1: (u, x, x), 2: (x, u, x), 3: (x, x, x)}[same]
            b = {1: (w, t, t), 2: (t, w, t), 3: (t, t, t)}[same]
            (y, p), (z, q) = ours(*a), theirs(*b)
            close(y, z, (shape, same))
            close(p, q, (shape, same))
            y.square().sum().backward()
            z.square().sum().backward()
            close(x.grad, t.grad, (shape, same))
            close(ours.in_proj_weight.grad, theirs.in_proj_weight.grad, (shape, same))


def test_is_causal_is_a_hint() -> None:
    ours, theirs = peers("MultiheadAttention", D, HEADS)
    x = normal(T, B, D)
    agree(ours, theirs, [x, x.copy(), x.copy()], "causal", attn_mask=CAUSAL, is_causal=True, need_weights=False)
    with pytest.raises(RuntimeError, match="attn_mask"):
        ours(*[gd.tensor(x)] * 3, is_causal=True)


@pytest.mark.parametrize("weights", [True, False])
def test_n01_a_query_without_keys_gives_the_bias_alone(weights: bool) -> None:
    layer = nn.MultiheadAttention(D, HEADS, dtype="float64")
    x = gd.tensor(normal(T, B, D)).requires_grad_()
    y, p = layer(x, x, x, key_padding_mask=gd.tensor([[True] * T, [False] * T]), need_weights=weights)
    assert (y[:, 0] == layer.out_proj.bias).all().item()
    y.sum().backward()
    assert gd.isfinite(x.grad).all().item() and (x.grad[:, 0] == 0).all().item()
    assert p is None or (p[0] == 0).all().item()


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"activation": "gelu"}, {"bias": False}, {"batch_first": True}])
def test_encoder_layer(options: dict[str, Any]) -> None:
    for masks in ({}, {"src_mask": hidden(T, T), "src_key_padding_mask": hidden(B, T)}, {"src_mask": CAUSAL, "is_causal": True}):
        ours, theirs = peers("TransformerEncoderLayer", D, HEADS, 16, **options)
        theirs.train()  # PyTorch's own fast path for inference differs in the last bits
        for module in theirs.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        theirs.self_attn.dropout = 0.0
        x = normal(*((B, T, D) if options.get("batch_first") else (T, B, D)))
        agree(ours, theirs, [x], (options, sorted(masks)), **masks)


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "batch_first": True}])
def test_decoder_layer(options: dict[str, Any]) -> None:
    for masks in ({}, {"tgt_mask": CAUSAL, "memory_mask": hidden(T, S), "memory_key_padding_mask": hidden(B, S)}):
        ours, theirs = peers("TransformerDecoderLayer", D, HEADS, 16, **options)
        first = options.get("batch_first")
        inputs: list[Any] = [normal(B, n, D) if first else normal(n, B, D) for n in (T, S)]
        agree(ours, theirs, inputs, (options, sorted(masks)), **masks)


@pytest.mark.filterwarnings("ignore:.*nested", "ignore:.*mask")
def test_transformer() -> None:
    ours, theirs = peers("Transformer", D, HEADS, 2, 2, 16, dropout=0.0, activation="gelu")
    theirs.train()
    causal = nn.Transformer.generate_square_subsequent_mask(T)
    assert (causal.numpy() == torch.nn.Transformer.generate_square_subsequent_mask(T).numpy()).all()
    masks = {"tgt_mask": CAUSAL, "src_key_padding_mask": hidden(B, S)}
    agree(ours, theirs, [normal(S, B, D), normal(T, B, D)], "Transformer", **masks)


def test_stacks_copy_their_layer() -> None:
    layer = nn.TransformerEncoderLayer(D, HEADS, 16)
    stack = nn.TransformerEncoder(layer, 2, nn.LayerNorm(D))
    first, second = stack.layers[0].linear1.weight, stack.layers[1].linear1.weight
    assert first is not second and (first == second).all().item()
    assert nn.TransformerDecoder(nn.TransformerDecoderLayer(D, HEADS, 16), 3).num_layers == 3


def test_dropout_in_training_alone() -> None:
    gd.manual_seed(0)
    layer = nn.TransformerEncoderLayer(D, HEADS, 16, dropout=0.5)
    x = gd.randn(T, B, D)
    assert not (layer(x) == layer(x)).all().item()
    assert (layer.eval()(x) == layer(x)).all().item()


def test_rotary_turns_by_the_position() -> None:
    x = normal(2, T, D)
    for interleaved in (False, True):
        layer = nn.RotaryEmbedding(8, interleaved=interleaved)
        y = layer(gd.tensor(x)).numpy()
        angles = np.arange(T)[:, None] * 10000.0 ** -(np.arange(0, 8, 2) / 8)
        first, second = (x[..., 0:8:2], x[..., 1:8:2]) if interleaved else (x[..., :4], x[..., 4:8])
        turned = (first + 1j * second) * np.exp(1j * angles)
        got = y[..., 0:8:2] + 1j * y[..., 1:8:2] if interleaved else y[..., :4] + 1j * y[..., 4:8]
        np.testing.assert_allclose(got, turned, atol=1e-6)
        assert (y[..., 8:] == x[..., 8:]).all()
        later = layer(gd.tensor(x[:, 2:]), offset=2).numpy()
        assert (later == y[:, 2:]).all()
        assert not layer.state_dict() and not list(layer.parameters())
    with pytest.raises(ValueError, match="max_seq_len"):
        nn.RotaryEmbedding(4, 3)(gd.zeros(4, 4))
    with pytest.raises(ValueError, match="even"):
        nn.RotaryEmbedding(3)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: nn.MultiheadAttention(10, 3), "multiple"),
        (lambda: nn.MultiheadAttention(D, HEADS)(gd.zeros(T, B, D), gd.zeros(S, D), gd.zeros(S, D)), "must all be"),
        (lambda: nn.MultiheadAttention(D, HEADS)(*[gd.zeros(T, B, D)] * 3, attn_mask=gd.zeros(T, S)), "attn_mask is"),
        (lambda: nn.MultiheadAttention(D, HEADS)(*[gd.zeros(T, B, D)] * 3, key_padding_mask=gd.zeros(T, B)), "key_padding_mask is"),
        (lambda: nn.MultiheadAttention(D, HEADS)(*[gd.zeros(T, B, 6)] * 3), "features"),
        (lambda: nn.MultiheadAttention(D, HEADS)(*[gd.zeros(T, B, D)] * 3, attn_mask=gd.zeros(T, T, dtype="int64")), "bool"),
        (lambda: nn.TransformerEncoderLayer(D, HEADS, activation="tanh"), "'relu', 'gelu'"),
        (lambda: nn.Transformer(D, HEADS, 1, 1, 8)(gd.zeros(S, 1, D), gd.zeros(T, 2, D)), "agree in the batch"),
        (lambda: nn.Transformer(D, HEADS, 1, 1, 8)(gd.zeros(S, 1, 6), gd.zeros(T, 1, D)), "features"),
    ],
)
def test_errors(call: Any, words: str) -> None:
    with pytest.raises(gd.GradinoError, match=words):
        call()


def test_scores_are_scaled_by_the_size_of_a_head() -> None:
    layer = nn.MultiheadAttention(4, 1, bias=False, dtype="float64")
    with gd.no_grad():
        layer.in_proj_weight.copy_(gd.cat([gd.eye(4, dtype="float64")] * 3))
    _, p = layer(*[gd.eye(4, dtype="float64")] * 3)
    assert math.isclose(p[0, 0].item() / p[0, 1].item(), math.exp(0.5))
