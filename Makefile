# Everything runs in a local .venv; `make demo` and `make test` set it up when it is missing.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
BIN := .venv/bin
# Editable, with the versions that the project is tested with.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# Tests that have a command of their own, beside `make long`.
ELSEWHERE := not slow and not gpu and not monitors and not browser and not lessons and not site and not engines and not objectives and not reproducers and not catalogue and not fuzz

.PHONY: demo test long check monitors browser lessons site engines objectives reproducers proof fuzz attack catalogue sample lint format gpu help clean

demo: .venv/run.done ## train, label, score and report the small data set, into demo/
	$(BIN)/trainwreck demo --out demo

test: .venv/test.done ## all tests but the slow and the long ones
	$(BIN)/pytest -n auto --dist loadfile -m "not long and $(ELSEWHERE)"

long: .venv/test.done ## the files of tests/long.txt: rescue, benchmarks, exported programs, ranks, kernels compiled for a GPU
	$(BIN)/pytest -n auto --dist loadfile -m "long and $(ELSEWHERE)"

check: .venv/test.done ## the tests to run while working, under 90 s on 2 cores: the files of tests/check.txt
	$(BIN)/pytest -q -n auto --dist loadfile -m "not long and $(ELSEWHERE)" @tests/check.txt

monitors: .venv/monitors.done ## tests that need other projects' libraries (Transformers, Lightning, river ...), which it installs
	$(BIN)/pytest -n auto -m monitors

browser: .venv/browser.done ## tests that open pages in Chromium (the one on the PATH, or $$CHROMIUM)
	$(BIN)/pytest -m browser

lessons: .venv/lessons.done ## the lessons' notebooks, with and without answers, from top to bottom
	$(BIN)/pytest -n auto -m lessons

site: .venv/docs.done ## the documentation as a site, built strictly into site/; search works over HTTP
	$(BIN)/pytest -m site

engines: .venv/engines.done ## tests of generate on Ray and submitit, which it installs
	$(BIN)/pytest -m engines

objectives: .venv/objectives.done ## losses against those of TRL and diffusers, which it installs
	$(BIN)/pytest -m objectives

reproducers: .venv/test.done ## every scenario's exported program, run to its end and compared with the lab's runs; resumes
	$(BIN)/pytest -n 2 -m reproducers

proof: .venv/test.done ## the slow tests: generate killed again and again, every twin through the checks before a run
	$(BIN)/pytest -m slow

FUZZ_SECONDS ?= 720
FUZZ_SEED ?= $(shell date +%s)
fuzz: .venv/test.done ## an hour of random attempts on detectors, data sets, logs, command lines and pages; FUZZ_SECONDS of each
	FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=$(FUZZ_SEED) $(BIN)/pytest -n auto -m fuzz

ATTACK := results/runs/attack
JUNIT := -o junit_family=xunit1 --junitxml=$(ATTACK)
attack: .venv/test.done ## 2,550 attempts on detectors, data sets, logs and command lines, 200 kills of generate; into results/attack
	mkdir -p $(ATTACK)
	FUZZ_ATTEMPTS=1100 $(BIN)/pytest -n 0 -m fuzz $(JUNIT)/logs.xml tests/fuzz/test_logs.py
	FUZZ_ATTEMPTS=600 $(BIN)/pytest -n 0 -m fuzz $(JUNIT)/commands.xml tests/fuzz/test_commands.py
	FUZZ_ATTEMPTS=750 $(BIN)/pytest -n 0 -m fuzz $(JUNIT)/data_sets.xml tests/fuzz/test_data_sets.py
	FUZZ_ATTEMPTS=100 $(BIN)/pytest -n 0 -m fuzz $(JUNIT)/detectors.xml tests/fuzz/test_detectors.py
	KILLS=200 $(BIN)/pytest -n 0 -m slow $(JUNIT)/kills.xml tests/scenarios/datasets/test_generate_killed.py
	$(BIN)/python tests/fuzz/record.py $(ATTACK)

PART ?= 1/1
catalogue: .venv/test.done ## every scenario (PART=2/4: of a quarter) on one seed: signature, twin, cure; tests that train all of it
	$(BIN)/trainwreck verify --quick --part $(PART)
	$(BIN)/pytest -n auto -m catalogue

sample: .venv/monitors.done ## regenerate the data set that ships with the package, into evaluation/sample/, with every detector
	out=runs/sample-$$(git rev-parse --short HEAD) && $(BIN)/trainwreck generate sample --out $$out && \
	$(BIN)/trainwreck label $$out --split test && $(BIN)/trainwreck release $$out --out evaluation/sample

lint: .venv/dev.done ## ruff, mypy on an installed copy, codespell, no marks of a merge
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/packaging/typecheck.py
	git ls-files -z | xargs -0 $(BIN)/codespell
	! git grep -nE '^(<{7} |>{7} |={7}$$)'

format: .venv/dev.done ## let ruff fix what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

gpu: ## on a machine with CUDA and its own PyTorch: GPU tests and benchmarks, into results/gpu/<date>/
	PYTHON=$(PYTHON) bash tests/gpu.sh

help: ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

clean: ## remove what was built
	rm -rf .venv build site *.egg-info demo .pytest_cache .mypy_cache .ruff_cache

.venv/bin/python:
	$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 11) <= v <= (3, 13) else f"python: {v[0]}.{v[1]} is not allowed; allowed: 3.11 to 3.13")'
	$(PYTHON) -m venv .venv

.venv/run.done: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) -e .
	touch $@

.venv/test.done: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) -e ".[test]"
	touch $@ .venv/run.done

WITH := monitors browser lessons docs engines objectives
$(WITH:%=.venv/%.done): .venv/%.done: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) -e ".[test,$*]"
	touch $@ .venv/test.done .venv/run.done

.venv/dev.done: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) -e ".[dev]"
	touch $@ .venv/test.done .venv/run.done

# All of the above at once.
.venv/all.done: .venv/bin/python pyproject.toml constraints.txt
	$(INSTALL) -e ".[monitors,browser,lessons,docs,engines,objectives,dev]"
	touch $@ $(patsubst %,.venv/%.done,run test dev $(WITH))
