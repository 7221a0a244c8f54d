# Every verb sets up what it needs on a fresh clone and is quick the second time.
# `make help` lists them.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMPS := $(VENV)/stamps

DASHBOARD := .cache/ray-dashboard

CARGO     := cargo
MANIFEST  := rust/Cargo.toml
RUST_SRC  := $(shell find rust -path rust/target -prune -o -path rust/fuzz -prune -o \
               \( -name '*.rs' -o -name 'Cargo.toml' -o -name 'Cargo.lock' \) -print 2>/dev/null)

# PyO3's build script must see the interpreter that will load the extension.
export PYO3_PYTHON := $(abspath $(BIN)/python)

# Extra words for the tool behind a verb: make test ARGS="-k wait", make bench ARGS="--quick".
ARGS ?=

.DEFAULT_GOAL := help

# --- set-up ------------------------------------------------------------------------------

# Prints the requirements of the extras named in EXTRAS, and the run-time ones, from pyproject.toml.
define REQUIREMENTS
try: import tomllib
except ImportError: from pip._vendor import tomli as tomllib
import sys
with open("pyproject.toml", "rb") as f: project = tomllib.load(f)["project"]
extras = project["optional-dependencies"]
print("\n".join(project["dependencies"] + [line for name in sys.argv[1:] for line in extras[name]]))
endef
export REQUIREMENTS

$(STAMPS)/venv:
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

# torch alone is several GB: nothing but a change of pyproject.toml comes back here, and then
# pip only adds what is missing.
$(STAMPS)/env: pyproject.toml | $(STAMPS)/venv
	@echo "== python packages (the first time this downloads several GB)"
	@$(BIN)/python -c "$$REQUIREMENTS" test dev > $(STAMPS)/requirements.txt
	@cmp -s $(STAMPS)/requirements.txt $@ || \
	  $(BIN)/python -m pip install --quiet -r $(STAMPS)/requirements.txt
	@cp $(STAMPS)/requirements.txt $@

# What Ray's job server needs: beside the environment, not in it (see pyproject.toml).
$(DASHBOARD)/stamp: $(STAMPS)/env
	@echo "== what Ray's job server needs"
	@mkdir -p $(DASHBOARD)
	@$(BIN)/python -c "$$REQUIREMENTS" dashboard | grep -vxFf $(STAMPS)/env > $(DASHBOARD)/requirements.txt
	@$(BIN)/python -m pip install --quiet --upgrade --target $(DASHBOARD) -r $(DASHBOARD)/requirements.txt \
	  || echo "   cannot be installed: jobs are not compared"
	@touch $@

# The bench does without the other systems where they cannot be installed.
$(STAMPS)/others: $(STAMPS)/env
	@echo "== other systems to measure beside Ray"
	@$(BIN)/python -c "$$REQUIREMENTS" orientation > $(STAMPS)/others.txt
	@$(BIN)/python -m pip install --quiet -r $(STAMPS)/others.txt \
	  || echo "   some could not be installed: their rows will say so"
	@touch $@

$(STAMPS)/native: $(RUST_SRC) $(STAMPS)/env
	@echo "== extension module (optimized)"
	@VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --release
	@touch $@

.PHONY: help env build demo test test-pythons bench scale sim compare fuzz lint wheel clean distclean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' Makefile
	@echo '  Add words for the tool behind a verb with ARGS, e.g. make test ARGS="-k wait"'

env: $(STAMPS)/env ## Create the virtual environment with everything the other verbs use

build: $(STAMPS)/native ## Build the extension, optimized, into the virtual environment

demo: build ## Run one real Ray program on Ray and on raymesh and compare them
	@$(BIN)/python examples/digits/run_demo.py $(ARGS)

test: build $(DASHBOARD)/stamp ## Run the Rust tests, the unit tests and the side-by-side suite
	$(CARGO) test --manifest-path $(MANIFEST) --workspace --quiet
	$(BIN)/python -m pytest $(ARGS)

test-pythons: $(STAMPS)/env ## Build the wheel and test it under every Python found here (ARGS="3.12 -k wait")
	@$(BIN)/python -m compat_tests.harness.pythons $(ARGS)

bench: build $(STAMPS)/others ## Measure raymesh beside Ray, 25 minutes; writes bench-results/ (ARGS="--quick", "-k put", "--busy")
	@$(BIN)/python -m compat_tests.bench $(ARGS)

scale: ## Measure what the controller costs on up to 10,000 hosts, played in one process; draws docs/images/scale.svg
	$(CARGO) run --manifest-path $(MANIFEST) --release --quiet -p raymesh-sim --bin scale -- --svg docs/images/scale.svg $(ARGS)

sim: ## Run 100,000 random clusters in simulation (ARGS="--nocapture")
	RAYMESH_SIM_SEEDS=100000 $(CARGO) test --manifest-path $(MANIFEST) --release --quiet -p raymesh-sim --test clusters -- $(ARGS)

compare: build $(DASHBOARD)/stamp ## Print per feature whether raymesh answers as Ray does
	@$(BIN)/python -m compat_tests.harness.compare $(ARGS)

lint: build ## Check formatting, lints and types of Rust and Python
	$(CARGO) fmt --manifest-path $(MANIFEST) --all --check
	$(CARGO) clippy --manifest-path $(MANIFEST) --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict raymesh
	$(BIN)/mypy compat_tests/harness compat_tests/bench
	$(BIN)/python -m mypy.stubtest raymesh._native

# Coverage for libFuzzer, which stable Rust can give; no sanitizer: what is fuzzed has no unsafe code.
FUZZ_FLAGS := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
              -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
              -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1
FUZZ_HOST   = $(shell rustc -vV | sed -n 's/^host: //p')

fuzz: ## Throw random bytes at the decoders of links, a minute each (ARGS="-max_total_time=600"); needs a C++ compiler
	RUSTFLAGS="$(FUZZ_FLAGS)" $(CARGO) build --release --manifest-path rust/fuzz/Cargo.toml --target $(FUZZ_HOST)
	@cd rust/fuzz && mkdir -p corpus/link corpus/hello corpus/message artifacts
	@$(PYTHON) -c "import pathlib; to = pathlib.Path('rust/fuzz/corpus/message'); \
	  [(to / hex.stem).write_bytes(bytes.fromhex(hex.read_text())) for hex in pathlib.Path('rust/wire/tests/golden').glob('*.hex')]"
	@for target in link hello message; do \
	  echo "== $$target"; \
	  (cd rust/fuzz && target/$(FUZZ_HOST)/release/$$target corpus/$$target -artifact_prefix=artifacts/ -max_len=65536 \
	    -max_total_time=60 -verbosity=0 -print_final_stats=1 $(ARGS)) || exit 1; \
	done

wheel: $(STAMPS)/env ## Build the wheel for this Python into dist/ (ARGS="-i python3.12" for another)
	@$(BIN)/maturin build --release --out dist $(or $(ARGS),-i $(BIN)/python)
	@ls -l dist

clean: ## Remove build products, caches and reports; keep the virtual environment
	@rm -rf rust/target dist .cache .mypy_cache .ruff_cache .pytest_cache bench-results demo-results
	@rm -f raymesh/*.so $(STAMPS)/native
	@find . -path ./$(VENV) -prune -o -name __pycache__ -type d -print | xargs -r rm -rf

distclean: clean ## Remove the virtual environment too
	@rm -rf $(VENV)
