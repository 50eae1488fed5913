# Each target creates .venv, and installs what it needs if that is missing or out of date.
# The text after `##` is what `make help` prints.
PYTHON ?= python3
BIN := .venv/bin
JOBS ?= 4
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Tests start hundreds of processes: without compiled modules, each would compile them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test programs screenshots lint format bench image-test typescript-test setup chaos scale matrix mutants requirements clean
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Botpool needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "Python's venv module is missing. On Debian or Ubuntu: apt-get install python3-venv"; exit 1; }

.venv/.installed: requirements.txt | $(BIN)/python
	@echo "Installing Botpool's dependencies (once) ..."
	@$(BIN)/pip install --quiet --require-hashes -r requirements.txt
	@touch $@

.venv/.installed-dev: requirements-dev.txt | $(BIN)/python
	@echo "Installing the development tools (once) ..."
	@$(BIN)/pip install --quiet --require-hashes -r requirements-dev.txt
	@touch $@ .venv/.installed

run: .venv/.installed ## start Botpool with its own PostgreSQL and a simulated Coolify
	@$(BIN)/python manage.py up

setup: .venv/.installed ## ask for what a real Coolify needs, test it, and write .env
	@$(BIN)/python manage.py setup

# In parallel, each process with its own PostgreSQL: most tests spend their time waiting.
test: .venv/.installed-dev programs ## run the whole test suite; ARGS="-k queue" for some of it
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(ARGS)

# Some tests need a browser, PgBouncer, Redis or network namespaces. Without these programs they
# are skipped and say what is missing. The browser without windows takes half of the CPU time;
# where there is none (Ubuntu), it is the whole one.
PROGRAMS := pgbouncer redis-server ip
PACKAGES := pgbouncer redis-server iproute2
BROWSER = $$(apt-cache show chromium-headless-shell >/dev/null 2>&1 && echo chromium-headless-shell || echo chromium)
programs: ## install the programs that some tests need (as root, with apt-get)
	@has() { PATH=$$PATH:/usr/sbin:/sbin command -v "$$1" >/dev/null; }; missing=; \
	has chromium-headless-shell || has chromium || missing=" chromium"; \
	for program in $(PROGRAMS); do has $$program || missing="$$missing $$program"; done; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && has apt-get; then \
		echo "Installing for the tests (once):$$missing ..."; \
		{ apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
			apt-get install -y -qq --no-install-recommends $(PACKAGES) $(BROWSER); } >/dev/null 2>&1 \
		|| echo "Could not install them: the tests that need them will be skipped"; \
	fi

screenshots: .venv/.installed-dev programs ## save pictures of every page to screenshots/
	@$(BIN)/python -m pytest -q -p no:randomly tests/browser/pictures.py

lint: .venv/.installed-dev ## check format, lint, types, imports, migrations and vulnerabilities
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file clients/python/pyproject.toml clients/python/src
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run
	@$(BIN)/python ops/audit.py
	BOTPOOL_PUBLIC_URL=https://botpool.example $(BIN)/python manage.py check --deploy --fail-level WARNING

format: .venv/.installed-dev ## format the code and apply safe lint fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/.installed-dev ## run the benchmarks, each against a reference; ARGS=acquire for one
	@$(BIN)/python -m bench $(ARGS)

image-test: .venv/.installed-dev ## build the image with buildah and run every process from it (as root)
	@$(BIN)/python -m tests.image

typescript-test: .venv/.installed ## generate the TypeScript client and check its example (node, npm)
	@$(BIN)/python manage.py export_openapi_schema --api api.application.api --output clients/typescript/openapi.json
	cd clients/typescript && npm install --no-package-lock --no-audit --no-fund --silent && npm run generate && npm run check

SEED ?= 1
MINUTES ?= 5
AT_ONCE ?= 1
chaos: .venv/.installed-dev ## run bots while everything is killed and broken; SEED=1 or SEEDS=1-20 AT_ONCE=2
	@$(BIN)/python -m tests.chaos $(if $(SEEDS),--seeds $(SEEDS) --at-once $(AT_ONCE),--seed $(SEED)) --minutes $(MINUTES) $(ARGS)

scale: .venv/.installed-dev ## simulate a day of 10,000 slots on 60 servers, in ten minutes
	@$(BIN)/python -m bench.simulated_day $(ARGS)

matrix: .venv/.installed-dev programs ## the core of the suite on each supported Python and PostgreSQL
	@$(BIN)/python -m tests.matrix $(ARGS)

mutants: .venv/.installed-dev ## remove each safeguard in turn: a test must fail
	@$(BIN)/python -m tests.chaos.mutations $(ARGS)

# With hashes, and without naming a package index.
requirements: | $(BIN)/python ## pin every dependency in requirements*.txt
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --python-version 3.11 --universal --generate-hashes --no-header pyproject.toml -o requirements.txt
	$(BIN)/uv pip compile --quiet --python-version 3.11 --universal --generate-hashes --no-header pyproject.toml --group dev -c requirements.txt -o requirements-dev.txt
	echo redis | $(BIN)/uv pip compile --quiet --python-version 3.11 --universal --generate-hashes --no-header --no-annotate -c requirements-dev.txt - -o ops/requirements-redis.txt

clean: ## delete .venv and the tools' caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
