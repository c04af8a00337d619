PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt
PYTEST := $(BIN)/pytest -q
WORKERS ?= 2
QUEEN_MQ := .venv-queen-mq
# Planted defects show that the tests notice; once is enough for that.
ON_16 := tests/engine tests/sql -k "not planted and not without_the_rule"

.PHONY: help venv run test lint bench docs screenshots test-scale torture soak mutants clean

help:           ## show what there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(STAMP)-test: $(STAMP)
	$(PIP) -e '.[spark,test]'
	@touch $@

$(STAMP)-bench: $(STAMP)-test
	$(PIP) -e '.[bench]'
	@touch $@

$(QUEEN_MQ)/.stamp: tests/conformance/requirements.txt
	$(PYTHON) -m venv $(QUEEN_MQ)
	$(QUEEN_MQ)/bin/python -m pip --disable-pip-version-check install --quiet -r $<
	@touch $@

venv: $(STAMP)          ## make the virtual environment with what Queen needs to run

run: $(STAMP)           ## start the broker, with an embedded PostgreSQL unless QUEEN_DATABASE_URL is set
	$(BIN)/queen serve

lint: $(STAMP)-test     ## style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: $(STAMP)-test $(QUEEN_MQ)/.stamp  ## everything CI runs
	@scripts/install-debian pgbouncer:pgbouncer curl:curl chromium:chromium
	@$(MAKE) --no-print-directory lint
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "not scale and not measure"
	QUEEN_TEST_PG_MAJOR=16 $(PYTEST) -n $(WORKERS) --dist worksteal -m "not scale and not measure" $(ON_16)
	$(PYTEST) -n 0 -m "measure and not scale" || [ $$? -eq 5 ]

test-scale: $(STAMP)-test  ## the full-size runs; takes long
	$(PYTEST) -n 0 -m scale --timeout 7200

torture: $(STAMP)-test  ## everything at once while everything breaks, for three minutes; SEED=n and SECONDS=n repeat a run
	$(BIN)/python -m torture $(if $(SEED),--seed $(SEED)) --seconds $(or $(SECONDS),180) $(TORTURE)

soak: $(STAMP)-bench    ## the same for an hour, with a picture of memory, tables and latency
	$(BIN)/python -m torture --soak $(if $(SEED),--seed $(SEED)) --seconds $(or $(SECONDS),3600) --shrink 0 $(TORTURE)

mutants: $(STAMP)-test  ## plant every defect of the list in a copy, and see that its tests notice; goes on where it was
	$(BIN)/python -m tests.mutants --clean --widely

bench: $(STAMP)-bench   ## the benchmarks
	$(BIN)/python bench/engine.py

screenshots: $(STAMP)-test  ## pictures of every page of the dashboard into docs/images/dashboard
	@scripts/install-debian chromium:chromium
	$(BIN)/python scripts/screenshots.py

docs: $(STAMP)          ## write the generated reference pages
	$(BIN)/python scripts/settings_page.py
	$(BIN)/python scripts/sync_client.py
	$(BIN)/python scripts/cli_page.py
	$(BIN)/python scripts/durable_page.py
	$(BIN)/python scripts/sql_page.py
	$(BIN)/python scripts/options_page.py

clean:                  ## remove what make made; your data in .queen stays
	rm -rf $(VENV) $(QUEEN_MQ) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .mutants
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
