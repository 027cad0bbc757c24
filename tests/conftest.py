"""What every test stands on: an ISA to run on, fixed seeds, and a step arena of its own."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from typing import Any

import hypothesis
import numpy as np
import pytest
from building import SANITIZED
from helpers import ISAS

import gradino as gd
from gradino import config
from gradino._lib import lib, text

# No random examples, no time limits, no files left behind: a failure is the same on every machine.
hypothesis.settings.register_profile("gradino", derandomize=True, deadline=None, database=None, max_examples=60)
hypothesis.settings.load_profile("gradino")

SEED = 20240229

# A sanitizer is there for our own code: beside PyTorch's it would take hours and all memory. As if it were not installed.
if SANITIZED:

    class _NoTorch:
        """Finds that there is none. ``sys.modules["torch"] = None`` would say so, too, but SciPy looks there for its tensors."""

        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name.partition(".")[0] == "torch":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, _NoTorch())  # type: ignore[arg-type]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "own_arenas: the test opens its own arenas; it does not run inside a step arena")


def pytest_report_header() -> str:
    isas = ", ".join(config.supported_isas())
    return f"gradino {gd.__version__}: kernel sets {isas}; in use: {config.get_isa()}; {gd.get_num_threads()} threads"


# GRADINO_TEST_DEVICE=cuda runs the files of device_suite.txt on a device, or on the emulated CUDA part that GRADINO_CUDA_LIBRARY
# names: all tensors are made there. With cuda-inputs only those are that a test makes by a function of `gd`: what an op makes
# beside them must find its place by itself.
DEVICE, _, _INPUTS = os.environ.get("GRADINO_TEST_DEVICE", "cpu").partition("-")
AT_ONCE = "a device reports an index out of range when the host next waits for it"
HOST_ONLY = {  # what is in a test's name: why it is not for a device
    "out_of_range": AT_ONCE,
    "test_writes_at_an_index_in_place": AT_ONCE,
    "test_from_numpy_shares_memory": "memory of the host cannot be shared with a device",
    "test_pointwise.py::test_attributes": "it expects that there is no device",
    "DeviceError-cuda": "it expects that there is no device",
    "test_print_options": "a tensor on a device says where it is",
    "test_recycling.py::test_depth_costs_no_memory": "it measures memory of the host",
    "test_recycling.py::test_many_sizes": "it measures memory of the host",
    "test_indices_are_made_only_where_they_are_needed": "it measures memory of the host",
}
if DEVICE != "cpu":
    _numpy, _from_numpy = gd.Tensor.numpy, gd.from_numpy

    def _through_host(t: gd.Tensor) -> np.ndarray:
        """Tests look at values by .numpy(), which is for the CPU only."""
        return _numpy(t if t.requires_grad else t.cpu())

    def _sent(array: np.ndarray) -> gd.Tensor:
        return _from_numpy(array).to(DEVICE)

    def _placed(function: Any) -> Any:
        return lambda *args, **kwargs: function(*args, **({} if "device" in kwargs else {"device": DEVICE}), **kwargs)

    def _init(self: gd.Tensor, *args: Any, **kwargs: Any) -> None:
        if sys._getframe(1).f_globals.get("__name__", "").startswith("gradino"):
            return _first(self, *args, **kwargs)
        with gd.device(DEVICE):
            return _first(self, *args, **kwargs)

    _first, gd.Tensor.__init__ = gd.Tensor.__init__, _init
    gd.from_numpy, gd.Tensor.numpy = _sent, _through_host
    for _name in ("arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "randperm", "tensor", "zeros"):
        setattr(gd, _name, _placed(getattr(gd, _name)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name, reason in HOST_ONLY.items() if DEVICE != "cpu" else ():
            if name in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def clean_slate(request: pytest.FixtureRequest) -> Iterator[None]:
    """Same random numbers for each test, and everything it makes dies with it."""
    if DEVICE != "cpu" and not _INPUTS:
        gd.set_default_device(DEVICE)
    gd.manual_seed(SEED)
    random.seed(SEED)
    np.random.seed(SEED)
    if request.node.get_closest_marker("own_arenas"):
        yield
    else:
        with gd.step_arena():
            yield
    if DEVICE != "cpu":
        gd.cuda.synchronize()  # an index out of range that nobody has met is an error here, not in a later test
    assert gd.is_grad_enabled(), "the test left recording switched off"
    waiting, message = lib.gd_last_status(), text(lib.gd_last_error())
    lib.gd_clear_error()
    assert waiting >= 0 or "lib" in vars(request.module), f"an error was left waiting, for some later call to trip over: {message}"


@pytest.fixture
def rng() -> np.random.Generator:
    """NumPy's random numbers, the same for each test."""
    return np.random.default_rng(SEED)


@pytest.fixture(params=ISAS)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """The test runs once with each kernel set; the one in use before comes back after it."""
    if SANITIZED and request.param == "avx2":
        pytest.skip("under a sanitizer, which takes long: avx2 is portable's source with other flags")
    if request.param not in config.supported_isas():
        pytest.skip(f"this CPU has no {request.param}: it runs {', '.join(config.supported_isas())}")
    before = config.get_isa()
    config.set_isa(request.param)
    yield request.param
    config.set_isa(before)


@pytest.fixture
def avx512() -> Iterator[None]:
    """For tests that compare AVX-512 with the other kernel sets and switch themselves."""
    if "avx512" not in config.supported_isas():
        pytest.skip(f"this CPU has no avx512: it runs {', '.join(config.supported_isas())}")
    before = config.get_isa()
    yield
    config.set_isa(before)
