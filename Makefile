# Needs Python 3.11 or later, git and make. Everything else is fetched once per machine; see tools/environment.py.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
RUN := .venv/bin/python
# Most tests wait for something most of the time.
WORKERS ?= 4
SOAK_S ?= 1800
KUEUE_S ?= 300
SEED ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
BENCHES := bench-engine bench-sim bench-local bench-kube bench-train bench-intake bench-page

.PHONY: help venv venv-base demo test check coverage $(BENCHES) cluster soak operators support validate results pictures system clean

help: ## this list
	@$(or $(PYTHON),$(error $(NO_PYTHON))) tools/targets.py

venv: ## make or refresh .venv with everything the tests need
	@$(or $(PYTHON),$(error $(NO_PYTHON))) tools/environment.py base train adapters frameworks

venv-base: ## the same without what jobs bring (torch, JAX, Dask)
	@$(or $(PYTHON),$(error $(NO_PYTHON))) tools/environment.py base

define NO_PYTHON
Python 3.11 or later was not found.
  try: apt install python3.11 python3.11-venv   (Debian, Ubuntu)
       dnf install python3.11                   (Fedora, RHEL)
       make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)
endef

demo: venv-base ## one minute on eight made-up devices: real gangs, promises, repairs, the page
	@$(call script,examples/demo.py)

check: venv ## style, types, import layers, links, shape
	@$(RUN) tools/check.py

test: venv check ## check, then every test
	@tools/system --quiet
	@$(RUN) tools/control_plane/build.py > /dev/null || true
	@$(RUN) -m pytest -q -n $(WORKERS) --dist worksteal

coverage: venv ## which lines no test reaches
	@$(RUN) -m coverage run -m pytest -q $(ARGS)
	@$(RUN) -m coverage report --skip-covered --show-missing

$(BENCHES): venv ## figures against their goals; the last line is JSON
	@$(call script,bench/$(patsubst bench-%,%,$@).py)

cluster: venv-base ## a real API server with made-up nodes, to try things out
	@$(RUN) -m tools.control_plane.run $(ARGS)

soak: venv ## the promises over 100,000 worlds each, training through 1,000 blows, half an hour of one box, and of a cluster; SEED=n repeats
	@test -d tests/promises || { echo "make soak: not there yet (tests/promises)"; exit 1; }
	@echo "soak: SEED=$(SEED)"
	@$(RUN) -m pytest -q -n $(WORKERS) --timeout 0 --hypothesis-profile soak --hypothesis-seed $(SEED) tests/promises
	@TUTTI_STORM=1000 TUTTI_STORM_SEED=$(SEED) $(RUN) -m pytest -q --timeout 0 tests/train/test_storm.py
	@$(RUN) -m tests.local.meeting 20
	@$(RUN) -m tests.local.soak $(SOAK_S) $(SEED)
	@$(RUN) bench/kube_soak.py $(SOAK_S) $(SEED)

operators: venv-base ## real operators of others beside us (built once, some minutes): jobs of Kubeflow, then KUEUE_S seconds of Kueue
	@$(RUN) bench/operators.py $(ARGS)
	@$(RUN) bench/kueue.py $(KUEUE_S)

support: venv ## what training supports, from the tests that pass; rewrites the page
	@log=$$(mktemp); TUTTI_SUPPORT=$$log $(RUN) -m pytest -q -n $(WORKERS) tests/train || true; \
		$(RUN) -m tests.train.support $$log; rm -f $$log

validate: venv-base ## published results reproduced; fails below its marks
	@$(call script,bench/validate.py)

results: venv-base ## our own results, played anew; rewrites the page
	@page=$$(mktemp); $(RUN) bench/results.py $(ARGS) > $$page && cp $$page docs/explanation/results.md; rm -f $$page

pictures: venv-base ## the pictures of the page in the documentation
	@$(RUN) tools/pictures.py

system: ## Debian packages that some tests use
	@tools/system

clean: ## remove what was made in this clone; cached layers stay
	@rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist htmlcov .coverage*
	@find src tests tools bench examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

script = if test -f $(1); then $(RUN) $(1) $(ARGS); else echo "make $@: not there yet ($(1))"; exit 1; fi
