# Everything a newcomer needs: `make demo` and `make test` set up what they use.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo test test-fast lint format bench clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("fedslice needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@# pip 26 repeats, in a box, that an editable installation is one
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --editable '.[simulation,dev]'
	@touch $@

install: $(STAMP)  ## make the virtual environment

demo: $(STAMP)  ## FedPart on the embedded handwritten digits: about a minute; names the report
	$(BIN)/python -m app

test: $(STAMP) lint  ## lint, types and all tests, those with real Flower runtimes too
	$(BIN)/python -m pytest -m "slow or not slow"

test-fast: $(STAMP)  ## the tests that start no other process
	$(BIN)/python -m pytest -m "not slow"

lint: $(STAMP)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)  ## let ruff rewrite
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## ratios of time and bytes, each against a floor that it runs itself
	for file in benchmarks/bench_*.py; do $(BIN)/python $$file || exit 1; done

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
