# penstock: `make help` lists what there is. `make demo` and `make test` set everything up by themselves.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# OpenMP threads that spin while they wait make two threads slower than one on a busy machine.
export OMP_WAIT_POLICY := passive
# Every process would compile every module again.
unexport PYTHONDONTWRITEBYTECODE
# Where rustup puts cargo, for a shell that does not have it on PATH yet.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

VENV := .venv/bin
SETUP := scripts/setup.sh $(if $(filter-out 0,$(WITHOUT_OPENFHE)),--without-openfhe) $(if $(filter-out 0,$(S3)),--s3) $(if $(filter-out 0,$(V)),--verbose)
DEMO_RUN := runs/demo
# An interrupted demo is resumed, a finished one is run again.
DEMO = $(VENV)/penstock analyze logistic-regression --size demo -o $(DEMO_RUN) $(if $(wildcard $(DEMO_RUN)/.complete),--force)
CARGO_PLAIN := --workspace --exclude penstock-py --exclude penstock-client-py --locked

# Modules that no source file names, and that cargo fmt does not find.
BY_NAME := --edition 2024 $(wildcard crates/penstock-sim/src/policy/*.rs)

# Processes that share the Python tests, 2 GB each. TEST_WORKERS=0: none, for a debugger.
TEST_WORKERS := $(shell nproc)
PYTEST = $(VENV)/python -m pytest -q -n $(TEST_WORKERS) --dist loadscope --no-loadscope-reorder

SANITIZED_HOST = $(shell rustc -vV | sed -n 's/^host: //p')

.PHONY: help setup demo traces smoke test test-rust test-core test-all test-rest durations campaign networks fuzz coverage sanitize bench bench-regression lint format \
        simgrid chromium docs docs-check benchmark-suite faults mutants validation pictures lock clean clean-venv

help:  ## this list
	@echo "make TARGET [WITHOUT_OPENFHE=1: penstock's own client encrypts] [S3=1: key stores in S3] [V=1: show every step]"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|' 2>/dev/null \
	  || sed -n 's/^\([a-z-]*\):[^#]*## /  \1: /p' $(MAKEFILE_LIST)

setup:  ## .venv with everything that penstock needs, the Rust core, the client and the studies (quick when nothing has changed)
	@$(SETUP)

demo: setup  ## train an encrypted logistic regression, and see what its keys cost on each memory tier
	$(DEMO)

traces: setup  ## the trace pack: every workload at every accelerator's parameters, into traces/ (two minutes, 89 MB)
	$(VENV)/penstock trace pack -o traces

smoke: setup  ## a first look at the whole system, on real ciphertexts (a minute or two)
	$(PYTEST) --tier smoke $(PYTEST_ARGS)

# One after the other, also under `make -j`: some Python tests measure times.
test: setup test-rust test-core  ## the core: each rule, kernel, format and reading, on real ciphertexts (six minutes)

test-rust: setup
	cargo test --release --quiet $(CARGO_PLAIN)

test-core: setup test-rust
	$(PYTEST) --tier core --took=build/took/core.json $(PYTEST_ARGS)

test-all: test test-rest  ## everything that a change must pass (twenty minutes on two cores; more cores are faster)

# The hot crates once more, with overflow checks: the profile of `make setup` has none there.
test-rest: setup chromium
	cargo test --quiet --locked --lib -p penstock-ckks -p penstock-sim
	$(PYTEST) --tier rest --took=build/took/rest.json $(PYTEST_ARGS)

durations: setup  ## tests/durations.json again, from the last `make test-all`
	$(VENV)/python tests/support/tiers.py build/took/core.json build/took/rest.json

# PYTEST_ARGS="tests/unit": of some tests only.
coverage: setup chromium  ## branch coverage of src/penstock and the studies by the Python tests, into build/coverage/html
	$(PYTEST) --cov --cov-branch --cov-report=html $(PYTEST_ARGS)
	@echo "branch coverage: $$($(VENV)/coverage report --format=total) %, file by file in build/coverage/html/index.html"

# RUSTC_BOOTSTRAP lets a stable toolchain use the sanitizer; in a folder of its own, so that `target` stays as it is.
sanitize:  ## the tests of the evaluator and of the key store under AddressSanitizer (minutes)
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=target/sanitized \
	  cargo test --quiet --locked --lib --tests -p penstock-ckks -p penstock-segment -p penstock-store --target $(SANITIZED_HOST)

bench: setup  ## the benchmarks (benchmarks/bench_*.py), one after the other
	@shopt -s nullglob; for file in benchmarks/bench_*.py; do echo "== $$file"; $(VENV)/python "$$file" || exit 1; done

# REGRESSION_ARGS: --pairs, --bound, --kernels (benchmarks/regression.py --help).
bench-regression: setup  ## engine and evaluator against an earlier revision; fails where a kernel is slower (BASE=v0.1.0)
	$(VENV)/python benchmarks/regression.py $(or $(BASE),HEAD) $(REGRESSION_ARGS)

# HARNESS: a checkout of fhe-benchmarking/fetch-by-similarity. SIZE: toy, small, medium or large. RUNS, SEED, COUNT_ONLY=1,
# MEMORY="8 GiB" of the server.
benchmark-suite: setup  ## an official benchmark: fetch-by-similarity, ml-inference (HARNESS=… SIZE=small)
	scripts/benchmark_suite.sh "$(HARNESS)" "$(SIZE)"

# Every linter runs, also after one that complains.
lint: setup  ## ruff, mypy, rustfmt, clippy, and turns of phrase
	@failed=(); check() { echo "$$*"; "$$@" || failed+=("$${*:1:2}"); }; \
	check $(VENV)/ruff check .; \
	check $(VENV)/ruff format --check .; \
	check $(VENV)/mypy; \
	check cargo fmt --all --check; \
	check rustfmt --check $(BY_NAME); \
	check $(VENV)/python scripts/prose.py --bound 2 --worst 5; \
	check cargo clippy --quiet --workspace --all-targets --locked -- -D warnings; \
	if [ $${#failed[@]} -gt 0 ]; then printf 'lint failed: %s\n' "$${failed[@]}"; exit 1; fi

format: setup  ## write every file as the linters want it
	$(VENV)/ruff check --fix .
	$(VENV)/ruff format .
	cargo fmt --all
	rustfmt $(BY_NAME)

simgrid:  ## SimGrid for the cross-check of clusters (Debian, Ubuntu: python3-simgrid; needs root)
	@scripts/simgrid.sh

# Where it may not install a browser it says so, and the tests that drive one are skipped.
chromium:  ## a browser for the tests of the explorer (Debian, Ubuntu: chromium; needs root)
	@scripts/chromium.sh || true

# Without --quiet: that hides warnings from --strict, too.
docs:  ## the documentation, into site/
	@$(SETUP) --docs
	NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(VENV)/mkdocs build --strict
	@echo "the documentation: site/index.html"

# What takes hours; a minute of each is in `make test-all`.
campaign: docs-check networks faults fuzz sanitize  ## what takes hours: every page, faults, random programs, memory checks

networks: setup  ## the networks of full width by OpenFHE, which `make test-all` runs with a quarter of the channels (3 minutes)
	PENSTOCK_NETWORKS=wide $(PYTEST) --tier all tests/system/program/test_networks_openfhe.py $(PYTEST_ARGS)

# EXAMPLES: random cases of each property; those of `make test-all` are 200.
fuzz: setup  ## the property tests with many more random cases
	PENSTOCK_EXAMPLES=$(or $(EXAMPLES),5000) $(PYTEST) --tier all -m hypothesis $(PYTEST_ARGS)

# Those that take minutes too, which `make test-all` leaves out or runs at smaller sizes.
docs-check: setup  ## every command of the documentation, at full size (a quarter of an hour)
	PENSTOCK_DOCS=all $(VENV)/python -m pytest -q tests/system/project/test_docs_blocks.py $(PYTEST_ARGS)

# FAULTS_ARGS: some benches, --count, --seed, --jobs, --seconds; of service_tenants --only and --folder, too.
faults: setup  ## disturb penstock: kills, damaged files and bytes, hostile requests, random programs and simulations, the service (two hours)
	$(VENV)/python tests/faults $(FAULTS_ARGS)

# MUTANTS_ARGS: some rooms, --seed, --count, --near, --summary. What was tried stands in build/mutants.jsonl.
mutants: setup  ## change the source in forty places, one at a time, and see whether the tests find it (hours)
	$(VENV)/python tests/support/mutants.py $(MUTANTS_ARGS)

validation: setup  ## docs/studies/validation.md again: every published number beside ours (a minute)
	$(VENV)/python scripts/validation.py

pictures: setup demo chromium  ## docs/images/*.png again: the explorer and a report, as a browser shows them
	$(VENV)/python scripts/pictures.py

lock:  ## write requirements/*.txt again (UPGRADE=1: with the newest versions)
	scripts/lock.sh $(if $(filter-out 0,$(UPGRADE)),--upgrade)

clean:  ## delete what is built (not .venv, not runs/)
	rm -rf target site build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f src/penstock/_engine*.so .venv/.penstock/{core,client,studies}.stamp
	find src studies tests scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

clean-venv:  ## delete .venv; the next target makes it again
	rm -rf .venv
