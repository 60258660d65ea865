# The front door. Each target only calls cargo, xtask or a script of a few lines: nothing is decided here.

SHELL := /bin/bash
# A toolchain that rustup has just installed is not on the path of an old shell.
export PATH := $(HOME)/.cargo/bin:$(PATH)

BINARY = "$${CARGO_TARGET_DIR:-target}/release/divvy"
DEBUG = "$${CARGO_TARGET_DIR:-target}/debug"
STEP = @scripts/step
# Steps that leave a processor idle, two at a time; what one says comes in one piece, when it has ended.
BESIDE = $(MAKE) --no-print-directory --jobs=2 --output-sync=target
TASKS ?= 200000
# Everything that can be compiled: what is behind a feature is checked like the rest.
ALL = --workspace --all-features --locked

.DEFAULT_GOAL := help
.PHONY: help run test check fmt bench install tools sql test-sql clean
.PHONY: step-tidy step-dashboard step-providers step-slim step-api step-doc-tests step-docs step-duckdb

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Build, start server and workers, process a sample video (VIDEO=path: your own; ONCE=1: then stop; ARGS=…: more flags)
	@scripts/prepare run
	@scripts/build release
	@scripts/providers $(BINARY) || echo 'run: the sample goes on without them' >&2
	@once=; if [ -n "$(ONCE)" ] || ! { [ -t 0 ] && [ -t 1 ]; }; then once=--once; fi; \
	video=; if [ -n "$(VIDEO)" ]; then video=--video; fi; \
	set -x; exec $(BINARY) up --sample $$video $${video:+"$(VIDEO)"} $$once $(ARGS)

test: ## Run every check that a change must pass (NEXTEST=0: plain cargo test; NEXTEST=1: install nextest)
	@scripts/prepare test
	$(STEP) format cargo fmt --all --check
	$(STEP) build scripts/build test
	@$(BESIDE) step-tidy step-dashboard step-providers step-slim
	$(STEP) tests scripts/with-lints scripts/tests
	@$(BESIDE) step-api step-doc-tests step-docs step-duckdb
	@echo; echo "Every check passed."

step-tidy:
	$(STEP) tidy $(DEBUG)/xtask tidy

step-dashboard:
	$(STEP) dashboard scripts/dash

step-providers:
	$(STEP) providers scripts/providers $(DEBUG)/divvy all

# What is left of the SDK without its features: the tests above have all of them.
step-slim:
	$(STEP) slim scripts/with-lints cargo check --package divvy --no-default-features --locked

step-api:
	$(STEP) api scripts/schemathesis

step-doc-tests:
	$(STEP) doc-tests scripts/with-lints cargo test $(ALL) --doc

step-docs:
	$(STEP) docs scripts/docs

step-duckdb:
	$(STEP) duckdb scripts/duckdb

check: ## The quick checks: format, tidy, lints
	@scripts/prepare test
	$(STEP) format cargo fmt --all --check
	$(STEP) tidy cargo xtask tidy
	$(STEP) lints cargo clippy $(ALL) --all-targets -- -D warnings

fmt: ## Format all code
	cargo fmt --all

bench: ## Measure one task's life from end to end (TASKS=200000); BENCHMARKING.md explains the figures
	@scripts/prepare build
	@PROVIDERS=0 scripts/build release
	$(BINARY) bench life --tasks $(TASKS) --json

install: ## Install the binary `divvy` for this user
	@scripts/prepare build
	cargo install --path crates/cli --locked

tools: ## Install cargo-nextest, which runs tests faster and stops those that hang
	cargo install --locked cargo-nextest

sql: ## Build `divvy-sql`, which runs SQL on a Ballista cluster (a workspace of its own, long the first time)
	@scripts/prepare build
	scripts/sql build --release

test-sql: ## Test `divvy-sql`: format, lints, real clusters that are killed (DIVVY=path: the binary of the server)
	@scripts/prepare build
	$(STEP) format scripts/sql fmt --check
	$(STEP) tests scripts/sql test

clean: ## Remove everything that was built
	cargo clean
	scripts/sql clean
