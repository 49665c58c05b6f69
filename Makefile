# Every target sets up what it needs first: `make run` and `make test` work as the first command in a fresh clone.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
# Tests run on one thread each: threads of small graphs wait for one another by spinning, and on a machine that does
# anything else besides that costs many times more than a second thread gains.
ONE_THREAD := OMP_NUM_THREADS=1
TESTS ?= tests
NBVAL := --nbval-lax --nbval-current-env --nbval-sanitize-with tests/nbval_sanitize.cfg --nbval-cell-timeout 600

.DEFAULT_GOAL := help
.PHONY: help setup run test lint unit notebooks lab docs bench figures layers refresh test-ipu-versions clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1|/' | column -t -s '|'

# An environment that does not work (any more) counts as none.
$(shell bash tools/setup.sh --check)

setup: $(READY) ## the environment alone, in .venv

$(READY): requirements.txt tools/setup.sh
	@bash tools/setup.sh "$(PYTHON)"

run: $(READY) ## execute all notebooks into build/ (notebooks, HTML, Markdown)
	@$(BIN)/python tools/notebooks.py run

test: lint unit notebooks ## lint, unit tests, and every notebook through nbval

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

unit: $(READY)
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist worksteal --show-capture no $(TESTS)

notebooks: $(READY)
	@if ls notebooks/*.ipynb >/dev/null 2>&1; then $(ONE_THREAD) $(BIN)/python -m pytest -v -n auto --maxprocesses 4 --dist loadfile $(NBVAL) notebooks; else echo "no notebooks yet"; fi

lab: $(READY) ## open JupyterLab on localhost
	$(BIN)/jupyter lab --ip 127.0.0.1 $(if $(filter 0,$(shell id -u)),--allow-root)

docs: $(READY) ## the site of notebooks and reference, in build/site
	@$(BIN)/python tools/docs.py

bench: $(READY) ## steps, epochs, loaders and sampling side by side with PyG, as ratios; QUICK=1 for a few
	@$(BIN)/python benchmarks/run.py

figures: $(READY) ## redraw static/
	$(BIN)/python tools/figures.py

layers: $(READY) ## run every PyG layer through the check and rewrite docs/supported_layers.md
	$(BIN)/python tools/layers.py

refresh: $(READY) ## execute the notebooks in place and clean their outputs (wants the real data)
	$(BIN)/python tools/notebooks.py refresh

test-ipu-versions: ## batching's tests on the versions PopTorch 3.3 pins (Python 3.8, torch 2.0.1, PyG 2.4.0)
	bash tools/ipu_versions.sh

clean: ## remove the environment and everything built
	rm -rf .venv build
