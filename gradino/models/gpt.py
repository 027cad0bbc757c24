"""A GPT-2 style language model: learned positions, pre-norm blocks, tied embedding and head, generation with a cache."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gradino.nn.functional as F
from gradino import nn
from gradino.arena import step_arena
from gradino.dtypes import bool_, dtype, int64
from gradino.errors import DTypeError, GradinoError, InvalidValueError, ShapeError
from gradino.factories import arange, ones, zeros
from gradino.grad_mode import is_grad_enabled, no_grad
from gradino.sampling import sample
from gradino.tensor import Tensor

__all__ = ["GPT", "GPTConfig", "KVCache"]


@dataclass
class GPTConfig:
    """Sizes of a GPT; the defaults are GPT-2's smallest.

    Args:
        block_size: the most tokens it looks at.
        vocab_size: rows of the token table, which may be padded beyond the tokenizer's.
        n_layer, n_head, n_embd: blocks, attention heads, width; the heads divide the width.
        dropout: in attention, after each branch, after the embedding.
        bias: in linear layers and layer norms.
    """

    block_size: int = 1024
    vocab_size: int = 50304
    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768
    dropout: float = 0.0
    bias: bool = True

    def __post_init__(self) -> None:
        for name in ("block_size", "vocab_size", "n_layer", "n_head", "n_embd"):
            if int(getattr(self, name)) < 1:
                raise InvalidValueError(f"GPTConfig: {name} is {getattr(self, name)}, must be at least 1")
        if self.n_embd % self.n_head:
            raise InvalidValueError(f"GPTConfig: n_embd is {self.n_embd}, must be a multiple of n_head, {self.n_head}")


class KVCache:
    """Keys and values of the tokens a GPT has seen, so that each new token costs one row of work.

    It lives outside of step arenas. ``length`` counts tokens; ``reset`` begins anew without new memory.
    """

    def __init__(self, config: GPTConfig, batch: int, dtype: dtype) -> None:
        shape = (batch, config.n_head, config.block_size, config.n_embd // config.n_head)
        self.batch, self.length = batch, 0
        self.layers = [(_lasting(shape, dtype), _lasting(shape, dtype)) for _ in range(config.n_layer)]

    def reset(self) -> None:
        """Forget all tokens."""
        self.length = 0

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Put in the keys and values (B, heads, T, size) of the next tokens; those of all tokens so far."""
        keys, values = self.layers[layer]
        end = self.length + k.shape[2]
        keys[:, :, self.length : end] = k
        values[:, :, self.length : end] = v
        return keys[:, :, :end], values[:, :, :end]


def _lasting(shape: tuple[int, ...], dtype: dtype) -> Tensor:
    """Zeros that live as long as their object, whatever arena is active."""
    from gradino.arena import permanent_arena

    with permanent_arena(), step_arena():
        return zeros(shape, dtype=dtype).keep()


class _Attention(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.resid_dropout = nn.Dropout(config.dropout)
        self.n_head, self.dropout = config.n_head, config.dropout

    def forward(self, x: Tensor, mask: Tensor | None, causal: bool, cache: KVCache | None, layer: int) -> Tensor:
        batch, steps, width = x.shape
        q, k, v = (part.view(batch, steps, self.n_head, -1).transpose(1, 2) for part in self.c_attn(x).split(width, dim=2))
        if cache is not None:
            k, v = cache.extend(layer, k, v)
        y = F.scaled_dot_product_attention(q, k, v, mask, self.dropout if self.training else 0.0, causal)
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).reshape(batch, steps, width)))  # type: ignore[no-any-return]


class _MLP(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.gelu = nn.GELU(approximate="tanh")
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.c_proj(self.gelu(self.c_fc(x))))  # type: ignore[no-any-return]


class _Block(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.attn = _Attention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.mlp = _MLP(config)

    def forward(self, x: Tensor, mask: Tensor | None, causal: bool, cache: KVCache | None, layer: int) -> Tensor:
        x = x + self.attn(self.ln_1(x), mask, causal, cache, layer)
        return x + self.mlp(self.ln_2(x))  # type: ignore[no-any-return]


class GPT(nn.Module):
    """Tokens (B, T) -> logits (B, T, vocab_size) of the token that follows each. Parameter names are GPT-2's.

    >>> import gradino as gd
    >>> from gradino.models import GPT, GPTConfig
    >>> gd.manual_seed(0)
    >>> model = GPT(GPTConfig(block_size=8, vocab_size=11, n_layer=2, n_head=2, n_embd=16))
    >>> logits, loss = model(gd.tensor([[1, 2, 3]]), targets=gd.tensor([[2, 3, 4]]))
    >>> logits.shape, loss.shape
    ((1, 3, 11), ())
    >>> model.generate(gd.tensor([[1, 2, 3]]), max_new_tokens=4, temperature=0).shape
    (1, 7)
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(config.vocab_size, config.n_embd),
                "wpe": nn.Embedding(config.block_size, config.n_embd),
                "drop": nn.Dropout(config.dropout),
                "h": nn.ModuleList([_Block(config) for _ in range(config.n_layer)]),
                "ln_f": nn.LayerNorm(config.n_embd, bias=config.bias),
            }
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.lm_head.weight = self.transformer["wte"].weight  # tied
        self.apply(_initialise)
        for name, p in self.named_parameters():  # so that the sum over all branches begins with the variance of one
            if name.endswith("c_proj.weight"):
                nn.init.normal_(p, 0.0, 0.02 / math.sqrt(2 * config.n_layer))

    def forward(
        self, ids: Tensor, targets: Tensor | None = None, cache: KVCache | None = None, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Logits (B, T, vocab_size), and the mean cross entropy if there are targets (-100: none at that place).

        Args:
            ids: int64 (B, T).
            targets: int64 (B, T).
            cache: of the tokens before; the new ones are put in. Only without gradients.
            attention_mask: bool (B, tokens before + T), False where a sequence was padded on the left.

        Raises:
            ShapeError: if there are more tokens than block_size, or shapes do not belong together.
            OutOfRangeError: for an id outside of the vocabulary.
        """
        past = cache.length if cache is not None else 0
        steps = self._check(ids, past, cache, attention_mask)
        positions = arange(past, past + steps, device=ids.device)
        mask, causal = None, past == 0
        if attention_mask is not None:
            positions = (attention_mask.long().cumsum(1) - 1).clamp(min=0)[:, past:]
            mask, causal = _causal(steps, past, ids.device) & attention_mask.unsqueeze(1).unsqueeze(1), False
        elif past and steps > 1:
            mask = _causal(steps, past, ids.device)
        x = self.transformer["drop"](self.transformer["wte"](ids) + self.transformer["wpe"](positions))
        for layer, block in enumerate(self.transformer["h"]):
            x = block(x, mask, causal, cache, layer)
        if cache is not None:
            cache.length += steps
        logits = self.lm_head(self.transformer["ln_f"](x))
        loss = None if targets is None else F.cross_entropy(logits.reshape(-1, self.config.vocab_size), targets.reshape(-1))
        return logits, loss

    def _check(self, ids: Tensor, past: int, cache: KVCache | None, attention_mask: Tensor | None) -> int:
        """The number of new tokens, if the arguments belong together."""
        if ids.ndim != 2 or ids.dtype is not int64:
            raise ShapeError(f"GPT: ids are {ids.shape} {ids.dtype}, must be int64 (B, T)")
        batch, steps = ids.shape
        if past + steps > self.config.block_size:
            raise ShapeError(f"GPT: {past + steps} tokens, but block_size is {self.config.block_size}: the model has no more positions")
        if cache is not None and is_grad_enabled():
            raise GradinoError("GPT: a cache holds no graph: use it within no_grad()")
        if cache is not None and cache.batch != batch:
            raise ShapeError(f"GPT: ids have a batch of {batch}, the cache one of {cache.batch}")
        if attention_mask is not None and (attention_mask.shape != (batch, past + steps) or attention_mask.dtype is not bool_):
            raise ShapeError(
                f"GPT: attention_mask is {attention_mask.shape} {attention_mask.dtype}, must be bool {(batch, past + steps)}: "
                "one for each token, those before included"
            )
        return steps

    def new_cache(self, batch: int = 1) -> KVCache:
        """An empty cache for ``batch`` sequences."""
        return KVCache(self.config, batch, self.lm_head.weight.dtype)

    @no_grad()
    def generate(
        self,
        ids: Tensor,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        *,
        use_cache: bool = True,
        attention_mask: Tensor | None = None,
        cache: KVCache | None = None,
        **more: Any,
    ) -> Tensor:
        """The tokens (B, T) with ``max_new_tokens`` more after them, drawn by ``gradino.sampling.sample``; dropout is off.

        Beyond block_size the model sees the last block_size tokens only, from position 0 on: each step then computes them all,
        with a cache as without, and both give the same.

        Args:
            ids: int64 (B, T), at least one token.
            temperature, top_k, top_p, more: of ``sample``: min_p, repetition_penalty, vocab_size (of the tokenizer, where the
                model's is padded), generator.
            use_cache: False computes all tokens in each step.
            attention_mask: bool (B, T), False where a sequence was padded on the left.
            cache: one to use again; it is reset.

        Raises:
            InvalidValueError, OutOfRangeError: as ``sample``, naming the step.
        """
        if ids.ndim != 2 or ids.dtype is not int64 or ids.shape[1] < 1:
            raise ShapeError(f"GPT.generate: ids are {ids.shape} {ids.dtype}, must be int64 (B, T) with at least one token")
        if not isinstance(max_new_tokens, int) or max_new_tokens < 0:
            raise InvalidValueError(f"GPT.generate: max_new_tokens is {max_new_tokens!r}, must be an int, at least 0")
        batch, start = ids.shape
        training = self.training
        with step_arena():
            tokens = zeros((batch, start + max_new_tokens), dtype=int64, device=ids.device).keep()
            mask = ones((batch, start + max_new_tokens), dtype=bool_, device=ids.device).keep()
            tokens[:, :start] = ids
            if attention_mask is not None:
                mask[:, :start] = attention_mask
        if use_cache and cache is None:
            cache = self.new_cache(batch)
        if cache is not None:
            cache.reset()
        try:
            self.eval()
            for end in range(start, start + max_new_tokens):
                with step_arena():
                    logits = self._next(tokens, mask if attention_mask is not None else None, end, cache if use_cache else None)
                    try:
                        chosen = sample(logits, temperature, top_k, top_p, previous=tokens[:, :end], **more)
                    except (GradinoError, DTypeError) as error:
                        raise type(error)(f"GPT.generate: step {end - start}: {error}") from None
                    tokens[:, end] = chosen
        finally:
            self.train(training)
        return tokens

    def _next(self, tokens: Tensor, mask: Tensor | None, end: int, cache: KVCache | None) -> Tensor:
        """Logits (B, vocab_size) of the token at ``end``."""
        begin = max(0, end - self.config.block_size)
        if begin:
            cache = None  # every token has another position than a step ago
        first = cache.length if cache is not None else begin
        seen = None if mask is None else mask[:, begin:end]
        logits: Tensor = self(tokens[:, first:end], cache=cache, attention_mask=seen)[0][:, -1]
        return logits

    def num_params(self, non_embedding: bool = True) -> int:
        """Number of weights; positions are left out if ``non_embedding``, the token table is the head as well."""
        positions = self.transformer["wpe"].weight.numel() if non_embedding else 0
        return sum(p.numel() for p in self.parameters()) - positions


def _causal(steps: int, past: int, where: Any) -> Tensor:
    """bool (steps, past + steps): token i of the new ones sees all before and itself."""
    return ones((steps, past + steps), dtype=bool_, device=where).tril(past)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
