# Each target makes .venv and installs what it needs when that is missing or outdated.
PYTHON ?= python3
BIN := .venv/bin
JOBS ?= 3
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help run test programs screenshots lint format bench chaos mutants requirements clean
.DEFAULT_GOAL := help

help:
	@echo "make run     start Botpool with its own PostgreSQL and a simulated Coolify"
	@echo "make test    run the whole test suite"
	@echo "make lint    formatter, linter, types, import rules, migrations check"
	@echo "make bench   benchmarks, each a ratio against a reference run beside it"
	@echo "make screenshots  pictures of every page into screenshots/"
	@echo "make chaos   SEED=1 MINUTES=5: a fleet of bots while everything is killed and broken"
	@echo "make mutants take out every guard once: a test has to notice"
	@echo "make format  rewrite the code in the project's format"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Botpool needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "Python's venv module is missing. On Debian or Ubuntu: apt-get install python3-venv"; exit 1; }

.venv/.installed: requirements.txt | $(BIN)/python
	@echo "Installing what Botpool needs (once) ..."
	@$(BIN)/pip install --quiet --require-hashes -r requirements.txt
	@touch $@

.venv/.installed-dev: requirements-dev.txt | $(BIN)/python
	@echo "Installing the development tools (once) ..."
	@$(BIN)/pip install --quiet --require-hashes -r requirements-dev.txt
	@touch $@ .venv/.installed

run: .venv/.installed
	@$(BIN)/python manage.py up

# Several at once, each with a PostgreSQL of its own: most tests wait more than they work.
test: .venv/.installed-dev programs
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(ARGS)

# For the tests with a browser, PgBouncer, Redis and hosts of their own: installed where that is
# possible; elsewhere those tests are skipped and say what they lack.
PROGRAMS := chromium pgbouncer redis-server ip
PACKAGES := chromium pgbouncer redis-server iproute2
programs:
	@missing=; for program in $(PROGRAMS); do \
		PATH=$$PATH:/usr/sbin:/sbin command -v $$program >/dev/null || missing="$$missing $$program"; \
	done; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing for the tests (once):$$missing ..."; \
		{ apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(PACKAGES); } >/dev/null 2>&1 \
		|| echo "They could not be installed: the tests that need them are skipped"; \
	fi

# Every page, light and dark, wide and narrow, empty and full, into screenshots/.
screenshots: .venv/.installed-dev programs
	@$(BIN)/python -m pytest -q -p no:randomly tests/browser/pictures.py

lint: .venv/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run
	@$(BIN)/python ops/audit.py
	BOTPOOL_PUBLIC_URL=https://botpool.example $(BIN)/python manage.py check --deploy --fail-level WARNING

format: .venv/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/.installed-dev
	@$(BIN)/python -m bench $(ARGS)

SEED ?= 1
MINUTES ?= 5
chaos: .venv/.installed-dev
	@$(BIN)/python -m tests.chaos --seed $(SEED) --minutes $(MINUTES) $(ARGS)

mutants: .venv/.installed-dev
	@$(BIN)/python -m tests.chaos.mutations $(ARGS)

# Pins every dependency, with hashes and without naming an index.
requirements: | $(BIN)/python
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --python-version 3.11 --universal --generate-hashes --no-header pyproject.toml -o requirements.txt
	$(BIN)/uv pip compile --quiet --python-version 3.11 --universal --generate-hashes --no-header pyproject.toml --group dev -c requirements.txt -o requirements-dev.txt

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
