# Every target makes its own environment first, so that each works as the first command on a fresh machine.
# `uv` is used if it is there; Python's own venv and pip otherwise.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
UV     := $(shell command -v uv)
VENV   := .venv
BIN    := $(VENV)/bin
BENCH  := .venv-bench
SBOM   := .venv-sbom
SPARK  := .venv-spark
export UV_PYTHON_DOWNLOADS = never
# Two test processes share two cores: threads of the linear algebra would only wait for each other.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
export PYTHONDONTWRITEBYTECODE =

# $(call install,environment,requirements): the hashed requirements, then hubbub itself, in place.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "hubbub needs Python 3.11 or newer; set PYTHON=/path/to/python" >&2; exit 2; }
	@test -x $(1)/bin/python || $(if $(UV),$(UV) venv -q --python $(PYTHON) $(1),$(PYTHON) -m venv $(1))
	$(if $(UV),\
	$(UV) pip install -q --python $(1)/bin/python --require-hashes -r $(2) && $(UV) pip install -q --python $(1)/bin/python --no-deps --no-build-isolation -e .,\
	$(1)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r $(2) && $(1)/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .)
	@touch $@
endef

# $(call clean-install,environment,requirements,wheel): a new environment with the hashed requirements, if any, and the
# built wheel in it, and nothing else: neither pip nor anything of this folder.
define clean-install
	rm -rf $(1)
	$(if $(UV),$(UV) venv -q --python $(PYTHON) $(1),$(PYTHON) -m venv --without-pip $(1))
	$(if $(2),$(call pip-in,$(1)) install -q --require-hashes -r $(2))
	$(call pip-in,$(1)) install -q --no-deps --no-index dist/$(3)-*.whl
	$(call pip-in,$(1)) check
endef
pip-in = $(if $(UV),VIRTUAL_ENV=$(1) $(UV) pip,$(BIN)/python -m pip --disable-pip-version-check --python $(1)/bin/python)

.PHONY: help demo studio demo-browser examples notes test test-js test-browser test-long test-slow test-spark test-spark-slow test-all soak fuzz mutants check format bench bench-spark build sbom docs docs-check bench-docs bench-docs-spark lock clean
help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile

$(VENV)/.run: requirements/run.txt pyproject.toml
	$(call install,$(VENV),$<)
$(VENV)/.dev: requirements/dev.txt pyproject.toml
	$(call install,$(VENV),$<)
$(VENV)/.docs: requirements/docs.txt pyproject.toml
	$(call install,$(VENV),$<)
$(BENCH)/.bench: requirements/bench.txt pyproject.toml
	$(call install,$(BENCH),$<)
$(SPARK)/.spark: requirements/spark.txt pyproject.toml
	$(call install,$(SPARK),$<)

demo: $(VENV)/.run ## the main job, on synthetic people
	@$(BIN)/hubbub demo

studio: $(VENV)/.run ## the studio with a running collection: both services, and synthetic people whose answers drift; ARGS=--no-open
	@$(BIN)/python -m tools.demo_studio $(ARGS)

demo-browser: $(VENV)/.run ## answer one question in a web page, see the bits that leave, and watch the collection
	@$(BIN)/python -m tools.demo_browser

EXAMPLES := home-pages search-defaults tiles clicks search-queries telemetry crash-signatures
.PHONY: $(EXAMPLES:%=example-%)
examples: $(EXAMPLES:%=example-%) ## the applications at their full size, a page each: minutes
$(EXAMPLES:%=example-%): example-%: $(VENV)/.run ## one of them, such as example-home-pages
	$(BIN)/python -m examples.$(subst -,_,$*) -o hubbub-$*.html

notes: $(VENV)/.run ## every statement of the five research notes, recomputed, as hubbub-notes.html
	$(BIN)/python -m research.notes -o hubbub-notes.html

# Measuring branch coverage doubles the time; CI sets COVERAGE=1. The table goes into a file: it would bury a failure.
COVER = $(if $(COVERAGE),--cov --cov-append --cov-report=)
TOTAL = $(if $(COVERAGE),@mkdir -p build && $(BIN)/coverage report > build/coverage.txt && grep TOTAL build/coverage.txt)
# Tests in a browser run apart: Playwright keeps an event loop, beside which no other test can start one.
PAGES := tests/report tests/clients tests/studio
test: $(VENV)/.dev ## all tests but long and slow ones, and of those in a browser the essential ones; COVERAGE=1 measures branch coverage
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal -m "not long and not slow and not browser" $(COVER)
	$(TOTAL)
	$(BIN)/python -m pytest -m essential $(PAGES)

test-long: $(VENV)/.dev ## tests that take seconds each; CI runs them too
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal -m "long and not slow and not browser" $(COVER)
	$(TOTAL)

test-js: ## the JavaScript client in Node: types, vectors, coins, journal; needs Node 20 or newer with npm
	@tools/check_node.sh npm
	cd clients/js && npm install --silent --no-audit --no-fund --no-package-lock && npm run --silent types && npm test --silent

test-browser: $(VENV)/.dev ## in headless Chromium: pages (widths, colour schemes, print, accessibility) and the JavaScript client; CI runs them too
	$(BIN)/python -m pytest -m "browser and not slow" $(PAGES)

test-slow: $(VENV)/.dev test-spark-slow ## the slow ones, with those of the Spark engine in its environment
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal -m "slow and not browser"
	$(BIN)/python -m pytest -m "slow and browser" $(PAGES)

test-spark: $(SPARK)/.spark ## the Spark engine on this machine: minutes; needs Java 17 or newer
	@command -v java > /dev/null || { echo "make test-spark needs Java: apt-get install -y --no-install-recommends openjdk-17-jre-headless" >&2; exit 2; }
	$(ONE_THREAD) $(SPARK)/bin/python -m pytest tests/spark -m "not slow"

test-spark-slow: $(SPARK)/.spark ## a Spark cluster of two workers on loopback, whose executors are killed
	$(ONE_THREAD) $(SPARK)/bin/python -m pytest tests/spark -m slow

test-all: $(VENV)/.dev ## every test: the slow ones, those in a browser and those on PostgreSQL included
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal -m "not browser"
	$(BIN)/python -m pytest -m browser $(PAGES)
	$(MAKE) test-spark test-spark-slow

soak: $(VENV)/.dev ## both services, killed again and again under load: nothing lost, nothing twice
	$(BIN)/python -m benchmarks.soak --json

SECONDS ?= 60
fuzz: $(VENV)/.dev ## atheris on every parser, for SECONDS each
	$(BIN)/python -m fuzz --seconds $(SECONDS)

mutants: $(VENV)/.dev ## plant small faults one at a time, which tests must find; ARGS="--only checker --jobs 2"
	$(BIN)/python -m tools.mutants $(ARGS)

check: $(VENV)/.dev ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## rewrite the sources in the code style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(BENCH)/.bench $(VENV)/.dev ## tightness and throughput, against the peers, as JSON
	$(BENCH)/bin/python -m benchmarks.bits --json
	$(BENCH)/bin/python -m benchmarks.pipeline --json
	$(BENCH)/bin/python -m benchmarks.accountant --json
	$(BIN)/python -m benchmarks.verify --json
	$(BENCH)/bin/python -m benchmarks.detection --json
	$(BENCH)/bin/python -m benchmarks.study --json
	$(BENCH)/bin/python -m benchmarks.surveys --json
	$(BENCH)/bin/python -m benchmarks.services --json

bench-spark: $(SPARK)/.spark ## the Spark engine per core, as JSON; needs Java
	$(SPARK)/bin/python -m benchmarks.spark --json

build: $(VENV)/.dev ## sdist and wheels of hubbub and hubbub-verify into dist/, each checked, installed into a clean environment and tried
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m build --no-isolation --wheel --outdir dist packages/verify
	$(BIN)/python -m tools.check_wheel contents dist/*.whl
	$(call clean-install,build/clean,requirements/base.txt,hubbub)
	$(call clean-install,build/verify,,hubbub_verify)
	$(BIN)/python -m tools.check_wheel smoke build/clean/bin build/verify/bin

$(SBOM)/.sbom: requirements/sbom.txt
	@test -x $(SBOM)/bin/python || $(if $(UV),$(UV) venv -q --python $(PYTHON) $(SBOM),$(PYTHON) -m venv $(SBOM))
	$(if $(UV),$(UV) pip install -q --python $(SBOM)/bin/python,$(SBOM)/bin/python -m pip install -q --disable-pip-version-check) --require-hashes -r $<
	@touch $@

sbom: build $(SBOM)/.sbom ## inventory of the wheel with all extras: build/sbom.cdx.json, build/licences.md; fails on unknown licences
	$(call clean-install,build/extras,requirements/all.txt,hubbub)
	$(SBOM)/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type library --output-reproducible \
	  --output-format JSON --spec-version 1.6 --validate -o build/sbom.cdx.json build/extras/bin/python
	$(BIN)/python -m tools.licences build/sbom.cdx.json build/licences.md

LOCK    = $(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --no-strip-extras \
  --no-emit-package hubbub
COMPILE = $(LOCK) pyproject.toml requirements/build.in

docs: $(VENV)/.docs ## build the book into site/, and run all its examples; warnings are errors
	rm -rf site
	$(BIN)/python -m sphinx -q -W --keep-going -n -b html docs site
	$(BIN)/python -m pytest -q -n 2 tests/docs
	@echo "open site/index.html"

docs-check: docs ## look at every page of the book in headless Chromium; pictures of some in build/site
	$(BIN)/python -m docs.check_site site build/site

bench-docs: $(BENCH)/.bench ## measure, and store the figures for the book; ONLY="study services" for some
	$(BENCH)/bin/python -m docs.record $(ONLY)

bench-docs-spark: $(SPARK)/.spark ## the same for the Spark engine, in its environment; needs Java
	$(SPARK)/bin/python -m docs.record spark

lock: ## renew the locked requirements (needs uv)
	@test -n "$(UV)" || { echo "make lock needs uv" >&2; exit 2; }
	$(COMPILE) --extra dev --extra docs -o requirements/docs.txt
	$(COMPILE) --extra dev -c requirements/docs.txt -o requirements/dev.txt
	$(COMPILE) --extra plot --extra serve -c requirements/docs.txt -o requirements/run.txt
	$(LOCK) pyproject.toml -c requirements/docs.txt -o requirements/base.txt
	$(LOCK) pyproject.toml --extra all -c requirements/docs.txt -o requirements/all.txt
	$(LOCK) requirements/sbom.in -o requirements/sbom.txt
	$(COMPILE) --extra fast --extra frames --extra serve requirements/bench.in -o requirements/bench.txt
	$(COMPILE) --extra spark requirements/spark.in -o requirements/spark.txt

clean: ## remove environments and caches
	rm -rf $(VENV) $(BENCH) $(SBOM) $(SPARK) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* site build dist hubbub-*.html
