"""Attention against a float64 reference, at the edges of its blocks, with all kinds of masks; memory linear in the length."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from specs.attention import probabilities

import gradino as gd
from gradino.nn import functional as F
from gradino.nn.attention.bias import causal_lower_right, causal_upper_left

sdpa = F.scaled_dot_product_attention
ERROR = {"float64": 1e-12, "float32": 3e-5, "bfloat16": 4e-2, "float16": 5e-3}
LENGTHS = (1, 2, 17, 63, 64, 65, 128, 130)


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, g: np.ndarray, mask: Any, limits: dict[str, Any], scale: float) -> list[Any]:
    """y and the gradients of q, k, v and, if it is added, of the mask."""
    group = q.shape[1] // k.shape[1]
    p = probabilities(q, k, mask, scale=scale, **limits)
    ks, vs = np.repeat(k, group, 1), np.repeat(v, group, 1)
    slope = g @ np.swapaxes(vs, -1, -2)
    ds = p * (slope - (slope * p).sum(-1, keepdims=True))

    def heads(x: np.ndarray) -> np.ndarray:
        return np.asarray(x.reshape(x.shape[0], k.shape[1], group, *x.shape[2:]).sum(2))

    found = [p @ vs, scale * ds @ ks, heads(scale * np.swapaxes(ds, -1, -2) @ q), heads(np.swapaxes(p, -1, -2) @ g)]
    if mask is not None and mask.dtype != bool:
        found.append(ds.sum(tuple(d for d in range(4) if mask.shape[d] != ds.shape[d]), keepdims=True))
    return found


def one(seed: int, dtype: str, what: str) -> None:
    """A call drawn at random, forward and backward."""
    rng, normal = random.Random(seed), np.random.default_rng(seed)
    b, hk, group, d = rng.choice((1, 2)), rng.choice((1, 2, 3)), rng.choice((1, 1, 2)), rng.choice((1, 3, 8, 33, 64))
    t, s, e = rng.choice(LENGTHS), rng.choice(LENGTHS), rng.choice((d, 5, 20))
    turned = rng.random() < 0.5
    causal, window = rng.random() < 0.5, rng.choice((None, None, 0, 3, 70, (2, None)))
    kind, at_end = rng.choice(("none", "none", "bool", "added", "padding")), causal and rng.random() < 0.5
    scale = rng.choice((1 / math.sqrt(d), 0.3, -0.2, 0.0))

    def drawn(*shape: int) -> gd.Tensor:
        """In the dtype; heads in front of the length, or beside each other in memory."""
        if turned:
            return gd.tensor(normal.normal(size=(shape[0], shape[2], shape[1], shape[3]))).to(dtype).transpose(1, 2)
        return gd.tensor(normal.normal(size=shape)).to(dtype)

    q, k, v, g = drawn(b, hk * group, t, d), drawn(b, hk, s, d), drawn(b, hk, s, e), drawn(b, hk * group, t, e)
    mask: gd.Tensor | None = None
    shape = [rng.choice((1, n)) for n in (b, hk * group, t, s)]
    if causal:
        pass
    elif kind == "bool":
        mask = gd.tensor(normal.random(shape) < 0.7)
    elif kind == "padding":
        mask = gd.tensor(normal.random((b, 1, 1, s)) < 0.6)
    elif kind == "added":
        mask = gd.tensor(np.where(normal.random(shape) < 0.1, -np.inf, normal.normal(size=shape))).to(dtype)
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    if mask is not None and mask.dtype.is_floating_point:
        mask = mask.detach().requires_grad_()
        leaves.append(mask)
    sides = (window, window) if not isinstance(window, tuple) else window
    limits = {
        "before": -1 if sides[0] is None else sides[0],
        "after": 0 if causal else -1 if sides[1] is None else sides[1],
        "at_end": at_end,
    }
    bias: Any = causal_lower_right(t, s) if at_end else mask
    y = sdpa(*leaves[:3], bias, 0.0, causal and not at_end, scale, group > 1, window=window)
    y.backward(g)
    arrays = [x.detach().double().numpy() for x in (q, k, v, g)]
    m = None if mask is None else mask.detach().numpy() if mask.dtype.name == "bool" else mask.detach().double().numpy()
    label = f"{what} {dtype} seed {seed}: {b}, {hk}x{group}, {t}, {s}, {d}, {e}, {kind} {shape}, {limits}, turned {turned}, scale {scale}"
    with np.errstate(invalid="ignore"):
        wanted = reference(*arrays, m, limits, scale)
    names = ("y", "dq", "dk", "dv", "dmask")[: len(wanted)]
    for name, got, want in zip(names, [y, *(x.grad for x in leaves)], wanted, strict=True):
        assert got is not None and got.shape == want.shape, (label, name)
        error = np.abs(got.detach().double().numpy() - want).max(initial=0)
        assert error <= ERROR[dtype] * (np.abs(want).max(initial=0) + 0.3) * (1 + math.sqrt(t) / 4), (label, name, error)


@pytest.mark.parametrize("dtype", ERROR)
def test_random_calls(isa: str, dtype: str) -> None:
    for seed in range(25):
        with gd.step_arena():
            one(seed + 1000 * list(ERROR).index(dtype), dtype, isa)


def qkv(t: int = 5, s: int = 5, d: int = 4, h: int = 2) -> list[gd.Tensor]:
    gd.manual_seed(1)
    return [gd.randn(2, h, n, d, dtype="float64").requires_grad_() for n in (t, s, s)]


# ---- Cases -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_n01_a_fully_masked_row_gives_0_and_finite_gradients(isa: str, dtype: str) -> None:
    q = gd.tensor([[1.0, 0], [0, 1]], dtype=dtype, requires_grad=True)
    k = gd.tensor([[1.0, 0], [0, 1], [1, 1]], dtype=dtype, requires_grad=True)
    v = gd.tensor([[1.0, 2], [3, 4], [5, 6]], dtype=dtype, requires_grad=True)
    o = sdpa(q, k, v, gd.tensor([[True] * 3, [False] * 3]))
    o.sum().backward()
    tight = {"rtol": 1e-6, "atol": 1e-6}
    np.testing.assert_allclose(o.detach().numpy(), [[3, 4], [0, 0]], **tight)
    np.testing.assert_allclose(q.grad.numpy(), [[0, 1.1345162], [0, 0]], **tight)
    np.testing.assert_allclose(k.grad.numpy(), [[-1.1345162, 0], [0, 0], [1.1345162, 0]], **tight)
    np.testing.assert_allclose(v.grad.numpy(), np.array([[0.4011121] * 2, [0.1977758] * 2, [0.4011121] * 2]), **tight)
    assert (o[1] == 0).all().item() and (q.grad[1] == 0).all().item()


def test_n01_causal_and_padding_together(isa: str) -> None:
    """A query whose keys all are padding: an odd size of heads, several blocks."""
    q, k, v = (gd.randn(1, 2, 70, 7).requires_grad_() for _ in range(3))
    padding = gd.arange(70) >= 66
    allowed = gd.tril(gd.ones(70, 70)).bool().logical_and(padding)
    y = sdpa(q, k, v, allowed)
    y.square().sum().backward()
    assert (y[:, :, :66] == 0).all().item() and (y[:, :, 66:] != 0).any().item()
    for x in (q, k, v):
        assert gd.isfinite(x.grad).all().item()
    assert (q.grad[:, :, :66] == 0).all().item()


def test_g01_alignment_of_causal_masks() -> None:
    def averages(t: int, s: int, **how: Any) -> list[float]:
        v = gd.arange(float(s)).view(1, 1, s, 1).expand(1, 1, s, 4)
        return [round(row[0], 5) for row in sdpa(gd.zeros(1, 1, t, 4), gd.zeros(1, 1, s, 4), v, **how)[0, 0].tolist()]

    assert averages(2, 5, attn_mask=causal_lower_right(2, 5)) == [1.5, 2.0]
    assert averages(1, 5, attn_mask=causal_lower_right(1, 5)) == [2.0]
    assert averages(5, 2, attn_mask=causal_lower_right(5, 2)) == [0, 0, 0, 0, 0.5]
    assert averages(2, 5, is_causal=True) == averages(2, 5, attn_mask=causal_upper_left(2, 5)) == [0, 0.5]
    assert averages(1, 5, is_causal=True) == [0.0]
    assert averages(3, 5, attn_mask=causal_lower_right(3, 5), window=1) == [1.5, 2.5, 3.5]


def test_g01_in_chunks_as_in_one_pass(isa: str) -> None:
    """The same bits: what a query sees does not depend on who else asks."""
    q, k, v = (gd.randn(2, 3, 150, 16) for _ in range(3))
    whole = sdpa(q, k, v, is_causal=True)
    for chunks in ((150,), (60, 90), (1,) * 150, (149, 1), (63, 2, 85)):
        at, parts = 0, []
        for n in chunks:
            at += n
            parts.append(sdpa(q[:, :, at - n : at], k[:, :, :at], v[:, :, :at], causal_lower_right(n, at)))
        assert (gd.cat(parts, 2) == whole).all().item(), chunks


def test_g08_what_masks_mean() -> None:
    q, k = gd.zeros(1, 1, 1, 4), gd.zeros(1, 1, 5, 4)
    v = gd.arange(5.0).view(1, 1, 5, 1)
    allowed = gd.tensor([True, False, False, False, False])
    for shape in ((5,), (1, 5), (1, 1, 1, 5)):
        assert sdpa(q, k, v, allowed.view(*shape)).item() == 0.0
        added = gd.tensor([0.0] + [-math.inf] * 4).view(*shape)
        assert sdpa(q, k, v, added).item() == 0.0
    assert math.isclose(sdpa(q, k, v, allowed.float()).item(), 1.4884760, rel_tol=1e-6)
    with pytest.raises(gd.DTypeError, match="bool"):
        sdpa(q, k, v, allowed.long())


# ---- Properties --------------------------------------------------------------------------------------------------------


def test_the_same_bits_with_any_number_of_threads() -> None:
    """Few heads and many are dealt to threads in different ways."""
    before = gd.get_num_threads()
    for b, h, hk in ((1, 1, 1), (2, 8, 2)):
        gd.manual_seed(3)
        leaves = [gd.randn(b, n, 150, 24).requires_grad_() for n in (h, hk, hk)]
        mask = gd.randn(150, 150).requires_grad_()
        found = []
        for threads in (1, 2, 5):
            gd.set_num_threads(threads)
            for x in (*leaves, mask):
                x.grad = None
            y = sdpa(*leaves, mask, enable_gqa=True)
            y.square().sum().backward()
            found.append([y.detach().clone(), *(x.grad.clone() for x in (*leaves, mask))])
        gd.set_num_threads(before)
        for other in found[1:]:
            assert all((a == c).all().item() for a, c in zip(found[0], other)), (b, h, hk)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_dropout(isa: str, dtype: str) -> None:
    """Keeps about as many as it says, is linear in the values, and draws the same again in backward."""
    gd.manual_seed(7)
    s = 200
    q, k = (gd.zeros(2, 3, s, 4, dtype=dtype) for _ in range(2))
    eye = gd.eye(s, dtype=dtype).expand(2, 3, s, s).contiguous().requires_grad_()
    y = sdpa(q, k, eye, dropout_p=0.25)
    kept = y.detach().double().numpy() * s * 0.75
    near = 1e-2 if dtype == "bfloat16" else 1e-5
    assert (np.isclose(kept, 0, atol=near) | np.isclose(kept, 1, atol=near)).all()
    assert abs(kept.mean() - 0.75) < 0.01 and np.abs(kept.mean((0, 1, 2)) - 0.75).max() < 0.07
    g = gd.randn(2, 3, s, s).to(dtype)
    y.backward(g)
    wanted = np.swapaxes(y.detach().double().numpy(), -1, -2) @ g.double().numpy()
    np.testing.assert_allclose(eye.grad.double().numpy(), wanted, atol=0.1 if dtype == "bfloat16" else 1e-5)
    other = sdpa(q, k, eye, dropout_p=0.25)
    assert not (other == y).all().item()
    gd.manual_seed(7)
    assert (sdpa(q, k, eye, dropout_p=0.25) == y).all().item()
    assert (sdpa(q, k, eye, dropout_p=1.0) == 0).all().item()


def test_gradients_with_dropout() -> None:
    """The function is smooth while the seed stays."""
    leaves = qkv()

    def f(*inputs: gd.Tensor) -> gd.Tensor:
        gd.manual_seed(11)
        return sdpa(*inputs, dropout_p=0.3, is_causal=True)

    assert gd.autograd.gradcheck(f, leaves)
    with pytest.raises(gd.GradinoError, match="second derivative"):
        gd.autograd.grad(f(*leaves).sum(), leaves, create_graph=True)


@pytest.mark.parametrize(
    "how", [{"is_causal": True}, {"window": 1}, {"window": (0, 2), "attn_mask": causal_lower_right(3, 5)}, {"scale": -0.4}]
)
def test_second_derivatives(how: dict[str, Any]) -> None:
    assert gd.autograd.gradgradcheck(lambda *t: sdpa(*t, **how), qkv(3, 5, 2, 1))


def test_second_derivatives_with_masks() -> None:
    q, k, v = qkv(3, 4, 2)
    allowed = gd.tensor([[True, True, False, True], [False] * 4, [True] * 4])
    assert gd.autograd.gradgradcheck(lambda *t: sdpa(*t, allowed), [q, k, v])
    added = gd.randn(3, 4, dtype="float64").requires_grad_()
    wide = gd.randn(2, 4, 3, 2, dtype="float64").requires_grad_()
    assert gd.autograd.gradgradcheck(lambda a, b, c, m: sdpa(a, b, c, m, enable_gqa=True), [wide, k, v, added])


def test_memory_is_linear_in_the_length() -> None:
    """Twice the length takes twice the memory, forward and backward; scores alone would take four times."""

    def peak(t: int) -> int:
        with gd.Arena(name=f"attention {t}") as arena:
            leaves = [gd.randn(1, 2, t, 16).requires_grad_() for _ in range(3)]
            sdpa(*leaves, is_causal=True).sum().backward()
            used: int = arena.stats().high_water
        arena.close()
        return used

    short, long = peak(1024), peak(4096)
    assert long < 4.2 * short and long < 4096 * 4096, (short, long)


def test_strided_inputs_are_not_copied() -> None:
    """Heads beside each other, as layers give them: the result lies so, too, and joins them without a copy."""
    x = gd.randn(2, 9, 24)
    q, k, v = (t.view(2, 9, 2, 4).transpose(1, 2) for t in x.split(8, 2))
    with gd.Arena(name="strided") as arena:
        y = sdpa(q, k, v)
        used = arena.stats().used
        joined = y.transpose(1, 2).contiguous().view(2, 9, 8)
        assert arena.stats().used - used < 256, "joining the heads copied them"
    want = sdpa(q.contiguous(), k.contiguous(), v.contiguous())
    assert (y == want).all().item() and (joined == want.transpose(1, 2).reshape(2, 9, 8)).all().item()
    arena.close()


def test_broadcasting_and_ranks() -> None:
    q, k, v = (gd.randn(*shape, dtype="float64") for shape in ((3, 2, 5, 4), (1, 2, 6, 4), (3, 1, 6, 4)))
    want = sdpa(q, k.expand(3, 2, 6, 4), v.expand(3, 2, 6, 4))
    assert (sdpa(q, k, v) - want).abs().amax().item() < 1e-12
    assert sdpa(q[0, 0], k[0, 0], v[0, 0]).shape == (5, 4) and sdpa(q[0], k[0], v[0]).shape == (2, 5, 4)
    assert (sdpa(q[0, 0], k[0, 0], v[0, 0]) - want[0, 0]).abs().amax().item() < 1e-12


@pytest.mark.parametrize("shape", [(0, 2, 3, 3, 4), (2, 0, 3, 3, 4), (2, 2, 0, 3, 4), (2, 2, 3, 0, 4), (2, 2, 3, 3, 0)])
def test_empty(isa: str, shape: tuple[int, ...]) -> None:
    b, h, t, s, d = shape
    leaves = [gd.ones(b, h, n, d).requires_grad_() for n in (t, s, s)]
    y = sdpa(*leaves, is_causal=True)
    assert y.shape == (b, h, t, d) and (y.numel() == 0 or (y == 0).all().item() == (s == 0))
    y.sum().backward()
    assert all(x.grad is not None and gd.isfinite(x.grad).all().item() for x in leaves)


def test_nan_and_infinity_reach_the_result(isa: str) -> None:
    for bad in (math.nan, math.inf):
        q, k, v = (gd.ones(1, 1, 70, 4) for _ in range(3))
        q[0, 0, 3] = bad
        y = sdpa(q, k, v)
        assert gd.isnan(y[0, 0, 3]).all().item() and gd.isfinite(y[0, 0, 4:]).all().item(), bad
    q, k, v = (gd.full((1, 1, 70, 4), 1e30) for _ in range(3))
    assert gd.isfinite(sdpa(q * 1e-12, k * 1e-12, v)).all().item()  # scores of 1e36


def test_arguments() -> None:
    q, k, v = (x.detach() for x in qkv())
    for window, kind in ((-1, gd.InvalidValueError), ("x", gd.DTypeError), ((1, 2, 3), gd.DTypeError), (1.5, gd.DTypeError)):
        with pytest.raises(kind, match="window"):
            sdpa(q, k, v, window=window)  # type: ignore[arg-type]
    with pytest.raises(gd.InvalidValueError, match="causal bias"):
        sdpa(q, k, v, causal_lower_right(5, 5), is_causal=True)
    with pytest.raises(gd.ShapeError, match="queries"):
        sdpa(q, k, v, causal_lower_right(5, 6))
    with pytest.raises(gd.ShapeError, match="numbers of queries and of keys"):
        causal_lower_right(5)
    assert (sdpa(q, k, v, window=2**80) == sdpa(q, k, v)).all().item()
