# Everything runs in an environment of its own, .venv; the pins are the versions that are tested.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test format clean

demo: .venv/installed  ## set up, then translate with the shipped models
	$(BIN)/allyouneed translate \
	  "The weather will be fine tomorrow, so we could go to the lake." \
	  "The European Commission presented its proposal on Wednesday."
	$(BIN)/allyouneed translate \
	  "Wegen des starken Regens wurde das Spiel abgesagt." \
	  "Die Regierung hat gestern ein neues Gesetz zum Schutz der Umwelt beschlossen."

test: .venv/installed-dev  ## set up, then check formatting, lint, types and behaviour
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest

format: .venv/installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv

# Torch first and on its own: its pinned build is taken before anything else asks for any torch.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -qq --upgrade pip
	$(BIN)/pip install -qq --constraint constraints.txt torch
	$(BIN)/pip install -qq --constraint constraints.txt --editable .
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/pip install -qq --constraint constraints.txt --editable '.[dev]'
	touch $@
