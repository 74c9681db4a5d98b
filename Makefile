# Set-up is part of every target: `make demo` and `make test` each work as the first command after a clone.
#   PYTHON       the Python to make .venv with (3.11 or newer)
#   TORCH_INDEX  an index to take the torch wheel from, e.g. https://download.pytorch.org/whl/cpu
PYTHON ?= python3
TORCH_INDEX ?=
export TORCH_INDEX

BIN := .venv/bin
SETUP := $(PYTHON) .ci/environment.py

.PHONY: help setup demo test test-all test-gpu lint types ui clean

help:
	@echo "make demo    the data-scale sweep on this machine's CPU, tracked, with its figures (minutes)"
	@echo "make test    the quick tests;  make test-all   every test"
	@echo "make test-gpu  the tests that need a CUDA device"
	@echo "make ui      the MLflow UI over the tracked runs"
	@echo "make lint    ruff (rules and format);  make types   mypy"
	@echo "make clean   remove .venv and caches (never runs/)"

setup:
	@$(SETUP)

demo: setup
	@$(BIN)/rmlab sweep data_scale preset=demo

test:
	@$(SETUP) dev tasks
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not gpu"

test-all:
	@$(SETUP) dev tasks
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not gpu"

test-gpu:
	@$(SETUP) dev tasks
	$(BIN)/python -m pytest -m gpu

lint:
	@$(SETUP) dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	@$(SETUP) dev
	$(BIN)/mypy

ui: setup
	@$(BIN)/rmlab ui

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
