"""gradino.models.GPT: shapes, loss, generation with and without a cache; cases N04, A08, G02, G03."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradino as gd
from gradino.models import GPT, GPTConfig, KVCache

BOUND = {"float64": 1e-12, "float32": 1e-4, "bfloat16": 0.15}  # of logits, between a cache and none


def model(dtype: str = "float32", **sizes: int) -> GPT:
    gd.manual_seed(0)
    config = GPTConfig(**{"block_size": 64, "vocab_size": 40, "n_layer": 4, "n_head": 4, "n_embd": 32} | sizes)
    made = GPT(config)
    with gd.no_grad():
        for p in made.parameters():  # logits of some size, so that the bounds say something
            p.mul_(6.0)
    return made.to(dtype).eval()


def tokens(batch: int, length: int, top: int = 40) -> gd.Tensor:
    return gd.tensor(np.random.default_rng(length).integers(0, top, (batch, length)))


def in_chunks(gpt: GPT, ids: gd.Tensor, chunks: list[int], cache: KVCache) -> np.ndarray:
    parts, at = [], 0
    with gd.no_grad():
        for size in chunks:
            with gd.step_arena():
                parts.append(gpt(ids[:, at : at + size], cache=cache)[0].double().numpy().copy())
            at += size
    return np.concatenate(parts, 1)


@pytest.mark.parametrize("dtype", list(BOUND))
@pytest.mark.parametrize("chunks", [[64], [1] * 64, [1, 7, 56], [56, 7, 1]], ids=["whole", "ones", "1-7-56", "56-7-1"])
def test_g02_cached_decoding_is_the_full_forward(dtype: str, chunks: list[int]) -> None:
    gpt, ids = model(dtype), tokens(2, 64)
    full = gpt(ids)[0].detach().double().numpy()
    assert 3 < np.abs(full).max() < 500
    cache = gpt.new_cache(2)
    first = in_chunks(gpt, ids, chunks, cache)
    assert np.abs(first - full).max() <= BOUND[dtype] * max(1.0, np.abs(full).max() / 10)
    cache.reset()
    np.testing.assert_array_equal(in_chunks(gpt, ids, chunks, cache), first)


def test_g02_interleaved_sessions_do_not_meet() -> None:
    gpt, a, b = model(), tokens(1, 12), tokens(1, 9)
    caches = gpt.new_cache(), gpt.new_cache()
    alone = [in_chunks(gpt, ids, [1] * ids.shape[1], gpt.new_cache()) for ids in (a, b)]
    parts: list[list[np.ndarray]] = [[], []]
    for t in range(12):
        for k, ids in enumerate((a, b)):
            if t < ids.shape[1]:
                parts[k].append(in_chunks(gpt, ids[:, t : t + 1], [1], caches[k]))
    for k in range(2):
        np.testing.assert_array_equal(np.concatenate(parts[k], 1), alone[k])


def test_g02_left_padding_changes_nothing_for_the_tokens_behind_it() -> None:
    gpt, ids = model("float64"), tokens(1, 6)
    alone = gpt(ids)[0].detach().numpy()
    padded = gd.cat([gd.zeros(1, 3, dtype=gd.int64), ids], 1)
    mask = gd.tensor([[False] * 3 + [True] * 6])
    np.testing.assert_allclose(gpt(padded, attention_mask=mask)[0].detach().numpy()[:, 3:], alone, atol=1e-11)
    both = gd.cat([padded, tokens(1, 9)], 0)
    masks = gd.cat([mask, gd.ones(1, 9, dtype=gd.bool)], 0)
    greedy = gpt.generate(both, 8, temperature=0, attention_mask=masks)
    np.testing.assert_array_equal(greedy[:1, 9:].numpy(), gpt.generate(ids, 8, temperature=0)[:, 6:].numpy())
    np.testing.assert_array_equal(greedy[1:].numpy(), gpt.generate(tokens(1, 9), 8, temperature=0).numpy())
    without = gpt.generate(both, 8, temperature=0, attention_mask=masks, use_cache=False)
    np.testing.assert_array_equal(greedy.numpy(), without.numpy())


def test_g02_a_cache_outlives_step_arenas_and_goes_with_its_object() -> None:
    gpt = model()
    with gd.step_arena():
        cache = gpt.new_cache()
        with gd.no_grad():
            gpt(tokens(1, 4), cache=cache)
    assert cache.layers[0][0][:, :, :4].abs().sum().item() > 0
    used = []
    for _ in range(4):
        cache = gpt.new_cache()
        used.append(gd.permanent_arena().stats().used)
    assert used[1] == used[-1]


def test_n04_more_tokens_than_positions_is_an_error_and_generation_goes_on_with_the_last_ones() -> None:
    gpt = model(block_size=16)
    with pytest.raises(gd.ShapeError, match="17 tokens, but block_size is 16"):
        gpt(tokens(1, 17))
    with pytest.raises(gd.OutOfRangeError, match="40 is out of range"):
        gpt(gd.tensor([[1, 40]]))
    with pytest.raises(gd.OutOfRangeError, match="-1 is out of range"):
        gpt(gd.tensor([[-1]]))
    prompt = tokens(1, 10)
    cached, plain = (gpt.generate(prompt, 20, temperature=0, use_cache=use) for use in (True, False))
    assert cached.shape == (1, 30)
    np.testing.assert_array_equal(cached.numpy(), plain.numpy())


def test_n04_padding_of_the_vocabulary_is_not_generated() -> None:
    gpt = model(vocab_size=64)
    out = gpt.generate(tokens(3, 4), 40, temperature=50.0, vocab_size=40)
    assert out.amax().item() < 40


def test_g03_generation_names_the_step_of_bad_logits() -> None:
    gpt = model()
    with gd.no_grad():
        gpt.transformer["ln_f"].bias.fill_(math.nan)
    with pytest.raises(gd.InvalidValueError, match="step 0"):
        gpt.generate(tokens(1, 3), 2)
    with pytest.raises(gd.InvalidValueError, match="temperature"):
        gpt.generate(tokens(1, 3), 2, temperature=-1.0)
    assert not gpt.training


def test_generation_is_repeatable_and_leaves_the_model_as_it_was() -> None:
    gpt = model()
    gpt.train()
    runs = []
    for _ in range(2):
        gd.manual_seed(5)
        runs.append(gpt.generate(tokens(2, 3), 12, temperature=1.0, top_k=5).numpy().tolist())
    assert runs[0] == runs[1] and gpt.training
    assert all(p.grad is None for p in gpt.parameters())
    assert gpt.generate(tokens(2, 3), 0).tolist() == tokens(2, 3).tolist()


def test_tied_weights_are_one_parameter_and_load_strictly() -> None:
    gpt = model()
    assert gpt.lm_head.weight is gpt.transformer["wte"].weight
    assert len({id(p) for p in gpt.parameters()}) == len(list(gpt.parameters()))
    other = GPT(gpt.config)
    other.load_state_dict(gpt.state_dict())
    np.testing.assert_array_equal(other(tokens(1, 5))[0].detach().numpy(), gpt(tokens(1, 5))[0].detach().numpy())


def test_loss_is_the_cross_entropy_of_the_targets_that_count() -> None:
    gpt, ids = model(), tokens(2, 6)
    targets = tokens(2, 7)[:, 1:].contiguous()
    targets[0, :3] = -100
    logits, loss = gpt(ids, targets)
    rows = logits.detach().numpy().astype(np.float64)
    logs = rows - np.log(np.exp(rows - rows.max(-1, keepdims=True)).sum(-1, keepdims=True)) - rows.max(-1, keepdims=True)
    t = targets.numpy()
    expected = -np.mean([logs[b, i, t[b, i]] for b in range(2) for i in range(6) if t[b, i] >= 0])
    assert loss is not None and abs(loss.item() - expected) < 1e-4 * expected


def test_it_learns_a_cycle() -> None:
    gd.manual_seed(1)
    gpt = GPT(GPTConfig(block_size=16, vocab_size=8, n_layer=2, n_head=2, n_embd=32))
    optimizer = gd.optim.AdamW(gpt.parameters(), lr=3e-3)
    row = np.arange(17) % 8
    for step in range(150):
        with gd.step_arena():
            ids = gd.tensor((row[None] + np.arange(8)[:, None] + step) % 8)
            _, loss = gpt(ids[:, :-1], ids[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert gpt.generate(gd.tensor([[0, 1, 2, 3]]), 12, temperature=0).tolist() == [list(np.arange(16) % 8)]


def test_wrong_arguments() -> None:
    gpt = model()
    with pytest.raises(gd.InvalidValueError, match="multiple of n_head"):
        GPTConfig(n_embd=10, n_head=3)
    with pytest.raises(gd.InvalidValueError, match="n_layer"):
        GPTConfig(n_layer=0)
    with pytest.raises(gd.ShapeError, match="int64"):
        gpt(gd.zeros(1, 3))
    with pytest.raises(gd.GradinoError, match="no_grad"):
        gpt(tokens(1, 3), cache=gpt.new_cache())
    with gd.no_grad(), pytest.raises(gd.ShapeError, match="batch"):
        gpt(tokens(2, 3), cache=gpt.new_cache(1))
    with pytest.raises(gd.ShapeError, match="attention_mask"):
        gpt(tokens(1, 3), attention_mask=gd.ones(1, 2, dtype=gd.bool))
    with pytest.raises(gd.ShapeError, match="at least one token"):
        gpt.generate(gd.zeros(1, 0, dtype=gd.int64), 2)
    with pytest.raises(gd.InvalidValueError, match="max_new_tokens"):
        gpt.generate(tokens(1, 3), -1)


def test_a08_checkpointed_blocks_train_with_the_same_bits() -> None:
    config = GPTConfig(block_size=8, vocab_size=11, n_layer=4, n_head=2, n_embd=16, dropout=0.3)
    ids = tokens(3, 9, 11)
    runs = []
    for saving in (False, True):
        gd.manual_seed(7)
        gpt = GPT(config)
        if saving:
            for block in gpt.transformer["h"]:
                whole = block.forward
                block.forward = lambda x, *rest, whole=whole: gd.utils.checkpoint.checkpoint(whole, x, *rest, use_reentrant=False)
        optimizer, losses = gd.optim.AdamW(gpt.parameters(), lr=1e-2), []
        for _ in range(5):
            with gd.step_arena():
                _, loss = gpt(ids[:, :-1], ids[:, 1:])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        runs.append((losses, gd.get_rng_state(), [p.detach().numpy().copy() for p in gpt.parameters()]))
    (plain, rng, weights), (saved, rng_of_saved, weights_of_saved) = runs
    assert plain == saved and rng == rng_of_saved
    for a, b in zip(weights, weights_of_saved, strict=True):
        np.testing.assert_array_equal(a, b)
