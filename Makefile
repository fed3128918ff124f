# Two commands: `make train` (the main job) and `make test`. Both set up what they need.
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
# Processes of `make test`.
WORKERS ?= 2
# Rows of `make eval`.
SMALL  := direct rag "search_r1, zero-shot" oracle scripted

.PHONY: help train eval test lint setup clean

help:
	@echo "make train   set up, then train and evaluate the embedded default (configs/quickstart.yaml)"
	@echo "make eval    set up, then evaluate the embedded model: a small version of docs/results.md"
	@echo "make test    set up, then lint, type check and run all tests that need no GPU"
	@echo "make setup   only set up the virtual environment"

train: $(VENV)/.runtime
	$(PY) train.py --config configs/quickstart.yaml --overwrite

eval: $(VENV)/.runtime
	$(PY) -m benchmarks.results --questions 10 --out results/small --csv results/small/cells.csv --methods $(SMALL)

# A thread a worker: two processes of two threads on two cores mostly wait for each other.
test: lint
	OMP_NUM_THREADS=1 $(PY) -m pytest -n $(WORKERS) --dist loadfile

lint: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

setup: $(VENV)/.dev

$(VENV)/.runtime: requirements.txt requirements-embedded.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
		{ echo "Python 3.11 is needed: make PYTHON=/path/to/python3.11 ..." >&2; exit 2; }
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q --disable-pip-version-check -r requirements.txt
	$(PY) -m pip install -q --disable-pip-version-check --no-deps -r requirements-embedded.txt
	touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.runtime
	$(PY) -m pip install -q --disable-pip-version-check -r requirements-dev.txt
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
