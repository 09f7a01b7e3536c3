# make run: set up and open the monitor.  make test: set up and run every check.
# Both are safe to repeat: what is already done is not done again.

PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Tests run in two processes, a file in one of them; where there are GPUs in one, which has them to itself.
TEST_PROCESSES := $(if $(wildcard /dev/nvidia[0-9]*),0,2)

.PHONY: help setup run test lint format kernels bench screenshots clean
help:
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(STAMP)  ## make .venv, install pinned versions, fetch the embedded model
	@$(BIN)/specmon models fetch smollm2

run: setup  ## open the monitor on the embedded pair
	@$(BIN)/specmon

lint: $(STAMP)  ## formatting, lint, types, import directions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup lint  ## every check and the test suite
	$(BIN)/pytest -n $(TEST_PROCESSES) --dist loadfile --ignore tests/tmux
	$(BIN)/pytest tests/tmux

format: $(STAMP)  ## format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

kernels: $(STAMP)  ## compile every GPU kernel, without a GPU, and check what comes out (3 to 4 minutes)
	$(BIN)/specmon kernels check

bench: setup  ## the CPU benchmark against llama.cpp and Hugging Face
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[engine,bench]'
	$(BIN)/python tests/benchmarks/cpu_baselines.py

screenshots: $(STAMP)  ## the pictures of the README, from recordings that ship
	$(BIN)/python scripts/screenshots.py

clean:  ## remove .venv and caches; models and recordings stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing into $(VENV) (a few minutes, a few hundred MB)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[engine,dev]'
	@touch $@

$(BIN)/python:
	@scripts/make_venv.sh $(VENV) $(PYTHON)
