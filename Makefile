# The targets are the steps of continuous integration. Nothing is set up twice: stamp files remember what was done.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := deploy/local/requirements.lock
ONCE ?=

.DEFAULT_GOAL := help
.PHONY: help setup check test demo bench clean lock

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.artifacts ## Virtual environment, pinned Python packages, Kafka, Elasticsearch and connector

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, found " + sys.version.split()[0] + ": make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.packages: $(LOCK) $(VENV)/.created
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --require-hashes -r $(LOCK)
	@touch $@

$(VENV)/.kappa: pyproject.toml $(VENV)/.packages
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps -e .
	@touch $@

$(VENV)/.artifacts: deploy/local/ivy.xml deploy/local/artifacts.lock $(VENV)/.kappa
	$(BIN)/python -m apps.local.artifacts
	$(BIN)/python -m apps.local.class_archive
	$(BIN)/python -m models
	@touch $@

check: $(VENV)/.kappa ## Lint, format and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

test: setup ## All tests; they start their own Kafka, Elasticsearch and jobs
	$(BIN)/pytest $(ARGS)

demo: setup ## The whole chain on a simulated telecom cloud, until Ctrl-C; ONCE=1: judge it and end
	$(BIN)/kappa demo $(if $(ONCE),--once)

bench: bench-statistics_speed bench-novelty_speed ## All benchmarks of speed

bench-%: setup
	$(BIN)/python -m benchmarks.$* $(ARGS)

lock: $(VENV)/.packages ## Resolve the pinned versions anew (after a change of dependencies or ivy.xml)
	UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile --quiet --universal --no-annotate --generate-hashes \
	  --python-version 3.11 --extra dev pyproject.toml --output-file $(LOCK)
	$(BIN)/python -m apps.local.artifacts --lock

clean: ## Stop the local stack and remove everything built here; downloads stay in the cache
	-@test ! -x $(BIN)/kappa || { $(BIN)/kappa down --wipe; KAPPA_DATA_DIR=.kappa/demo $(BIN)/kappa down --wipe; }
	rm -rf $(VENV) .kappa .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
