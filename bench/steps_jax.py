"""The workloads on JAX: each step is one `jax.jit` function whose state is donated, AdamW as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from workloads import CHAIN, LR, Arrays, Run, Workload, weights

NAME = f"JAX {jax.__version__}"
BETA1, BETA2, EPS, DECAY = 0.9, 0.999, 1e-8, 1e-2


def adamw(params: Any, grads: Any, state: Any) -> tuple[Any, Any]:
    """One update; state: number of updates so far, first and second moments."""
    t, means, squares = state
    t += 1
    means = jax.tree.map(lambda m, g: m + (1 - BETA1) * (g - m), means, grads)
    squares = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, squares, grads)
    rate, root = LR / (1 - BETA1**t), jnp.sqrt(1 - BETA2**t)
    params = jax.tree.map(lambda p, m, v: p * (1 - LR * DECAY) - rate * m / (jnp.sqrt(v) / root + EPS), params, means, squares)
    return params, (t, means, squares)


def fresh(arrays: Arrays) -> tuple[Any, Any]:
    """Parameters and the optimizer's state before the first update."""
    params = {name: jnp.array(value) for name, value in weights(arrays).items()}
    return params, (jnp.float32(0), jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))


def cross_entropy(logits: jax.Array, y: jax.Array) -> jax.Array:
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1))


def training(forward: Callable[[Any, jax.Array], jax.Array], arrays: Arrays) -> Run:
    """Forward, cross-entropy, backward, AdamW, and the loss read as a number."""
    x, y = jnp.array(arrays["x"]), jnp.array(arrays["y"], dtype=jnp.int32)
    now = fresh(arrays)

    def update(params: Any, state: Any, x: jax.Array, y: jax.Array) -> tuple[jax.Array, Any]:
        loss, grads = jax.value_and_grad(lambda p: cross_entropy(forward(p, x), y))(params)
        return loss, adamw(params, grads, state)

    compiled = jax.jit(update, donate_argnums=(0, 1))

    def step() -> float:
        nonlocal now
        loss, now = compiled(*now, x, y)
        return float(loss)

    return Run(step, float)


def mlp_forward(params: Any, x: jax.Array) -> jax.Array:
    for i in range(len(params) // 2):
        x = (x if i == 0 else jax.nn.relu(x)) @ params[f"{2 * i}.weight"].T + params[f"{2 * i}.bias"]
    return x


def mlp(w: Workload, arrays: Arrays) -> Run:
    return training(mlp_forward, arrays)


def lstm_forward(params: Any, x: jax.Array) -> jax.Array:
    """The input projection is one product over all steps, the recurrence a scan."""
    projected = x @ params["lstm.weight_ih_l0"].T + (params["lstm.bias_ih_l0"] + params["lstm.bias_hh_l0"])
    recurrent = params["lstm.weight_hh_l0"].T

    def cell(state: Any, at: jax.Array) -> tuple[Any, None]:
        h, c = state
        i, f, g, o = jnp.split(at + h @ recurrent, 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    zeros = jnp.zeros((x.shape[1], recurrent.shape[0]), x.dtype)
    (h, _), _ = jax.lax.scan(cell, (zeros, zeros), projected)
    return h @ params["head.weight"].T + params["head.bias"]


def lstm(w: Workload, arrays: Arrays) -> Run:
    return training(lstm_forward, arrays)


def infer(w: Workload, arrays: Arrays) -> Run:
    params, x = fresh(arrays)[0], jnp.array(arrays["x"])
    compiled = jax.jit(mlp_forward)
    return Run(lambda: np.asarray(compiled(params, x)), lambda result: result)


def chain(w: Workload, arrays: Arrays) -> Run:
    def repeated(x: jax.Array, y: jax.Array) -> jax.Array:
        z = x
        for _ in range(CHAIN):
            z = jnp.tanh(z * y + x)
        return z.mean()

    x, y, compiled = jnp.array(arrays["x"]), jnp.array(arrays["y"]), jax.jit(repeated)
    return Run(lambda: float(compiled(x, y)), float)


def optimizer(w: Workload, arrays: Arrays) -> Run:
    now = fresh(arrays)
    grads = {f"p.{i}": jnp.array(arrays[f"g{i}"]) for i in range(w.batch)}
    compiled = jax.jit(lambda params, state, grads: adamw(params, grads, state), donate_argnums=(0, 1))

    def step() -> None:
        nonlocal now
        now = jax.block_until_ready(compiled(*now, grads))

    return Run(step, lambda _: np.asarray(now[0]["p.0"]))
