# The one task runner. Every target sets up what it needs inside this directory, and says so.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Packages of Python and of Java come at once, and machine code is made beside them.
MAKEFLAGS += --jobs=3

# Some machines forbid Python to keep what it has compiled: each of the hundreds of processes that tests start would do it
# anew, for a third of its time.
export PYTHONDONTWRITEBYTECODE :=

BIN := .venv/bin

# Tests that share a Storm cluster run in one process, those that share a Spark session in another, the others in whichever
# is free. Those of Storm mostly wait; where the kernel shares CPU by sessions, the other processes give way to the cluster,
# and a third one takes what it leaves of two cores. Elsewhere tests that measure a cluster would be short of CPU.
JOBS := $(if $(filter 1,$(shell cat /proc/sys/kernel/sched_autogroup_enabled 2>/dev/null)),3,2)
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/stormwright/__init__.py)
JAR := java/target/stormwright-storm-$(VERSION).jar
JAVA_SOURCES := $(shell find java/src -type f)

# Besides 2.8.3, with which all else is built and run: the newest of older lines, and the oldest of its own.
STORM_VERSIONS := 2.6.4 2.7.1 2.8.0

# Storm 3: a release that Maven has (STORM3=3.0.0), or a checkout of apache/storm.
STORM3 ?=
STORM3_SOURCES ?=

# Besides 4.2.0, the same.
SPARK_VERSIONS := 4.0.5 4.1.4 4.2.1 4.3.0

# What each step of the set-up leaves when it has completed; an interrupted step is done again.
COMPILER := .venv/.compiler
PYTHON := .venv/.complete
JAVA := build/storm/.complete
KAFKA := build/kafka/.complete
SITE := build/site/index.html
NETWORK := build/.network
BROWSER := build/.browser
DEPLOY_TOOLS := build/tools/.complete
ARCHIVE := build/storm/worker.jsa
MACHINE_CODE := build/.machine-code

# What the Java tests said, and what is there unless they ended well.
JAVA_SAYS := build/java-test.log
JAVA_FAILED := build/.java-test-failed

.PHONY: help demo check test test-all properties chaos chaos-virtual soak java-test python-test storm-versions storm3 spark-versions lint docs fresh-docs results-status dataset site wheel audit setup deploy-tools clean missing

help: ## show this
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(PYTHON) $(MACHINE_CODE) $(JAVA) $(NETWORK) $(ARCHIVE) ## real Storm cluster: run, observe, decide, move, and show what was gained (options: ARGS="--nodes 3")
	@$(BIN)/stormwright demo $(ARGS)

check: lint $(MACHINE_CODE) ## style, types, and Python tests without Storm and Spark: what to run while writing code
	@$(BIN)/python -m pytest -n 2 --dist loadgroup -q -m "not long and not slow and not storm and not spark and not zookeeper" $(ARGS)

test: java-test python-test ## Java and Python tests, some on a real Storm cluster (options for pytest: ARGS="-k cluster")
	@grep -h '^Tests run' java/target/surefire-reports/*.txt

test-all: java-test storm-versions storm3 $(BROWSER) $(DEPLOY_TOOLS) ## the same, and what takes long and rarely breaks
	@grep -h '^Tests run' java/target/surefire-reports/*.txt
	@echo "test: Python, in $(JOBS) processes"
	@EXAMPLES=$${EXAMPLES:-60} $(PYTEST) $(ARGS)

properties: setup ## what holds for any problem, once with 20,000 drawn ones each: hours (one room: ARGS="tests/model")
	@EXAMPLES=$${EXAMPLES:-20000} $(PYTEST) -m "hypothesis and not storm and not spark" --timeout 0 $(ARGS)

chaos: setup ## every scenario at every moment on a real cluster, resumable: hours (options: ARGS="--scenario 'kill-*'")
	@$(BIN)/stormwright chaos run --output chaos-output $(ARGS)

chaos-virtual: setup ## the same in virtual time, 62 seeds each: 20,000 schedules in an hour
	@$(BIN)/stormwright chaos run --virtual --runs 62 --output chaos-output/virtual $(ARGS)

soak: setup ## an hour of changing load, moves and faults on a real cluster, resumable (options: ARGS="--minutes 10")
	@$(BIN)/stormwright chaos soak --output chaos-output/soak $(ARGS)

# Those of Java mostly wait: they run beside those of Python, and what they say is shown as a whole.
java-test: setup
	@echo "test: Java"
	@touch $(JAVA_FAILED)
	@mvn -q -B -f java/pom.xml test >$(JAVA_SAYS) 2>&1 || { cat $(JAVA_SAYS); exit 1; }
	@rm $(JAVA_FAILED)

python-test: setup
	@echo "test: Python, in $(JOBS) processes"
	@code=0; $(PYTEST) -m "not slow" $(ARGS) || code=$$?; \
	if [ -n "$(filter test,$(MAKECMDGOALS))" -a -e $(JAVA_FAILED) ]; then \
	  echo "test: Java failed or has not ended, see above and $(JAVA_SAYS)"; \
	fi; \
	exit $$code

storm-versions: setup ## the Java sources compiled and tested with other versions of Storm than the one that is laid out
	@for version in $(STORM_VERSIONS); do \
	  echo "test: Java, Storm $$version"; \
	  tools/storm_version $$version; \
	done

# In test-all one after the other, as tests of each wait for what they measure.
storm3: | $(if $(filter test-all,$(MAKECMDGOALS)),storm-versions)
storm3: setup ## the same with Storm 3 (STORM3=VERSION, or STORM3_SOURCES=DIR, a checkout of apache/storm)
	@for each in $(or $(STORM3_SOURCES),$(STORM3)); do tools/storm_version $$each; done
	@[ -n "$(STORM3_SOURCES)$(STORM3)" ] || \
	  echo "test: Storm 3 is skipped: give STORM3_SOURCES=DIR, a checkout of apache/storm, or STORM3=VERSION if Maven has it"

spark-versions: setup ## the tests of the pipeline with other versions of Spark, without those of Kafka (options: ARGS="-x")
	@for version in $(SPARK_VERSIONS); do \
	  echo "test: Python, Spark $$version"; \
	  $(BIN)/python -m pip install --quiet --no-deps --upgrade --target build/spark-versions/$$version pyspark==$$version; \
	  PYTHONPATH=$$PWD/build/spark-versions/$$version $(PYTEST) -m "spark and not slow" $(ARGS); \
	done

lint: $(PYTHON) ## style and types
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

docs: setup ## the parts of docs that are made from the code: pages, JSON Schemas, outputs of the notebooks
	@$(BIN)/python tools/scheduler_pages.py docs/schedulers
	@$(BIN)/python tools/json_schemas.py docs/schemas
	@$(BIN)/python tools/experiment_pages.py docs/experiments.md
	@$(BIN)/python tools/accuracy_page.py docs/accuracy.md
	@$(BIN)/python tools/readme_figures.py README.md
	@$(BIN)/python tools/notebooks.py examples

fresh-docs: docs ## fails where these parts of docs, as committed, are not what the code says
	@git diff --exit-code --stat docs/schedulers docs/schemas docs/experiments.md docs/accuracy.md README.md examples || { echo "docs are not fresh: make docs, and commit"; exit 1; }

results-status: $(PYTHON) ## pages of docs/results that are older than the code they measure
	@$(BIN)/python tools/results_status.py

dataset: $(PYTHON) ## docs/datasets: the placements measured by benchmarks.storm.experiments
	@$(BIN)/python tools/dataset.py docs/datasets/storm-placements.zip

site: $(SITE) ## the documentation in build/site, readable without a network; `stormwright docs` opens it

# Of the commit, so that two builds of one commit are equal.
wheel $(SITE): export SOURCE_DATE_EPOCH := $(or $(shell git log -1 --format=%ct 2>/dev/null),1767225600)
wheel: $(PYTHON) $(MACHINE_CODE) $(JAVA) $(SITE) ## wheels in build/wheel: the product with jar, documentation and machine code, and its laboratory
	@rm -rf build/wheel build/lib build/bdist.* lab/build
	@$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/wheel . ./lab
	@$(BIN)/python tools/complete_wheel.py build/wheel/stormwright-*.whl $(JAR) build/site
	@rm -rf build/lib build/bdist.* lab/build && ls build/wheel/*.whl

audit: $(PYTHON) ## known vulnerabilities of the pinned Python packages; asks PyPI
	@$(BIN)/python -m pip_audit --strict --disable-pip --require-hashes --requirement requirements.lock

setup: $(PYTHON) $(MACHINE_CODE) $(JAVA) $(KAFKA) $(NETWORK) $(ARCHIVE) ## everything the other targets need

deploy-tools: $(DEPLOY_TOOLS) ## helm, promtool, kubeconform and compose in build/tools, which check deploy/

clean: ## remove all that make has made
	rm -rf .venv build src/stormwright/*/machine_code java/target demo-output .pytest_cache .ruff_cache .mypy_cache .hypothesis

$(COMPILER): requirements.lock pyproject.toml lab/pyproject.toml tools/setup
	@tools/setup compiler
	@touch $@

$(PYTHON): $(COMPILER)
	@tools/setup python
	@touch $@

$(MACHINE_CODE): $(shell find src/stormwright/jit src/stormwright/optimize src/stormwright/simulator -name '*.py') | $(COMPILER)
	@echo "setup: compiling what searches for placements and simulates (one to two minutes on two cores, beside the packages)"
	@$(BIN)/python -m stormwright.workbench.machine_code
	@mkdir -p $(@D) && touch $@

$(JAVA): java/pom.xml $(JAVA_SOURCES) tools/setup $(if $(wildcard $(JAR)),,missing)
	@tools/setup java
	@touch $@

# After Java, which installs Maven; a benchmark uses the same marker (benchmarks/storm/kafka_ledger.py). Without the jars
# only tests with a broker are skipped, so failing to get them is no failure, and the next run tries again.
$(KAFKA): java/kafka/pom.xml | $(JAVA)
	@tools/setup kafka && touch $@ || echo "setup: no jars of Kafka: tests with a broker are skipped"

SITE_SOURCES := $(shell find docs src/stormwright examples -name '*.md' -o -name '*.py' -o -name '*.ipynb' -o -name '*.svg' -o -name '*.png')

$(SITE): mkdocs.yml $(wildcard *.md) $(wildcard tools/site_*.py) tools/storm_keys.py tools/iframe_worker.js $(SITE_SOURCES) | $(PYTHON)
	@echo "site: building the documentation (20 s)"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@touch $@

$(NETWORK): tools/setup
	@tools/setup network
	@mkdir -p $(@D) && touch $@

$(BROWSER): tools/setup
	@tools/setup browser
	@mkdir -p $(@D) && touch $@

# Without them only tests that need them are skipped, so failing to build them is no failure, and the next run tries again.
$(DEPLOY_TOOLS): tools/setup tools/kubernetes_schemas.py | $(PYTHON)
	@tools/setup deploy_tools && touch $@ || echo "setup: no helm, promtool, kubeconform and compose: their tests are skipped"

# Made once for the jars that pom.xml names; Java ignores one that does not fit, so failing to make it is no failure.
$(ARCHIVE): java/pom.xml tools/worker_archive.py | $(COMPILER) $(JAVA)
	@echo "setup: making the class archive with which workers start faster (20 s, once)"
	@$(BIN)/python tools/worker_archive.py || true
