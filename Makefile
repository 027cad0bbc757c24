# Targets for people: `make help` lists them. Everything happens in this folder: .venv and build.

PYTHON ?= python3
CC_ALL ?= gcc clang
TESTS ?= tests
VENV := .venv
BIN := $(VENV)/bin

# What an installation is made from; Python files are used where they lie.
PARTS := setup.py pyproject.toml gradino/_version.py $(shell find native -name '*.[ch]' -o -name '*.def' -o -name '*.py')

.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test test-aarch64 test-emulator test-emulated cuda cuda-check build bench figures exhaustive lint format sanitize tsan clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 14

demo: $(VENV)/with-demo ## build, install into .venv, train the character LSTM
	$(BIN)/python examples/char_lstm.py

test: $(VENV)/with-test ## run the test suite
	$(BIN)/pytest -q -n 2 $(TESTS)

build: $(VENV)/with-test ## build library and extension into gradino/, as after a change in native/
	$(BIN)/python native/build.py --inplace

bench: $(VENV)/with-bench ## run the microbenchmarks, then compare with PyTorch and JAX where they are installed
	$(BIN)/pytest -q bench
	$(BIN)/python bench/peers.py

figures: $(VENV)/with-bench ## take every table of README.md and docs/performance.md anew, on a quiet machine: about six minutes
	$(BIN)/python bench/peers.py --readme
	for table in limits costs elementwise rows gemm_sweep halves; do $(BIN)/python bench/$$table.py --paste || exit 1; done

exhaustive: $(VENV)/with-test ## measure the error of every float32 function over all inputs, into docs/accuracy.md
	PYTHONPATH=tests $(BIN)/python tests/exhaustive.py --paste

lint: $(VENV)/with-dev ## check Python with ruff and mypy, C with every compiler's warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@for cc in $(CC_ALL); do \
		if command -v $$cc >/dev/null; then $(BIN)/python native/build.py --cc $$cc --werror --compile-only || exit 1; \
		else echo "lint: no $$cc here, skipped"; fi; \
	done

format: $(VENV)/with-dev ## format Python
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The library built for a sanitizer stands in for the installed one; the sanitizer's runtime must come first, and
# find the C++ runtime beside it, or the first C++ exception of another package ends the process.
ASAN = LD_LIBRARY_PATH=$(CURDIR)/build/asan LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1
sanitize: $(VENV)/with-test ## run the test suite with the address and undefined-behaviour sanitizers
	$(BIN)/python native/build.py --cc gcc --sanitize address,undefined --out build/asan
	$(ASAN) $(BIN)/pytest -q -n 2 $(TESTS)

# setarch -R: address layouts that the thread sanitizer cannot map are not drawn.
TSAN = LD_LIBRARY_PATH=$(CURDIR)/build/tsan LD_PRELOAD="$$(gcc -print-file-name=libtsan.so) $$(gcc -print-file-name=libstdc++.so)" TSAN_OPTIONS=die_after_fork=0
tsan: $(VENV)/with-test ## run the thread tests with the thread sanitizer
	$(BIN)/python native/build.py --cc gcc --sanitize thread --out build/tsan
	$(TSAN) setarch -R $(BIN)/pytest -q tests/test_threads.py tests/test_engine_threads.py tests/test_arena_scopes.py tests/test_scope_repair.py \
		tests/test_kept.py tests/test_sanitizers.py

test-aarch64: $(VENV)/with-test ## build for aarch64 and run every op and the C programs under emulation
	GRADINO_TEST_AARCH64=1 $(BIN)/pytest -q -rs tests/test_aarch64.py

EMULATED = build/emulate/libgradino_cuda_emulated.so
ON_DEVICE = $(shell sed '/^\#/d; s|^|tests/|' tests/device_suite.txt)
test-emulator: $(VENV)/with-test ## run the emulator's own tests, every CUDA kernel, and training on devices, on the CPU
	$(BIN)/python native/build.py --emulate
	GRADINO_TEST_EMULATED=1 $(BIN)/pytest -q -n 2 tests/test_emulator.py
	GRADINO_CUDA_LIBRARY=$(CURDIR)/$(EMULATED) $(BIN)/pytest -q tests/test_devices.py tests/test_device_examples.py
	$(BIN)/python tests/cuda_replay.py

test-emulated: test-emulator ## the same, then the suite on device cuda: about ten minutes
	GRADINO_TEST_DEVICE=cuda GRADINO_CUDA_LIBRARY=$(CURDIR)/$(EMULATED) $(BIN)/pytest -q -n 2 $(ON_DEVICE)

cuda: $(VENV)/with-dev ## build the CUDA part for all GPUs with nvcc, into gradino/, and write docs/cuda-kernels.md: many minutes
	$(BIN)/python docs/cuda_kernels.py $$($(BIN)/python native/build.py --cuda)

CUDA_ARCH ?= 80
cuda-check: $(VENV)/with-dev ## compile the CUDA part with nvcc for the oldest GPU, without warnings and spills
	$(BIN)/python docs/cuda_kernels.py --check $$($(BIN)/python native/build.py --cuda --cuda-arch $(CUDA_ARCH) --compile-only)

clean: ## remove what was built
	rm -rf build dist out $(VENV) *.egg-info gradino/include gradino/*.so gradino/*.dylib
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/made:
	@command -v $(PYTHON) >/dev/null || { echo "make: no $(PYTHON) here: install Python 3.10 or newer, or name it with make PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("make: gradino needs Python 3.10 or newer, and $(PYTHON) is " + sys.version.split()[0] + ": name another with make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/with-%: $(VENV)/made $(PARTS)
	$(BIN)/python -m pip install -q -e '.[$*]'
	@touch $@
