# Every target makes the environment that it needs; the second time that is quick.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check format bench clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --group test --group check --editable .
	@touch $@

demo: $(READY)  ## calibrate real logits and compare the methods
	@$(BIN)/calibrant demo

test: $(READY)  ## run all tests but the slow ones
	@$(BIN)/python -m pytest -m "not slow"

test-all: $(READY)  ## run all tests
	@$(BIN)/python -m pytest

check: $(READY)  ## format, lint, types, import contract
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)  ## format and fix what can be fixed
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: $(READY)  ## time the main jobs, as ratios within one run
	@$(BIN)/python benchmarks/run.py

clean:  ## remove the environment and all caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist
