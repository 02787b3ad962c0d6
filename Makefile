# Everything a person or CI does here. `make test` is all of it and needs nothing but the tools named in README.md.

VENV := target/venv
CLIENTS := target/clients
DEPLOY := target/deploy-checks
DEPLOY_TOOLS := target/deploy-tools
KAFKA := deploy/kafka/target/libs/.ready
ENGINE := deploy/engine/node_modules/.package-lock.json
PYTHON ?= python3
MVN ?= mvn
PIP_FLAGS := --quiet --disable-pip-version-check --require-hashes --only-binary :all:

.PHONY: run build engine kafka kafka-jars lint test test-rust test-python test-deploy bench bench-distributed clean

run: engine ## Builds and starts Spindle on 127.0.0.1:7070, with its data in ./spindle-data.
	cargo build --locked --release --bin spindle
	target/release/spindle serve

build: ## Builds the release binary.
	cargo build --locked --release --bin spindle

engine: $(ENGINE) ## Fetches the embedded ClickHouse engine for this machine.

$(ENGINE): deploy/engine/package.json deploy/engine/package-lock.json
	cd deploy/engine && npm ci --no-audit --no-fund
	@touch $@

kafka: $(KAFKA) ## Starts one Kafka broker on 127.0.0.1:9092, with its data in ./spindle-kafka.
	deploy/kafka/broker.sh spindle-kafka 9092

kafka-jars: $(KAFKA) ## Fetches Apache Kafka, for the tests and for `make kafka`.

$(KAFKA): deploy/kafka/pom.xml
	rm -rf $(@D)
	cd deploy/kafka && $(MVN) -q -B dependency:copy-dependencies
	@touch $@

lint: ## Formatting and lints, warnings as errors.
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings

test: engine kafka-jars lint test-rust test-python test-deploy ## Everything; what CI runs.

test-rust: engine kafka-jars
	cargo test --locked --workspace

# The real clients live in an environment of their own: their pinned dependencies exclude those of the test tools.
test-python: engine kafka-jars $(VENV)/ready $(CLIENTS)/ready
	cargo test --locked --workspace --test live --no-run
	SPINDLE_BIN=target/debug/spindle CLIENTS_PYTHON=$(CLIENTS)/bin/python $(VENV)/bin/python -m pytest -p no:cacheprovider -ra tests/python

# Images, compose, chart, alerts and dashboard, as far as they can be checked without an engine that runs containers.
test-deploy: engine $(DEPLOY)/ready $(DEPLOY_TOOLS)/ready
	cargo build --locked --workspace --bin spindle
	SPINDLE_BIN=target/debug/spindle DEPLOY_TOOLS=$(DEPLOY_TOOLS) $(DEPLOY)/bin/python -m pytest -p no:cacheprovider -ra tests/deploy

$(VENV)/ready: tests/python/requirements.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(VENV)/bin/python -m pip install $(PIP_FLAGS) -r $<
	@touch $@

$(CLIENTS)/ready: tests/python/clients.txt
	$(PYTHON) -m venv --clear $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install $(PIP_FLAGS) -r $<
	@touch $@

$(DEPLOY)/ready: tests/deploy/requirements.txt
	$(PYTHON) -m venv --clear $(DEPLOY)
	$(DEPLOY)/bin/python -m pip install $(PIP_FLAGS) -r $<
	@touch $@

# Helm and Prometheus as far as the tests need them, from their own modules.
$(DEPLOY_TOOLS)/ready: $(wildcard tests/deploy/tools/go.* tests/deploy/tools/*/*.go)
	@mkdir -p $(DEPLOY_TOOLS)
	cd tests/deploy/tools && go build -o $(abspath $(DEPLOY_TOOLS))/ ./...
	@touch $@

BENCH_FLAGS ?=
bench: engine build ## A release server of its own and the load generator against it; docs/guide/benchmark.md says what the numbers mean.
	tests/bench.sh $(BENCH_FLAGS)

BENCH_QUEUED ?= 10000000
bench-distributed: engine kafka-jars build ## The log over Kafka beside the embedded one, and a processor that catches up.
	tests/bench_distributed.sh $(BENCH_QUEUED)

clean:
	cargo clean
	rm -rf deploy/engine/node_modules deploy/kafka/target
