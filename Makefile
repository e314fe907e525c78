# Two commands do everything on a machine with only Python >= 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
PIP_ARGS ?=
VENV := .venv
BIN := $(VENV)/bin

RUN := runs/demo
# One thread a process: on few cores, nested thread pools cost more than they give.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help install install-dev demo test check format bench faults clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/ -/'

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt $(PIP_ARGS) -e '.[text,executor]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install -q -c constraints.txt $(PIP_ARGS) -e '.[text,executor,dev]'
	@touch $@

install: $(VENV)/.installed  ## create .venv and install what the commands need

install-dev: $(VENV)/.installed-dev  ## the same with the tools of the test suite

demo: install  ## every policy on the paper's 7B setting in simulation; then a small real job, and what was predicted of it
	$(BIN)/lobra compare experiment=paper_7b run_dir=$(RUN)
	$(BIN)/lobra run backend=torch experiment=demo_executor steps=10 run_dir=$(RUN)-executor
	$(BIN)/lobra validate run=$(RUN)-executor run_dir=$(RUN)-validate

test: install-dev  ## the whole test suite
	$(BIN)/python -m pytest -q -n 2 --dist loadfile

check: install-dev  ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install-dev  ## rewrite the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install  ## the benchmarks, one after another (minutes)
	@status=0; for each in planner simulator dispatch batching; do \
		$(BIN)/python benchmarks/bench_$$each.py || status=1; done; exit $$status

faults: install-dev  ## every kind of fault against real ranks, twenty of each; docs/faults.md (half an hour)
	$(BIN)/python benchmarks/faults.py --output docs/faults.md

clean:  ## remove what the commands made
	rm -rf $(VENV) runs outputs multirun .mypy_cache .ruff_cache .pytest_cache .hypothesis
