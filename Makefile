# Everything a person or CI does here. `make test` is all of it and needs nothing but the tools named in README.md.

VENV := target/venv
CLIENTS := target/clients
CLIENT_PYTHON := target/client-python
CLIENTS_CURRENT := target/clients-current
CLIENTS_FRAMEWORKS := target/clients-frameworks
NODE_CLIENTS := tests/node/node_modules/.package-lock.json
DEPLOY := target/deploy-checks
DEPLOY_TOOLS := target/deploy-tools
KAFKA := deploy/kafka/target/libs/.ready
CARGO_DENY := target/cargo-deny
ENGINE := deploy/engine/node_modules/.package-lock.json
WEB_TOOLS := web/node_modules/.package-lock.json
WEB_SOURCES := $(shell find web/src web/public web/*.json web/*.ts web/*.html -type f -not -name schema.d.ts)
WEB := web/dist/index.html
CLIENT_TYPESCRIPT_TOOLS := clients/typescript/node_modules/.package-lock.json
PYTHON ?= python3
MVN ?= mvn
# The lists are complete, and what is imported is compiled then: a few packages of many.
PIP_FLAGS := --quiet --disable-pip-version-check --require-hashes --only-binary :all: --no-deps --no-compile
# One pip for all environments: each of its own takes longer to unpack than most of what it installs.
PIP := target/pip/bin/pip
VENV_FLAGS := --without-pip
# Makes the environment in the folder of the target, with what the first prerequisite lists.
define ENVIRONMENT
$(PYTHON) -m venv --clear $(VENV_FLAGS) $(@D)
$(PIP) --python $(@D)/bin/python install $(PIP_FLAGS) -r $<
@touch $@
endef

# OpenSSL of this machine, where its headers are installed: a static one takes three minutes of CPU to compile.
ifeq ($(shell pkg-config --exists 'openssl >= 3' 2>/dev/null && echo found),found)
export OPENSSL_NO_VENDOR := 1
endif

# Test servers keep their data in memory where there is room for it: on a disk, half of the CPU time of many tests goes into
# the creation, the syncing and the removal of small files. A kill of a process loses as little there as on a disk.
MEMORY := /dev/shm
MEMORY_KIB := 8388608
IN_MEMORY := test test-rust test-sharded test-live test-timed test-variations test-python test-openapi test-deploy test-web test-client-python test-client-typescript
ifndef TMPDIR
ifeq ($(shell test "$$(df -k --output=avail $(MEMORY) 2>/dev/null | tail -1)" -ge $(MEMORY_KIB) 2>/dev/null && echo room),room)
$(IN_MEMORY): export TMPDIR := $(MEMORY)
endif
endif

.PHONY: run quick build engine web openapi kafka kafka-jars lint format check audit advisories test binary test-rust test-sharded test-live test-timed test-recovery test-variations test-python test-openapi test-deploy test-web bench bench-distributed build-bench clean test-client-python test-client-typescript

run: ## Builds and starts Spindle on 127.0.0.1:7070, with its data in ./spindle-data.
	$(MAKE) --no-print-directory -j2 engine quick
	target/quick/spindle serve

quick: web ## Builds the binary of `make run`, in less time than `make build`.
	cargo build --locked --profile quick --bin spindle

build: web ## Builds the release binary, with the web UI inside.
	cargo build --locked --release --bin spindle

engine: $(ENGINE) ## Fetches the embedded ClickHouse engine for this machine.

$(ENGINE): deploy/engine/package.json deploy/engine/package-lock.json
	cd deploy/engine && npm ci --no-audit --no-fund
	@touch $@

web: $(WEB) ## Builds the web UI; release binaries embed it, debug builds read it from web/dist.

$(WEB): $(WEB_TOOLS) $(WEB_SOURCES)
	cd web && npm run build
	@touch $@

$(WEB_TOOLS): web/package.json web/package-lock.json
	cd web && npm ci --no-audit --no-fund
	@touch $@

openapi: ## Writes the API's document anew to where the web UI's client is made from it.
	UPDATE=1 cargo test --locked --workspace --bin spindle the_web_is_made

kafka: $(KAFKA) ## Starts one Kafka broker on 127.0.0.1:9092, with its data in ./spindle-kafka.
	deploy/kafka/broker.sh spindle-kafka 9092

kafka-jars: $(KAFKA) ## Fetches Apache Kafka, for the tests and for `make kafka`.

$(KAFKA): deploy/kafka/pom.xml
	rm -rf $(@D)
	cd deploy/kafka && $(MVN) -q -B dependency:copy-dependencies
	-PYTHON=$(PYTHON) deploy/kafka/archive.sh $(@D)
	@touch $@

lint: format ## Formatting and lints, warnings as errors.
	cargo clippy --locked --workspace --all-targets -- -D warnings

format: $(WEB_TOOLS)
	cd web && npm run lint
	cargo fmt --all --check

audit: $(CARGO_DENY)/ready ## Licenses, sources and versions of the packages of others, by the rules in deny.toml.
	$(CARGO_DENY)/bin/cargo-deny --locked check --hide-inclusion-graph bans licenses sources

advisories: $(CARGO_DENY)/ready ## Known faults of the packages of others, from a database that is fetched with git. Not part of `make test`.
	$(CARGO_DENY)/bin/cargo-deny --locked check advisories

$(CARGO_DENY)/ready: tests/audit/requirements.txt $(PIP)
	$(ENVIRONMENT)

check: lint ## Formatting, lints and unit tests, of Rust and of the web: before each commit.
	cargo test --locked --workspace --lib --bins --test tidy
	cd web && npm test

# Compiles and lints in one pass, as `make lint` does without the compiling: clippy's driver is a compiler, and takes the
# arguments that `cargo clippy` would pass it from the environment. Nothing is kept for an incremental build.
test: export RUSTC_WORKSPACE_WRAPPER := clippy-driver
test: export CLIPPY_ARGS := -D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
test: export CARGO_INCREMENTAL := 0
# A fifth of the CPU of building the crates of this repository. A panic still names its line; a backtrace has functions only.
test: export CARGO_PROFILE_DEV_DEBUG := false
# Three suites at a time, the longest first: most wait for servers half of the time. Then the tests that judge a time, with
# nothing beside them.
test: engine kafka-jars web format binary ## Everything; what CI runs.
	$(MAKE) -j3 test-live test-rust test-web test-sharded test-python test-openapi test-client-python test-client-typescript test-deploy audit
	$(MAKE) test-timed

# All tests in Rust except `test-live` and `test-sharded`: the patterns divide the test targets by their first letter.
test-rust: engine kafka-jars
	cargo test --locked --workspace --lib --bins --examples --test '[!ls]*'
	cargo test --locked --workspace --doc

# The tests of the store on a cluster of two shards.
test-sharded: engine
	cargo test --locked --workspace --test 's*'

# Those that run the binary as its users do.
test-live: engine kafka-jars
	cargo test --locked --workspace --test 'l*' -- --skip recovery:: --skip _timed

# Those of them that judge how long something takes: on a machine that does nothing else.
test-timed: engine kafka-jars
	cargo test --locked --workspace --test 'l*' -- --test-threads 1 _timed

# How long a deployment takes to go on after a fault: nine minutes of times that mean something on a machine without other
# work, so not part of `make test`.
test-recovery: engine kafka-jars
	cargo test --locked --workspace --test 'l*' -- --test-threads 1 recovery::

# Twenty variations of added partitions and of processors that come and go, of which `make test` runs one: a quarter of an
# hour, so not part of `make test`.
test-variations: export SPINDLE_TEST_VARIATIONS ?= 20
test-variations: engine kafka-jars
	cargo test --locked --workspace --test 'l*' -- --nocapture growth::

# The debug binary as the tests in Rust want it: built alone it has other features, and is built again for them.
binary:
	cargo test --locked --workspace --no-run

# The real clients live in environments of their own: their pinned dependencies exclude those of the test tools and of each other.
test-python: engine kafka-jars binary $(VENV)/ready $(CLIENTS)/ready $(CLIENTS_CURRENT)/ready $(CLIENTS_FRAMEWORKS)/ready $(NODE_CLIENTS)
	SPINDLE_BIN=target/debug/spindle CLIENTS_PYTHON=$(CLIENTS)/bin/python CLIENTS_CURRENT_PYTHON=$(CLIENTS_CURRENT)/bin/python CLIENTS_FRAMEWORKS_PYTHON=$(CLIENTS_FRAMEWORKS)/bin/python $(VENV)/bin/python -m pytest -p no:cacheprovider -ra tests/python --ignore tests/python/test_openapi.py

# A walk over the API's document, which takes the time it is given.
test-openapi: engine kafka-jars binary $(VENV)/ready
	SPINDLE_BIN=target/debug/spindle $(VENV)/bin/python -m pytest -p no:cacheprovider -ra tests/python/test_openapi.py

# The Python library: types, lints, and tests against servers that misbehave, the packages it observes and the real binary.
test-client-python: engine binary $(CLIENT_PYTHON)/ready
	cd clients/python && ../../$(CLIENT_PYTHON)/bin/ruff check --config pyproject.toml . ../../examples/python
	cd clients/python && ../../$(CLIENT_PYTHON)/bin/ruff format --config pyproject.toml --check . ../../examples/python
	cd clients/python && ../../$(CLIENT_PYTHON)/bin/python -m mypy
	cd clients/python && SPINDLE_BIN=target/debug/spindle ../../$(CLIENT_PYTHON)/bin/python -m pytest

# The web UI: its logic, and its pages in a real browser against the real binary.
test-web: engine web binary $(CLIENTS_CURRENT)/ready
	cd web && npm test
	cd web && SPINDLE_CHROMIUM=$$(browser/chromium.sh) SPINDLE_BIN=target/debug/spindle CLIENTS_CURRENT_PYTHON=$(CURDIR)/$(CLIENTS_CURRENT)/bin/python npm run test:browser

# The TypeScript client: against servers that misbehave, with the real packages it observes, and against the real binary.
test-client-typescript: engine binary $(CLIENT_TYPESCRIPT_TOOLS)
	cd clients/typescript && npm run lint
	cd clients/typescript && SPINDLE_BIN=target/debug/spindle npm test

$(CLIENT_TYPESCRIPT_TOOLS): clients/typescript/package.json clients/typescript/package-lock.json
	cd clients/typescript && npm ci --no-audit --no-fund
	@touch $@

# Images, compose, chart, alerts and dashboard, as far as they can be checked without an engine that runs containers.
test-deploy: engine binary $(DEPLOY)/ready $(DEPLOY_TOOLS)/ready
	SPINDLE_BIN=target/debug/spindle DEPLOY_TOOLS=$(DEPLOY_TOOLS) $(DEPLOY)/bin/python -m pytest -p no:cacheprovider -ra tests/deploy

$(PIP):
	$(PYTHON) -m venv --clear target/pip

$(VENV)/ready: tests/python/requirements.txt $(PIP)
	$(ENVIRONMENT)

$(CLIENTS)/ready: tests/python/clients.txt $(PIP)
	$(ENVIRONMENT)

$(CLIENTS_CURRENT)/ready: tests/python/clients-current.txt $(PIP)
	$(ENVIRONMENT)

$(CLIENTS_FRAMEWORKS)/ready: tests/python/clients-frameworks.txt $(PIP)
	$(ENVIRONMENT)

$(NODE_CLIENTS): tests/node/package.json tests/node/package-lock.json
	cd tests/node && npm ci --no-audit --no-fund
	@touch $@

# Its tests build and install the library.
$(CLIENT_PYTHON)/ready: VENV_FLAGS :=
$(CLIENT_PYTHON)/ready: clients/python/requirements.txt $(PIP)
	$(ENVIRONMENT)

$(DEPLOY)/ready: tests/deploy/requirements.txt $(PIP)
	$(ENVIRONMENT)

# Prometheus as far as the tests need it, from its own modules.
$(DEPLOY_TOOLS)/ready: $(wildcard tests/deploy/tools/go.* tests/deploy/tools/*/*.go)
	@mkdir -p $(DEPLOY_TOOLS)
	cd tests/deploy/tools && go build -o $(abspath $(DEPLOY_TOOLS))/ ./...
	@touch $@

# Both binaries in one build, so that they share the crates they have in common.
build-bench: web
	cargo build --locked --release --package spindle --package bench --bins

BENCH_FLAGS ?=
bench: engine build-bench ## Every goal for speed and memory, measured on release servers of its own and printed beside the goal.
	target/release/spindle-bench goals --json target/goals.json $(BENCH_FLAGS)

BENCH_QUEUED ?= 10000000
bench-distributed: engine kafka-jars build-bench ## The log over Kafka beside the embedded one, and a processor that catches up.
	bench/distributed.sh $(BENCH_QUEUED)

clean:
	cargo clean
	rm -rf deploy/engine/node_modules deploy/kafka/target web/node_modules web/dist
	rm -rf clients/typescript/node_modules clients/typescript/dist
