PYTHON ?= python3
BIN := .venv/bin
RUNTIME := .venv/runtime
TESTING := .venv/testing
STAMP := .venv/installed
# Python compiles a module when it is first imported, and most of torch and transformers never is. Where it is told not
# to keep what it compiled (images often say so), every start would take seconds more: the first run here keeps it.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt
KVPRESS := 0.5.5

.PHONY: help setup quickstart check test extras docs browser pictures screenshots bench kvpress-compare kvpress-test reproduce report clean

help: ## what the targets do
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: $(STAMP) ## build .venv with the package and its tools

$(RUNTIME): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "keepset needs Python 3.11 or newer, got %d.%d" % sys.version_info[:2])'
	$(PYTHON) -m venv .venv
	$(INSTALL) --editable .
	@touch $(RUNTIME)

$(TESTING): $(RUNTIME)
	$(INSTALL) --editable '.[test]'
	@touch $(TESTING)

$(STAMP): $(RUNTIME)
	$(INSTALL) --editable '.[dev]'
	@touch $(TESTING) $(STAMP)

quickstart: $(RUNTIME) ## the main job on the embedded default; the tools for tests and documents are not needed
	$(BIN)/keepset quickstart

check: setup ## ruff and mypy
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/mypy

test: ## the whole test suite
	@$(MAKE) --no-print-directory --jobs 2 $(TESTING) browser
	$(BIN)/pytest -rs --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

extras: setup ## Ray, LlamaIndex, Haystack and the tools keepset is compared with, so that nothing of theirs is skipped in make test
	$(INSTALL) --editable '.[ray,llama-index,haystack,peers]'

browser: ## Chromium for the tests of the page, on Debian as root; elsewhere they are skipped without it
	@command -v chromium > /dev/null || { test "$$(id -u)" = 0 && command -v apt-get > /dev/null \
	  && apt-get -qq update && apt-get -qq install --yes --no-install-recommends chromium > /dev/null; } \
	  || echo "no Chromium, and none could be installed: the tests that need a browser are skipped"

screenshots: setup browser ## the pictures of docs/explore.md into docs/images
	$(BIN)/python -m tests.explore.screenshots docs/images

docs: setup ## the documentation site, into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

pictures: setup browser ## the picture of an explanation, into docs/images
	mkdir -p build/pictures
	$(BIN)/keepset explain --context docs/examples/harbour.txt --question "When was the lighthouse lit for the first time?" --html build/pictures/explain.html
	$(BIN)/python -m tests.explain.picture build/pictures/explain.html docs/images/explain.png

bench: setup ## benchmarks (not tests; timings depend on the machine)
	$(BIN)/keepset bench engine

kvpress-compare: setup ## kvpress's KVzip on the documents of fact-sheets, in an environment of its own
	test -x .venv-kvpress/bin/python || $(PYTHON) -m venv .venv-kvpress
	.venv-kvpress/bin/python -m pip install --quiet kvpress==$(KVPRESS) $(shell grep '^torch==' constraints.txt)
	KVPRESS_PYTHON=.venv-kvpress/bin/python $(BIN)/keepset bench kvpress

kvpress-test: ## our router as a press, and our scores beside kvpress's own, in that environment
	test -x .venv-kvpress/bin/python || $(PYTHON) -m venv .venv-kvpress
	.venv-kvpress/bin/python -m pip install --quiet kvpress==$(KVPRESS) $(shell grep '^torch==' constraints.txt) pytest pytest-timeout hypothesis --editable .
	OMP_NUM_THREADS=1 .venv-kvpress/bin/python -m pytest tests/integrations/test_kvpress.py

reproduce: setup ## every result of the paper that is missing
	$(BIN)/keepset reproduce

report: setup ## tables and figures from results/ into docs/results/
	$(BIN)/keepset report

clean:
	rm -rf .venv site build .mypy_cache .ruff_cache .pytest_cache
