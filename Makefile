# Every target makes the environment that it needs; the second time that is quick.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
JAX_VENV := .venv-jax
JAX := $(JAX_VENV)/.ready
PEER_VENV := .venv-peers
PEERS := $(PEER_VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-jax coverage check format bench quality reproduce reproduce-quick clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --group test --group check --editable .
	@touch $@

# Peers bring heavy and old dependencies: they have an environment of their own.
$(PEERS): pyproject.toml
	$(PYTHON) -m venv $(PEER_VENV)
	$(PEER_VENV)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(PEER_VENV)/bin/python -m pip install --quiet --group peers --editable .
	# Its metadata asks for Python 3.12; its code runs on 3.11.
	$(PEER_VENV)/bin/python -m pip install --quiet --no-deps --ignore-requires-python "dirichletcal>=0.5.3"
	@touch $@

$(JAX): pyproject.toml
	$(PYTHON) -m venv $(JAX_VENV)
	$(JAX_VENV)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(JAX_VENV)/bin/python -m pip install --quiet --group jax --editable .
	@touch $@

demo: $(READY)  ## calibrate real logits and compare the methods
	@$(BIN)/calibrant demo

test: $(READY)  ## run all tests but the slow ones
	@$(BIN)/python -m pytest -n auto -m "not slow"

test-all: $(READY)  ## run all tests
	@$(BIN)/python -m pytest -n auto

# Not part of .ci/run: tracing makes these tests several times slower.
coverage: $(READY)  ## branch coverage of formulas, of files of calibrators and of files of scores
	@$(BIN)/coverage run -m pytest -q -m "not slow" tests/formulas tests/scorefiles tests/attacks \
		tests/test_io.py tests/test_container.py tests/test_json.py tests/test_golden_files.py
	@$(BIN)/coverage report --include="*/calibrant/formulas/*,*/calibrant/_curves.py"
	@$(BIN)/coverage report \
		--include="*/io.py,*/_container.py,*/_parts.py,*/_json.py,*/_profile_checks.py"
	@$(BIN)/coverage report --include="*/calibrant/scorefiles/*"

test-jax: $(JAX)  ## run the tests with JAX arrays, in an environment of their own
	@$(JAX_VENV)/bin/python -m pytest tests/test_jax.py

check: $(READY)  ## format, lint, types, docstrings, import contract
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/python tools/check_docstrings.py
	$(BIN)/lint-imports

format: $(READY)  ## format and fix what can be fixed
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: $(PEERS)  ## time the main jobs and all methods, beside peers, as ratios within one run
	@$(PEER_VENV)/bin/python benchmarks/run.py

quality: $(READY)  ## the evidence for the default of PTS; DATA=folder of .npz files
	@$(BIN)/python benchmarks/quality.py $(if $(DATA),--data $(DATA)) $(QUALITY)

reproduce: $(READY)  ## the paper's tables and figures, three seeds; OUT=folder, REPRODUCE=options
	@$(BIN)/calibrant reproduce --logits data --out $(or $(OUT),results/reproduction) $(REPRODUCE)

reproduce-quick: $(READY)  ## the same with one seed
	@$(BIN)/calibrant reproduce --quick --logits data --out $(or $(OUT),results/reproduction-quick) $(REPRODUCE)

clean:  ## remove the environment and all caches
	rm -rf $(VENV) $(PEER_VENV) $(JAX_VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage dist
