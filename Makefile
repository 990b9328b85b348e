# Works with GNU make from 3.81 on and with BSD make. Every target makes what it needs by itself: a virtual
# environment in .venv, made anew when pyproject.toml changed. `make PYTHON=python3.12 …` picks the Python.

VENV = .venv
PY = $(VENV)/bin/python
STAMP = $(VENV)/.made
PYTHON =
ARGS =
# How many tests run at once; 0 runs them in pytest's own process, for a debugger.
JOBS = 2

help:
	@echo 'make demo         builds a small repository and a lane, works it, shows it'
	@echo 'make test         runs the tests (make test ARGS="-k queue" some of them)'
	@echo 'make test-engines runs the real claude and codex against a scripted model (Linux, npm)'
	@echo 'make check        format, lint, types, import contracts'
	@echo 'make screenshots  draws the pictures in screenshots/ anew'
	@echo 'make bench        measures, and prints ratios'
	@echo 'make clean        removes everything that make made'

demo: $(STAMP)
	@$(PY) -m meshtui demo $(ARGS)

test: $(STAMP)
	@$(PY) -m pytest -n $(JOBS) --dist worksteal $(ARGS)

test-engines: $(STAMP)
	@$(PY) -m tests.engines.isolate $(ARGS)

check: $(STAMP)
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

screenshots: $(STAMP)
	@$(PY) -m screenshots.make

bench: $(STAMP)
	@$(PY) -m tests.benchmarks.lane $(ARGS)
	@$(PY) -m tests.benchmarks.mesh $(ARGS)
	@$(PY) -m tests.benchmarks.engines $(ARGS)
	@$(PY) -m tests.benchmarks.console console_fleet $(ARGS)

clean:
	rm -rf $(VENV) .demo .engines build dist meshtui.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache tests/real/.archives
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml
	@if ! $(PY) -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
		for python in $(PYTHON) python3.13 python3.12 python3.11 python3 ''; do \
			if [ -n "$$python" ] && "$$python" -c \
				'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
				break; \
			fi; \
		done; \
		if [ -z "$$python" ]; then \
			echo 'make: found no Python 3.11 or newer that can make virtual environments;' \
				'install one (Debian, Ubuntu: apt-get install python3 python3-venv)' \
				'or name it: make PYTHON=/path/to/python' >&2; \
			exit 1; \
		fi; \
		echo "Making $(VENV) with $$python"; \
		"$$python" -m venv --clear $(VENV) || exit 1; \
	fi
	@echo 'Installing meshtui and what it is developed with into $(VENV)'
	@$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(STAMP)

.PHONY: help demo test test-engines check screenshots bench clean
