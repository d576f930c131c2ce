# Every target makes the environment that it needs; the second time that is quick.
#
# What is installed is pinned in requirements/, with hashes (`make lock` writes it). `make demo` needs
# the runtime alone, and whatever needs more adds to the same environment.
PYTHON ?= python3
OLDEST_PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
READY := $(VENV)/.ready
DOCS := $(VENV)/.docs
JAX_VENV := .venv-jax
JAX := $(JAX_VENV)/.ready
RAY_VENV := .venv-ray
RAY := $(RAY_VENV)/.ready
PEER_VENV := .venv-peers
PEERS := $(PEER_VENV)/.ready
OLDEST_VENV := .venv-oldest
OLDEST := $(OLDEST_VENV)/.ready
NEWEST_VENV := .venv-newest
NEWEST := $(NEWEST_VENV)/.ready
TOOLS_VENV := .venv-tools
TOOLS := $(TOOLS_VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: FORCE help demo docs test test-all test-jax test-ray test-oldest test-newest attack coverage check format bench \
	peers quality \
	statistics reproduce reproduce-quick lock audit clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

# For the recipe of ENVIRONMENT/.ready. Modules are compiled at the end, on all cores.
INSTALL = $(@D)/bin/python -m pip install --quiet --no-compile
INSTALL_PIP = $(INSTALL) --require-hashes -r requirements/pip.txt
INSTALL_RUNTIME = $(INSTALL) --require-hashes -r requirements/runtime.txt
INSTALL_LOCKED = $(INSTALL) --require-hashes -c requirements/development.txt
INSTALL_CALIBRANT = $(INSTALL) --no-deps --no-build-isolation --editable .
INSTALL_PAPERS = $(INSTALL) --no-deps --no-build-isolation --editable ./papers
FINISH = @$(@D)/bin/python -m compileall -qq -j 0 $(@D)/lib || true; touch $@

# The demo imports few modules: they need not be compiled before.
$(RUNTIME): pyproject.toml requirements/runtime.txt
	$(PYTHON) -m venv $(@D)
	$(INSTALL_RUNTIME)
	$(INSTALL_CALIBRANT)
	@touch $@

# A build of torch that lies on this machine (pip's find-links) is taken where the lock knows it:
# without CUDA it is a tenth of the index's.
$(READY): $(RUNTIME) papers/pyproject.toml requirements/development.txt
	$(INSTALL_PIP)
	@$(INSTALL_LOCKED) --no-index --no-deps --group torch 2>/dev/null || true
	$(INSTALL_LOCKED) --group test --group check
	$(INSTALL_PAPERS)
	$(FINISH)

$(DOCS): $(RUNTIME) requirements/development.txt
	$(INSTALL_PIP)
	@$(INSTALL_LOCKED) --no-index --no-deps --group torch 2>/dev/null || true
	$(INSTALL_LOCKED) --group docs
	$(FINISH)

# Peers bring heavy and old dependencies: they have an environment of their own, without a lock.
$(PEERS): pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(INSTALL_PIP)
	$(INSTALL) --group peers --editable .
	# Its metadata asks for Python 3.12; its code runs on 3.11.
	$(INSTALL) --no-deps --ignore-requires-python "dirichletcal>=0.5.3"
	$(FINISH)

$(JAX): pyproject.toml requirements/development.txt
	$(PYTHON) -m venv $(@D)
	$(INSTALL_PIP)
	$(INSTALL_RUNTIME)
	$(INSTALL_LOCKED) --group jax
	$(INSTALL_CALIBRANT)
	$(FINISH)

$(RAY): pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(INSTALL_PIP)
	$(INSTALL) --group ray --editable .
	$(FINISH)

$(OLDEST): pyproject.toml papers/pyproject.toml tools/floors.py
	$(OLDEST_PYTHON) -m venv $(@D)
	$(INSTALL_PIP)
	$(@D)/bin/python tools/floors.py > $(@D)/floors.txt
	$(INSTALL) -r $(@D)/floors.txt
	$(INSTALL_CALIBRANT)
	$(INSTALL_PAPERS)
	$(FINISH)

$(NEWEST): FORCE  # what is newest may have changed
	$(PYTHON) -m venv $(@D)
	$(INSTALL) --upgrade "pip>=26.1"
	$(INSTALL) --upgrade --upgrade-strategy eager --group build --group test --editable . --editable ./papers
	$(FINISH)

$(TOOLS): requirements/development.txt
	$(PYTHON) -m venv $(@D)
	$(INSTALL_PIP)
	$(INSTALL_LOCKED) --group tools
	$(FINISH)

demo: $(RUNTIME)  ## calibrate real logits and compare the methods
	@$(BIN)/calibrant demo

test: $(READY)  ## run all tests but the slow ones
	@$(BIN)/python -m pytest -n auto -m "not slow"

test-all: $(READY)  ## run all tests
	@$(BIN)/python -m pytest -n auto

# Not part of .ci/run: tracing makes these tests several times slower.
coverage: $(READY)  ## branch coverage of formulas, of files of calibrators and of files of scores
	@$(BIN)/python -m pip install --quiet "coverage>=7.6"
	@$(BIN)/coverage run -m pytest -q -m "not slow" tests/formulas tests/data/scorefiles tests/attacks \
		tests/test_io.py tests/common/test_json.py
	@$(BIN)/coverage report --include="*/calibrant/formulas/*"
	@$(BIN)/coverage report \
		--include="*/io.py,*/common/json.py,*/profile/checks.py"
	@$(BIN)/coverage report --include="*/calibrant/data/scorefiles/*"

test-jax: $(JAX)  ## run the tests with JAX arrays, in an environment of their own
	@$(JAX_VENV)/bin/python -m pytest tests/backends/test_jax.py

test-ray: $(RAY)  ## run the tests on a local Ray cluster, in an environment of their own
	@$(RAY_VENV)/bin/python -m pytest tests/scale/test_ray.py tests/scale/streams

# Old packages use what newer ones below them deprecate: that is no news.
test-oldest: $(OLDEST)  ## run the tests with the lowest versions that pyproject.toml allows
	@$(OLDEST_VENV)/bin/python -m pytest -n auto -m "not slow" -W ignore::DeprecationWarning

test-newest: $(NEWEST)  ## run the tests with the newest versions there are, whatever the lock says
	@$(NEWEST_VENV)/bin/python -m pytest -n auto -m "not slow"

docs: $(DOCS)  ## build the documentation site into build/docs; warnings are errors
	@rm -rf docs/api/generated  # names that are no more
	@$(BIN)/python -m sphinx -q -W --keep-going -d build/doctrees docs build/docs
	@echo "build/docs/index.html"

attack: $(READY)  ## hostile files, odd arrays, kills and threads, for minutes
	@for program in attacks/attack_*.py; do echo "== $$program"; $(BIN)/python $$program || exit 1; done

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

peers: $(PEERS)  ## run scikit-learn's and MAPIE's own tests, and agreement with other packages; SUITES=names
	@$(PEER_VENV)/bin/python tests/peers/run.py $(SUITES)

quality: $(READY) $(PEERS)  ## the evidence for the defaults, on networks, tables and small problems; DATA=folder of .npz files
	@$(PEER_VENV)/bin/python benchmarks/automatic.py $(if $(DATA),--data $(DATA))
	@$(PEER_VENV)/bin/python benchmarks/automatic.py --times
	@$(BIN)/python benchmarks/quality.py $(if $(DATA),--data $(DATA)) $(QUALITY)
	@$(BIN)/python benchmarks/tabular.py
	@$(BIN)/python benchmarks/small.py

statistics: $(READY)  ## do the tests of calibration keep their level, and what do they find? STATISTICS=options
	@$(BIN)/python benchmarks/statistical.py $(STATISTICS)

reproduce: $(READY)  ## the paper's tables and figures, three seeds; OUT=folder, REPRODUCE=options
	@$(BIN)/calibrant reproduce --logits data --out $(or $(OUT),results/reproduction) $(REPRODUCE)

reproduce-quick: $(READY)  ## the same with one seed
	@$(BIN)/calibrant reproduce --quick --logits data --out $(or $(OUT),results/reproduction-quick) $(REPRODUCE)

lock: $(TOOLS)  ## pin what is installed, with hashes; LOCK=--upgrade for newer versions
	@$(TOOLS_VENV)/bin/python tools/lock.py $(LOCK)

audit: $(TOOLS)  ## look for known vulnerabilities in what is pinned; AUDIT=options of pip-audit
	@$(TOOLS_VENV)/bin/python tools/audit.py $(AUDIT)

clean:  ## remove the environments, the site and all caches
	rm -rf $(VENV) $(PEER_VENV) $(JAX_VENV) $(RAY_VENV) $(OLDEST_VENV) $(NEWEST_VENV) $(TOOLS_VENV) dist \
		build docs/api/generated docs/auto_gallery \
		.pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage
