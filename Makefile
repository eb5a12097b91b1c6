# Every target installs what it needs first. Python 3.11 or newer, make and the package index are enough.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo test test-slow check bench clean

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[embedded,plot,dev]' tensorboard wandb trackio
	touch $@

demo: install
	$(BIN)/seminar train recipes/mada/quickstart.yaml $(if $(OUT),--out $(OUT))

test: install
	$(BIN)/pytest -m 'not slow'

test-slow: install
	$(BIN)/pytest -m slow

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: install
	$(BIN)/seminar bench

clean:
	rm -rf .venv
