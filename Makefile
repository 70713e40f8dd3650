# `make run` is everything: it installs what is missing and fine-tunes the embedded model. `make help` lists the rest.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The parts of the tests, the longest first; whoever is done takes the next. A run is made once for all
# tests of a part. What no part names is in the last one.
PARTS := graph crash agents tools matrix sandboxes rest
tests_graph := tests/graph tests/mcp_servers
tests_crash := tests/crash
tests_agents := tests/agents tests/engines
tests_matrix := tests/tools/matrix tests/tools/models tests/tools/training
tests_tools := tests/tools $(addprefix --ignore=,$(tests_matrix))
tests_sandboxes := tests/sandboxes
tests_rest := tests $(addprefix --ignore=,$(tests_graph) $(tests_crash) $(tests_agents) tests/tools $(tests_sandboxes))
# Three for two cores: tests wait for other processes, those of sandboxes and kills most of their time.
BESIDE := $(MAKE) --no-print-directory --keep-going --output-sync=target --jobs=3
FAST := not slow and not soak
SLOW := slow and not soak and not engines
# Other processes, kernels and clocks take part: what fails is run once more, and the summary names it.
PYTEST := $(BIN)/pytest --durations=15 -p no:cacheprovider --reruns 1 -rR
HASHED := -q --require-hashes --no-deps --no-build-isolation
UV_INSTALL := $(BIN)/python -I tools/engines/run_uv.py pip install --compile-bytecode $(HASHED)

export PYTHONSAFEPATH := 1
export OMP_NUM_THREADS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONDONTWRITEBYTECODE  # what is compiled once serves every process of the tests

.DEFAULT_GOAL := help
.PHONY: run test fast engines slow check style types bench bench-planner bench-tools platforms real real-matrix gpu soak crash-soak clean help install \
  asked sandbox postgres slurm audit sbom wheel

run: install sandbox  ## install what is missing, then fine-tune the embedded model: three experiments
	$(BIN)/tuneloop run --benchmark wordproblems --base-model tiny --loop-n 3

test: style sandbox postgres  ## style, types, layers, the fast tests and a short real run
	$(BESIDE) engines $(addprefix fast-,$(PARTS)) types

fast: install sandbox postgres  ## the fast tests alone: no engine, no container
	$(BESIDE) $(addprefix fast-,$(PARTS))

slow: install sandbox postgres slurm $(VENV)/ray/installed $(VENV)/audit/installed  ## long tests on real engines, the short crash suite
	$(BESIDE) $(addprefix slow-,$(PARTS))

fast-%:
	$(PYTEST) -m "$(FAST)" $(tests_$*)

slow-%:
	$(PYTEST) -m "$(SLOW)" $(tests_$*)

engines:  # one run, and what reads it or the sources of an engine
	$(PYTEST) -m "engines and not soak" $(tests_graph) tests/tools

check: style types  ## ruff, ruff format, import-linter, mypy --strict

style: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: install
	$(BIN)/mypy

bench: install sandbox  ## measure: time, memory and scores against the naive recipe and the oracle
	$(BIN)/python benchmarks/run.py

bench-planner: install sandbox  ## regret of random search, TPE, the offline policy and, with CHAT_MODEL, a chat model
	$(BIN)/python benchmarks/planner_bench.py

bench-tools: install  ## is the right tool picked? by words, or by the model that CHAT_MODEL names
	$(BIN)/python benchmarks/tool_choice.py

platforms: install sandbox  ## make run and make test in a Debian 13 of its own: root, debootstrap, an hour
	$(BIN)/python tests/platforms.py

real: install sandbox  ## SmolLM2 on three tasks of reasoning-gym, into benchmarks/out/real.json: 75 minutes
	$(BIN)/python benchmarks/real.py

real-matrix: install sandbox  ## chat templates in training and evaluation, on a pretrained model (docs/matrix.md)
	$(BIN)/tuneloop matrix --task 'rg:chain_sum?min_terms=2&max_terms=3&max_digits=2' --base-model smollm2 \
	  --config examples/real_matrix --parallel 2

gpu:  ## what only a GPU shows, with the torch of this machine's python, into benchmarks/out/gpu.json: 9 minutes
	$(PYTHON) benchmarks/gpu.py

soak: crash-soak  ## 150 kills, whole runs: three seeds and a task whose data mislead the first plan; then an hour of the planner bench's real runs
	for seed in 1 2 3; do \
	  $(BIN)/tuneloop run --benchmark wordproblems --base-model tiny --loop-n 3 --seed $$seed || exit; \
	done
	$(BIN)/python examples/own_task/make.py
	$(BIN)/tuneloop run --benchmark examples/own_task/benchmark --dataset examples/own_task/data --base-model tiny --loop-n 3
	$(BIN)/python benchmarks/planner_bench.py --collect 60 --minutes 60

crash-soak: install sandbox postgres
	$(BIN)/python tests/crash/soak.py
	HYPOTHESIS_PROFILE=soak $(BIN)/pytest -m soak
	HYPOTHESIS_PROFILE=soak $(BIN)/pytest -q tests/tools/config/test_check_mutations.py tests/agents/policy

install: asked $(VENV)/installed  ## the environment .venv from locks/main.txt

# An environment keeps the Python that made it: another one that is named is not passed over in silence.
VERSION := -c 'import sys; print(*sys.version_info[:2], sep=".")'
asked:
ifneq ($(origin PYTHON),file)
	@[ ! -e $(VENV)/python ] || [ "$$($(BIN)/python $(VERSION))" = "$$($(PYTHON) $(VERSION))" ] \
	  || { echo "$(VENV) is of another Python than $(PYTHON): rm -r $(VENV), then again" >&2; exit 2; }
endif

$(VENV)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null \
	  || { echo "$(PYTHON) is no Python 3.11 to 3.14: name one (make PYTHON=python3.13 run); if there is none," \
	    "uv python install 3.13 && make PYTHON=\"\$$(uv python find 3.13)\" run" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV) \
	  || { echo "no venv: on Debian, apt-get install python3-venv" >&2; exit 2; }
	touch $@

$(VENV)/locked: locks/build.txt locks/main.txt | $(VENV)/python
	$(BIN)/pip install $(HASHED) -r locks/build.txt
	$(UV_INSTALL) --python $(BIN)/python -r locks/main.txt
	touch $@

$(VENV)/installed: $(VENV)/locked pyproject.toml src/tuneloop/__init__.py
	$(BIN)/pip install -q --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q agents cli core graph mcp_servers prompts sandboxes tools ui  # not on a disk that is full by then
	touch $@

AUDIT := $(VENV)/audit

audit: $(AUDIT)/installed  ## known vulnerabilities of every lock; exit 3 where no source of advisories answers: that is no pass
	env -u PYTHONSAFEPATH $(AUDIT)/bin/python locks/audit.py

sbom: $(AUDIT)/installed  ## what everything is made of, as CycloneDX in dist/sbom: the same bytes every time
	env -u PYTHONSAFEPATH $(AUDIT)/bin/python locks/sbom.py dist/sbom

$(VENV)/audit/installed $(VENV)/ray/installed: $(VENV)/%/installed: locks/%.txt | $(VENV)/locked
	$(BIN)/python -m venv $(VENV)/$*
	$(UV_INSTALL) --python $(VENV)/$*/bin/python -r locks/$*.txt
	touch $@

wheel: install  ## the wheel in dist: the same bytes every time
	$(BIN)/python -m build --no-isolation --wheel --outdir dist

sandbox:  ## bubblewrap, which shuts generated code in; installed where this user may
	@if command -v bwrap >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  { apt-get install -y -q bubblewrap || { apt-get update -q && apt-get install -y -q bubblewrap; }; } >/dev/null; \
	else \
	  echo "bubblewrap is missing: install it (Debian: sudo apt-get install bubblewrap), or add --allow-unsandboxed" >&2; \
	  exit 2; \
	fi

postgres:  ## a PostgreSQL server's programs, for the tests of its checkpointer
	@if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  { apt-get install -y -q --no-install-recommends postgresql \
	    || { apt-get update -q && apt-get install -y -q --no-install-recommends postgresql; }; } >/dev/null; \
	else \
	  echo "PostgreSQL's programs are missing: install them (Debian: sudo apt-get install postgresql)" >&2; \
	  exit 2; \
	fi

slurm:  # Slurm's daemons, for the tests of its executor, which are skipped without them
	@if command -v sbatch >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then :; else \
	  { apt-get install -y -q --no-install-recommends slurm-wlm munge \
	    || { apt-get update -q && apt-get install -y -q --no-install-recommends slurm-wlm munge; }; } >/dev/null; \
	fi

clean:  ## remove environments, caches and builds; runs and models in FT_FILE_PATH stay
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .langgraph_api
	rm -rf .test_home
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):[^#]*## */  make \1\t/' | expand -t 22
