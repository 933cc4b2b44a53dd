# Targets for people and for CI. Everything runs in .venv, which `make` creates when needed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help browser certify test test-portable test-newest check docs dist validity fuzz \
	audit-deps benchmark clean

help:
	@echo "make certify        set up .venv, then certify the shipped policy (about two minutes)"
	@echo "make test           set up .venv, then lint, types and tests"
	@echo "make test-portable  the tests that do arithmetic, as an older processor does it"
	@echo "make test-newest    the core of the tests on the newest versions of everything but torch"
	@echo "make check          lint and types only"
	@echo "make docs           build the documentation into site/ (open site/index.html)"
	@echo "make dist           build wheel and sdist into dist/, check them and try the wheel alone"
	@echo "make validity       the long simulations of every guarantee (minutes)"
	@echo "make fuzz           more than 10,000 harmed files against every reader (minutes)"
	@echo "make audit-deps     known vulnerabilities of the pinned versions (needs a network)"
	@echo "make benchmark      the measurements of benchmarks/README.md"
	@echo "make clean          remove .venv and caches"

# Installed again whenever the requirements change.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tightrope needs Python 3.11 or newer, found " + sys.version.split()[0] + ": run make PYTHON=python3.11")'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { apt-get update && apt-get install -y python3-venv; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[all,dev,docs]"
	@touch $@

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# The pages are tested in a real browser; without one those tests are skipped.
browser:
	@command -v chromedriver >/dev/null && command -v chromium >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && apt-get update && apt-get install -y --no-install-recommends chromium chromium-driver; } || \
		echo "no browser, its tests are skipped: as root, apt-get install chromium chromium-driver"

test: check browser
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto

# The oldest kernels of torch, oneDNN, MKL and OpenBLAS: any x86-64 has them, others ignore this.
OLDER := ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE OPENBLAS_CORETYPE=Nehalem

test-portable: $(READY)
	OMP_NUM_THREADS=1 $(OLDER) $(BIN)/pytest -n auto tests/bounds tests/policies tests/rollouts \
		tests/posteriors tests/certificates tests/deploy tests/comparison tests/agents \
		tests/reports --deselect tests/agents/test_learning.py

# What a user gets without our constraints; torch is as pinned. In an environment of its own, since
# these versions change without us; what was found is in benchmarks/README.md.
NEWEST := $(VENV)-newest
test-newest:
	$(PYTHON) -m venv $(NEWEST)
	grep '^torch==' constraints.txt > $(NEWEST)/torch.txt
	$(NEWEST)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade \
		--upgrade-strategy eager -c $(NEWEST)/torch.txt -e ".[certify,train,tables,plots,dev]"
	$(NEWEST)/bin/python -m pip freeze --exclude-editable
	OMP_NUM_THREADS=1 $(NEWEST)/bin/pytest -n auto tests/bounds tests/policies tests/rollouts \
		tests/posteriors tests/certificates tests/deploy tests/comparison tests/golden

dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/pytest -m validity tests/test_base_install.py

certify: $(READY)
	rm -rf demo-certificate
	$(BIN)/tightrope certify --demo --out demo-certificate

# Silenced: the notice that Material for MkDocs ends in May 2027. Every other warning is an error.
docs: $(READY)
	$(BIN)/python docs/tools/commands.py
	$(BIN)/python docs/tools/document.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

validity: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto -m validity --ignore tests/fuzz tests

fuzz: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto -m "validity or not validity" tests/fuzz

# In an environment of its own: the tool's dependencies are no part of what is tested.
audit-deps:
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(VENV)/audit/bin/pip-audit --disable-pip --no-deps --strict -r constraints.txt

benchmark: $(READY)
	$(BIN)/python benchmarks/kl_inverse.py
	$(BIN)/python benchmarks/collect.py --env Hopper-v4
	$(BIN)/python benchmarks/collect.py --env Humanoid-v4
	$(BIN)/python benchmarks/certify.py
	$(BIN)/python benchmarks/tightness.py --out tightness.csv
	$(BIN)/python benchmarks/agents.py

clean:
	rm -rf $(VENV) $(NEWEST) dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
