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

# One marker file stands for the whole environment: it is made again when the requirements change.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist site
