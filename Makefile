# Everything runs from `.venv`, which each target makes by itself from `requirements.lock`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Amaranth orders some netlist items by hash: a fixed seed makes the Verilog, and with it the key
# of a simulator build, the same in every run.
export PYTHONHASHSEED := 0

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# need TOOL, HOW TO GET IT: stops when a recipe that names it runs
need = $(if $(shell $(1) --version 2>/dev/null),,$(error $(1) is missing: $(2)))
# One process a core; the tests of a file stay in one, since they share what they have played. Files
# keep the order of tests/conftest.py, longest first.
PARALLEL := -n auto --dist loadfile --no-loadscope-reorder

need-python = $(call need,$(PYTHON),install Python 3.11 or set PYTHON=/path/to/python3.11)

##@ Use

.PHONY: demo
demo: $(INSTALLED) toolchain  ## The whole chain: RTL, waveform, timing, a served model
	$(BIN)/pagewave demo --out build/demo

.PHONY: calibrate
calibrate: $(INSTALLED) toolchain  ## Measure the RTL and write build/timing/paper.json
	$(BIN)/pagewave calibrate --preset paper --out build/timing/paper.json

.PHONY: measure
measure: $(INSTALLED) toolchain  ## Measure rates, first bytes and peers; renews the pages
	$(BIN)/pagewave measure --out build/measure --docs docs/measurements.md \
	  --docs docs/placement.md --docs docs/ucie.md --docs docs/hbm.md

.PHONY: cells
cells: $(INSTALLED)  ## Count the cells of the HBF base die; renews docs/cells.md
	$(BIN)/pagewave cells --preset mini --docs docs/cells.md
	$(BIN)/pagewave cells --preset paper --docs docs/cells.md

.PHONY: wave
wave: $(INSTALLED) toolchain  ## Run tests, keep waves and views: make wave TEST=tests/tb/test_x.py::test_y
	$(if $(TEST),,$(error TEST is empty: make wave TEST=tests/...))
	rm -rf build/waves
	@mkdir -p build/waves
	@status=0; WAVES_DIR=$(CURDIR)/build/waves $(BIN)/pytest "$(TEST)" || status=$$?; \
	  find build/waves -name '*.vcd' -print0 | xargs -0 -r $(BIN)/python -m tb.views; \
	  exit $$status

.PHONY: install
install: $(INSTALLED)  ## Make .venv, with the command pagewave

##@ Develop

.PHONY: test
test: $(INSTALLED) toolchain  ## Run all tests but the slow ones
	$(BIN)/pytest $(PARALLEL) -m "not slow and not formal"

.PHONY: formal
formal: $(INSTALLED)  ## Prove the properties of the blocks
	$(BIN)/pytest $(PARALLEL) tests/formal

.PHONY: regress
regress: $(INSTALLED) toolchain  ## Run the slow tests
	$(BIN)/pytest -m slow

.PHONY: check
check: $(INSTALLED)  ## Lint, check the format and the types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.PHONY: docs
docs: $(INSTALLED)  ## Renew docs/registers.md, the layouts in docs/ucie.md, the graphs in docs/channels.md
	$(BIN)/python -m hw.registers docs/registers.md
	$(BIN)/python -m hw.ucie.page docs/ucie.md
	$(BIN)/python -m hw.channel_page docs/channels.md

.PHONY: lock
lock:  ## Renew requirements.lock from pyproject.toml
	$(need-python)
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet uv
	build/lock/bin/uv pip compile --quiet --upgrade --python-version 3.11 --extra dev \
	  --generate-hashes --no-annotate --custom-compile-command "make lock" \
	  --output-file requirements.lock pyproject.toml

.PHONY: clean
clean:  ## Remove build/, with all simulator builds; .venv stays
	rm -rf build

.PHONY: help
help:  ## Show this list
	@awk -F ':.*## ' '/^##@/ { print "\n" substr($$0, 5) } \
	  /^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

# Prerequisites ------------------------------------------------------------------------------------

.PHONY: toolchain
toolchain:
	$(call need,g++,apt-get install g++)
	@:

$(INSTALLED): requirements.lock pyproject.toml
	$(need-python)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@
