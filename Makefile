# `make` alone lists the targets.
.DEFAULT_GOAL := help
.NOTPARALLEL:
SHELL := bash

BIN := .venv/bin
STAMP := .venv/.stamp
QUICK ?= --quick
OUT ?= dist/results
PAIRS ?= 10000
SEEDS ?= 1000
ROUNDS ?= 1000
TYPED := $(wildcard agent/sottovoce coordinator-free-bootstrap/sottovoce_bootstrap home/sottovoce_home lab/sottovoce_lab operator/sottovoce_operator papers/sottovoce_papers tests benchmarks .ci/docs)

.PHONY: help
help:  ## list the targets
	@sed -nE 's/^([a-z-]+):.*  ## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

# A secure sum takes two or three cycles, so 18 of them leave a few of the 60 cycles for rounds that fail.
.PHONY: demo
demo: setup  ## run the main demonstration: a fleet of real processes learns on this machine
	@mkdir -p dist && $(BIN)/sottovoce testbed --learner group-sgd --set learner.steps=18 --agents 12 --data digits \
	    --epsilon 2 --set "data.partition=dirichlet(0.5)" --compare --report dist/demo.json \
	    && $(BIN)/sottovoce report dist/demo.json --out dist/demo.html $(DEMO)

.PHONY: pictures
pictures: setup  ## run the demo and redraw the picture in README.md
	@$(MAKE) --no-print-directory demo DEMO="--picture docs/images/demo.svg"

.PHONY: setup
setup: $(STAMP)  ## create .venv with all development tools; fast if it is up to date

$(STAMP): .ci/setup locks/dev.txt pyproject.toml lab/pyproject.toml operator/pyproject.toml papers/pyproject.toml
	@.ci/setup
	@touch $@

# Background processes of a shell ignore Ctrl-C, and so would every process that a test starts and interrupts.
PYTEST := env --default-signal=INT $(BIN)/python -m pytest --dist worksteal
COVERED := $(subst -m pytest,-m coverage run -m pytest,$(PYTEST))
# A room's unit tests lie in a folder of its name, or in these; ROOM runs the quick ones. A path below tests/ runs all.
ROOM_algorithms := learners
ROOM_calculator := accounting
ROOM_device := .
ROOM_kernels := kernels models_files
ROOM_lab := audit experiments library models pages papers published simulate testbed vector
ROOM_learning := learners
ROOM_net := transport wire
ROOM_node := node node_core
ROOM_papers := hegedus_2017 jin_2023 papers pdsl_2025 plugins
ROOM_privacy := accounting perturbation secure_sum vault
TESTS = $(or $(filter tests tests/%,$(ROOM)),$(addprefix tests/unit/,$(or $(ROOM_$(ROOM)),$(ROOM))),tests)
QUICK_MARKS := not (process or slow or statistical$(if $(filter device,$(ROOM)), or papers))
HIDE := $(if $(filter device,$(ROOM)),-p tests.support.device_alone)
MARKS = not soak$(if $(filter tests/%,$(ROOM)),, and $(if $(ROOM),$(QUICK_MARKS),(not process or smoke)))

.PHONY: test
test: setup  ## run the deterministic tests and a few fleets of processes: 8 minutes; one room: make test ROOM=privacy
	$(if $(MEASURE),@rm -f .coverage .coverage.*)
	$(if $(MEASURE),$(COVERED),$(PYTEST)) $(HIDE) -n 3 -m "$(MARKS)" $(TESTS)

# Slow and statistical tests are not measured, so `make test` is enough for them. With MEASURE=yes for both targets, as in
# .ci/run, `make test` measures coverage, and `make test-all` repeats nothing.
.PHONY: test-all
test-all: setup  ## run the rest: the tests of processes, and the quick ones again under coverage, with its threshold
	$(if $(MEASURE),,@rm -f .coverage .coverage.*)
	$(COVERED) -n 3 -m "not soak and $(if $(MEASURE),process and not smoke,(process or not (slow or statistical)))"
	$(BIN)/coverage combine --quiet && $(BIN)/coverage report

.PHONY: hooks
hooks: setup  ## make git check the format, lint, types, imports and words of each commit
	$(BIN)/pre-commit install

.PHONY: soak
soak: setup  ## run the long tests, with dozens of processes
	$(BIN)/python -m pytest -m soak -s tests

# The oldest version of each direct dependency, and the locked version of everything else. numpy.testing of NumPy 2.0
# starts lscpu when it is imported, which no test may do.
MINIMA := config data fleet kernels node secure_sum transport vault wire
.PHONY: minima
minima: setup  ## run quick tests of a device with the oldest dependencies that pyproject.toml permits
	@rm -rf dist/minima && $(BIN)/python -m venv --without-pip dist/minima
	@$(BIN)/uv pip compile --quiet --no-deps --resolution lowest-direct --extra cli --python dist/minima/bin/python \
	    --output-file dist/minima/oldest.txt pyproject.toml
	@$(BIN)/uv pip install --quiet --python dist/minima/bin/python --requirements locks/dev.txt
	@$(BIN)/uv pip install --quiet --python dist/minima/bin/python --no-deps --requirements dist/minima/oldest.txt \
	    --editable . --editable lab --editable operator --editable papers
	dist/minima/bin/python -m pytest -n 2 -p numpy.testing -m "$(QUICK_MARKS)" $(addprefix tests/unit/,$(MINIMA))

.PHONY: storm
storm: setup  ## run fleets of every learner under random faults, checking every invariant: make storm SEEDS=10000
	$(BIN)/python -m tests.storm --seeds $(SEEDS)

.PHONY: street
street: setup  ## rehearse with 60 made-up homes as real agents: one secure sum, then dist/street.html; three minutes
	$(BIN)/python -m tests.street $(STREET)

.PHONY: year
year: setup  ## simulate a year of meters with daily forecasts, into dist/year; ten minutes; on London data if available
	$(BIN)/python -m tests.year

.PHONY: forecasts
forecasts: setup  ## measure the home's forecast on London and Scottish homes, into docs/results/home-forecast.md; five minutes
	$(BIN)/python -m tests.forecasts measure

.PHONY: public-model
public-model: setup  ## fit the home's public forecasting model again, into home/sottovoce_home/public_model.toml; a minute
	$(BIN)/python -m tests.forecasts fit

.PHONY: neighbours
neighbours: setup  ## test each proved property on ten thousand neighbours; takes hours; for fewer: make neighbours PAIRS=100
	PAIRS=$(PAIRS) $(BIN)/python -m pytest -m soak -s tests/neighbours tests/lives

.PHONY: played
played: neighbours  ## test the neighbours, then list the private halves in papers/ with which this succeeded
	@$(BIN)/python -m tests.neighbours.played

.PHONY: mutants
mutants: setup  ## plant defects in the shipped code and list the checks that catch each one; ten minutes
	@$(BIN)/python -m tests.mutations

.PHONY: cells
cells: setup  ## plant bugs in the secure-sum protocol and list which checks find each; with faults: make cells ROUNDS=100000
	@$(BIN)/python -m tests.cells $(ROUNDS)

.PHONY: audit
audit: setup  ## audit every learner as shipped, into docs/results/measured/audit.csv; half an hour
	@$(BIN)/python -m tests.audit

.PHONY: check
check: check-format check-lint check-words check-types check-imports check-generated check-docs check-site  ## run every check except the tests

.PHONY: bench
bench: setup  ## run every benchmark against a floor measured in the same run; quick, without limits: make bench SMOKE=--smoke
	@failed=; for script in $(filter-out benchmarks/public_homes.py benchmarks/exchange_agent.py,$(wildcard benchmarks/*.py)); do echo "--> $$script"; \
	    $(BIN)/python $$script $(SMOKE) || failed="$$failed $$script"; \
	done; test -z "$$failed" || { echo "over a limit, or failed:$$failed"; exit 1; }

.PHONY: reproduce
reproduce: setup  ## reproduce the papers' figures and tables coarsely into dist/results; in full: make reproduce QUICK= OUT=docs/results
	$(BIN)/sottovoce reproduce $(QUICK) --out $(OUT) $(FIGURES)

RELEASES = $(or $(RELEASE),bookworm trixie)

.PHONY: wheels
wheels: setup  ## build the wheels of sottovoce, sottovoce-lab, sottovoce-operator and sottovoce-papers into dist/
	@$(BIN)/python -m pip --disable-pip-version-check -q wheel --no-deps --no-build-isolation --wheel-dir dist . ./lab ./operator ./papers
	@ls dist/sottovoce*.whl

.PHONY: deb
deb: setup  ## build packages for Debian 12 and 13 into dist/; for a Raspberry Pi: make deb RELEASE=trixie ARCH=arm64
	@for release in $(RELEASES); do RELEASE=$$release ARCH=$(ARCH) deploy/debian/build || exit; done

.PHONY: deb-test
deb-test: setup  ## test the packages on clean machines under systemd; needs podman, root and ten minutes; one release: RELEASE=trixie
	@$(BIN)/python -u -m tests.packaging.deb $(RELEASES)

.PHONY: endured-test
endured-test: setup  ## test the systemd units under floods, full disks and wrong clocks; needs podman, root and half an hour
	@$(BIN)/python -u -m tests.packaging.endured $(or $(RELEASE),bookworm)

.PHONY: disks-test
disks-test: setup  ## test the systemd units at full, read-only, absent and damaged disks; needs podman, root and a quarter of an hour
	@$(BIN)/python -u -m tests.packaging.disks $(or $(RELEASE),bookworm)

.PHONY: arm64-test
arm64-test: setup  ## test the Raspberry Pi packages under emulation; needs root, debootstrap, qemu-user-static, and half an hour
	@MOUNTS_OUTSIDE=$$(readlink /proc/self/ns/mnt) RELEASES="$(RELEASES)" unshare --mount --propagation private --kill-child \
	    $(BIN)/python -m pytest -m soak -s tests/packaging/test_arm64.py

.PHONY: compose-test
compose-test:  ## test twenty devices in containers, half on a faulty network; needs Docker or podman, and ten minutes
	@deploy/compose/test

.PHONY: container-test
container-test: setup  ## test the image and the commands on its page, including Prometheus; needs Docker or podman, and ten minutes
	@deploy/container/test

.PHONY: kubernetes-test
kubernetes-test: setup  ## test a fleet of pods with the commands on its page; needs a cluster, or podman and root, and three minutes
	@$(BIN)/python deploy/kubernetes/test

.PHONY: ansible-test
ansible-test: setup  ## test the Ansible role on two machines under systemd; needs podman, root and ten minutes
	@package=$$(deploy/debian/build) && deploy/ansible/test "$$package"

.PHONY: format
format: setup  ## rewrite the code in the project's format
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

.PHONY: check-format
check-format: setup  ## check that the code is formatted
	@echo '--> format'
	@$(BIN)/ruff format --check

.PHONY: check-lint
check-lint: setup  ## lint
	@echo '--> lint'
	@$(BIN)/ruff check

.PHONY: check-words
check-words: setup  ## check that pages, messages and docstrings are in plain English
	@echo '--> words'
	@$(BIN)/python .ci/plain_words.py

.PHONY: check-types
check-types: setup  ## check types in strict mode
	@echo '--> types'
	@$(BIN)/mypy $(TYPED)

.PHONY: check-imports
check-imports: setup  ## check that each package imports only what it may
	@echo '--> import contracts'
	@$(BIN)/lint-imports --no-logo --no-cache

.PHONY: check-generated
check-generated: setup  ## check that the generated code matches proto/, and the page on the configuration the schema
	@echo '--> generated files'
	@.ci/generated

.PHONY: check-docs
check-docs: setup  ## check that the links and commands in the documentation work
	@echo '--> documentation'
	@$(BIN)/python .ci/docs

check-site: setup  ## check that the site builds and all its links work
	@echo '--> site'
	@$(BIN)/python .ci/site_checks.py

.PHONY: site
site: setup  ## build the documentation as a site with search; to view it: python -m http.server -d dist/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet && echo 'python -m http.server -d dist/site' 

.PHONY: clean
clean:  ## remove everything that the targets above made
	rm -rf .venv .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
