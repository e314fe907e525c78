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
.PHONY: help install install-dev demo test check format bench clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/ -/'

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt $(PIP_ARGS) -e '.[text]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install -q -c constraints.txt $(PIP_ARGS) -e '.[text,executor,dev]'
	@touch $@

install: $(VENV)/.installed  ## create .venv and install what the commands need

install-dev: $(VENV)/.installed-dev  ## the same with the tools of the test suite

demo: install  ## the main job: compare every policy on the paper's 7B setting, in simulation
	$(BIN)/lobra compare experiment=paper_7b run_dir=$(RUN)

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
	$(BIN)/python benchmarks/bench_dispatch.py
	$(BIN)/python benchmarks/bench_simulator.py

clean:  ## remove what the commands made
	rm -rf $(VENV) runs outputs multirun .mypy_cache .ruff_cache .pytest_cache .hypothesis
