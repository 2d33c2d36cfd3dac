PYTHON ?= python3
BIN = .venv/bin

.PHONY: demo test docs bench attack format clean

demo: .venv/installed
	$(BIN)/asni investigate digits-fc

test: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2

docs: .venv/installed
	$(BIN)/python -m docs

bench: .venv/installed
	$(BIN)/python -m benchmarks

attack: .venv/installed
	$(BIN)/python -m attack --save results/reliability/attack.json

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# One marker file stands for the whole environment: it is made again when the requirements or the native core change.
# The environment variables also reach the environment in which pip builds the core, which --constraint does not.
.venv/installed: pyproject.toml constraints.txt $(wildcard native/*)
	$(PYTHON) -m venv .venv
	rm -f src/asni/engine/libasni.*
	PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
		$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist site src/asni/engine/libasni.*
