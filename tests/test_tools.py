"""`python -m gradino info` and `bench`: they run, agree with what is in use, and say what they say in both forms."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from building import check, clean_environment, run
from completeness import table

import gradino as gd
from gradino import config
from gradino._lib import ffi, lib
from gradino.tools import bench, info, machine, probe, roofline


def gradino(*words: str, **environment: str) -> str:
    return check([sys.executable, "-m", "gradino", *words], env=clean_environment(**environment))


# ---- info -------------------------------------------------------------------------------------------------------


def test_info_says_what_is_in_use() -> None:
    facts = info.collect()
    assert facts["gradino"] == facts["library"]["version"] == gd.__version__
    assert Path(facts["library"]["path"]).name.startswith("libgradino.")
    assert facts["kernel sets"] == {"supported": config.supported_isas(), "in use": config.get_isa()}
    assert facts["threads"]["in use"] == gd.get_num_threads()
    assert facts["threads"]["default"] == lib.gd_default_num_threads()
    assert facts["processors"]["affinity"] == machine.usable_cpus()
    caches = facts["processor"]["caches"]
    assert 1024 <= caches["L1d"] < caches["L2"], caches
    assert facts["arena"]["reserved"] >= 1 << 20
    assert json.loads(json.dumps(facts)) == facts


def test_info_names_the_kernel_of_every_op(isa: str) -> None:
    used = info.kernels()
    assert used.keys() == {row.name for row in table() if not row.view}
    assert {used[row.name] for row in table() if not row.view and row.avx512} == {isa}
    assert set(used.values()) <= set(config.supported_isas())


def test_info_in_both_forms() -> None:
    facts = json.loads(gradino("info", "--json", GRADINO_ISA="portable", GRADINO_NUM_THREADS="3"))
    assert facts["kernel sets"]["in use"] == "portable" and set(facts["kernels"].values()) == {"portable"}
    assert facts["threads"] == {"in use": 3, "default": 3, "requested": 3}
    assert facts["environment"] == {"GRADINO_ISA": "portable", "GRADINO_NUM_THREADS": "3"}
    text = gradino("info", GRADINO_ISA="portable", GRADINO_NUM_THREADS="3")
    for words in (facts["processor"]["model"], "in use: portable", "3 in use", "GRADINO_ISA=portable", "cross_entropy_bwd", "L1d"):
        assert words in text, text


def test_show_config_is_the_same_text() -> None:
    assert gd.show_config() == info.as_text()
    assert config.get_isa() in gd.show_config()


def test_sizes_read_well() -> None:
    assert [info.size(n) for n in (0, 1023, 32 << 10, 3 << 19, 64 << 30)] == ["0 bytes", "1023 bytes", "32 KiB", "1.5 MiB", "64 GiB"]


# ---- Limits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
def test_probes_do_the_work_they_count(isa: str, threads: int) -> None:
    taken, n = ffi.new("double *"), 1 << 12
    a, b, c = gd.zeros(n), gd.arange(n, dtype="float32"), gd.full((n,), 2.0)
    buffers = [t._info().data for t in (a, b, c)]
    with probe.threads(threads), probe.kernel_set(isa):
        for kind, values, work in (
            (lib.GD_PROBE_COPY, b.numpy(), 8),
            (lib.GD_PROBE_TRIAD, b.numpy() + 6, 12),
            (lib.GD_PROBE_UPDATE, b.numpy() * 4 + 6, 12),
            (lib.GD_PROBE_READ, b.numpy() * 4 + 6, 4),
        ):
            whole = n // threads // 64 * 64 * threads  # what is left over stays
            assert lib.gd_probe(kind, n, *buffers, taken) == work * whole
            assert (a.numpy()[:whole] == values[:whole]).all(), f"kind {kind}, {isa}, {threads} threads"
            assert not a.numpy()[whole:].any() and taken[0] > 0
        for dtype in ("float32", "float64"):
            assert lib.gd_probe(probe.ARITHMETIC[dtype], 7, *buffers, taken) % (7 * threads) == 0
        assert lib.gd_probe(lib.GD_PROBE_REGION, 5, *buffers, taken) == 5


def test_a_limit_that_does_not_apply_is_zero() -> None:
    has = "avx512bf16" in info.collect()["processor"]["features"]
    assert (probe.arithmetic("bfloat16", seconds=0) > 0) == has
    assert probe.arithmetic("bfloat16", "portable", seconds=0) == 0


def test_an_unknown_probe_is_refused() -> None:
    assert lib.gd_probe(99, 1, ffi.NULL, ffi.NULL, ffi.NULL, ffi.new("double *")) < 0
    assert lib.gd_last_status() == lib.GD_ERR_VALUE
    lib.gd_clear_error()


def test_probes_leave_threads_and_kernels_as_they_were() -> None:
    before = gd.get_num_threads(), config.get_isa()
    with pytest.raises(ZeroDivisionError), probe.threads(2), probe.kernel_set("portable"):
        1 / 0  # noqa: B018
    assert (gd.get_num_threads(), config.get_isa()) == before


# ---- bench ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quick() -> dict[str, object]:
    """What `bench --quick --json` prints."""
    return json.loads(gradino("bench", "--quick", "--json", "--threads", "2"))  # type: ignore[no-any-return]


def test_bench_figures_are_whole(quick) -> None:
    limits = {(f["name"], f["threads"]): f for f in quick["limits"]}
    for key in ("float32", "float64", "copy", "triad", "update", "read"):
        for threads in (1, 2):
            assert limits[bench.LIMIT_NAMES[key], threads]["unit"] == bench.UNITS_OF[key]
    for figure in quick["limits"] + quick["kernels"]:
        assert figure["value"] > 0 and math.isfinite(figure["value"]), figure
    for figure in quick["kernels"]:
        bound = limits.get((bench.LIMIT_NAMES[figure["limit"]], figure["threads"]))
        if bound is None:
            assert figure["limit"] == "bfloat16" and figure["share"] is None, figure
        else:
            assert figure["share"] == pytest.approx(figure["value"] / bound["value"]), figure
    names = " ".join(f["name"] for f in quick["kernels"])
    for kernel in ("matmul 512", "a + b", "exp", "sum", "softmax", "AdamW", "LSTM"):
        assert kernel in names
    assert quick["quick"] and quick["kernel set"] == config.supported_isas()[-1]


def test_bench_as_a_table(quick) -> None:
    text = bench.as_text(quick, [1, 2])
    lines = text.splitlines()
    for figure in quick["limits"] + quick["kernels"]:
        line = next(line for line in lines if line.startswith(f"  {figure['name']}  "))
        assert bench.cell(figure) in line
    assert "1 thread" in lines[1] and "2 threads" in lines[1]
    assert lines[-1] == "Taken with --quick: these figures say nothing."
    assert max(map(len, lines)) < 120, text


def test_work_is_counted_in_full() -> None:
    """Operations and bytes of the kernels, against plain formulas."""
    found = {kernel.name.split(",")[0]: kernel for kernel in bench.kernels()}
    assert found["matmul 512 x 512 x 512"].work == 2 * 512**3
    assert found["a + b"].work == 12 << 24 and found["sum"].work == 4 << 24 and found["softmax"].work == 8 << 24
    assert found["AdamW"].work == 7 * 4 * 10_000_000
    assert found["LSTM 28-128"].work == 2 * 28 * 64 * 512 * ((28 + 128) + 28 + 2 * 128)


def test_an_unknown_command_is_refused() -> None:
    for words in ([], ["nothing"], ["config"], ["bench", "--threads", "many"]):
        done = run([sys.executable, "-m", "gradino", *words])
        assert done.returncode == 2 and "usage" in done.stderr, done.stderr


# ---- The roofline -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def placed() -> dict[str, object]:
    return roofline.measure(1, bench.SMALL, 0.0)


@pytest.mark.own_arenas
def test_the_roofline_counts_work_and_bytes(placed) -> None:
    ops = {p.name: p for p in placed["ops"]}
    assert ops.keys() | set(placed["unplaced"]) == {row.name for row in table() if not row.view} | {"sgd", "adamw"}
    assert not {row.name for row in table() if row.elementwise} & set(placed["unplaced"])
    for p in placed["ops"]:
        assert p.intensity > 0 and p.rate > 0 and math.isfinite(p.rate), p
    n = 4096 // 64 * 2048
    for name, intensity in (
        ("add", 1 / 12),
        ("neg", 1 / 8),
        ("cast", 1 / 12),
        ("exp", 20 / 8),
        ("where", 1 / 13),
        ("eq", 1 / 9),
        ("sum", n / (4 * n + 4 * n / 2048)),
        ("fill", 1 / 4),
        ("matmul", 2 * 128**3 / (3 * 4 * 128**2)),
        ("adamw", 14 / 28),
    ):
        assert ops[name].intensity == pytest.approx(intensity), name
    assert {p.family for p in placed["ops"]} == set(roofline.COLOURS)


@pytest.mark.own_arenas
def test_the_picture_names_every_op(placed, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib draws the picture")
    target = tmp_path / "roofline.svg"
    roofline.plot(placed, target)
    text = target.read_text(encoding="utf-8")
    named = set(re.findall(r">\s*(\w+)\s*<", text))
    assert {p.name for p in placed["ops"]} <= named
    assert target.stat().st_size < 150_000


def test_labels_are_moved_apart_and_not_far() -> None:
    assert roofline.spread([0.0, 5.0, 9.0], 1.0) == [0.0, 5.0, 9.0]
    assert roofline.spread([1.0, 1.0, 1.0], 1.0) == [0.0, 1.0, 2.0]
    rng = np.random.default_rng(0)
    for _ in range(50):
        values = sorted(rng.uniform(0, 10, 30).tolist())
        places = roofline.spread(values, 0.5)
        assert all(b - a >= 0.5 - 1e-9 for a, b in zip(places, places[1:])), values
        assert abs(np.mean(places) - np.mean(values)) < 1e-9
