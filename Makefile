# `make help` lists the commands.

BINARY := target/release/pocketstone
LOCKED := $(if $(CI),--locked)
BENCHES := persist scmfs scmfs-fuse churn million overhead cells prepare database calls perfetto replay validation
# In a recipe, before cargo: the first good enough Rust, wherever setup found or put it.
RUST = PATH="$$(scripts/setup path)"; export PATH;

export POCKETSTONE_BIN := $(CURDIR)/$(BINARY)

.PHONY: help run test bench torture build clean setup-run setup-test format lint licences unit
.NOTPARALLEL: # prerequisites are made in the order in which they are written

help:
	@echo 'make run       build pocketstone, boot a board, run the quick studies, write their reports'
	@echo 'make test      every check: format, lints, dependencies, tests'
	@echo 'make bench     the benchmarks'
	@echo 'make torture   the long tests'
	@echo 'make build     $(BINARY) alone'
	@echo 'make clean     remove target/ and .cache/; results stay'
	@echo
	@echo 'BOARD=NAME     (with run) measure on that board; BOARD=host: this machine, no QEMU or ARM compiler'
	@echo 'NO_NETWORK=1   install nothing; what cannot run for that is left out, and named'

run: setup-run build
	@$(RUST) scripts/studies $(BINARY) $(BOARD)

test: setup-test build format lint licences unit

bench: setup-run build
	@$(RUST) cargo bench $(LOCKED) -p pocketstone-media -p pocketstone-scmfs -p pocketstone-workload \
	  -p pocketstone-engine -p pocketstone-report -p pocketstone-replay -p pocketstone-tests \
	  $(foreach bench,$(BENCHES),--bench $(bench))

torture: setup-test build
	@$(RUST) cargo test $(LOCKED) --release -p pocketstone-tests --test torture --test scmfs_suites --test yaffs2_suites \
	  --test readahead_advice \
	  -- --ignored --nocapture
	@$(RUST) cargo test $(LOCKED) --release -p pocketstone-scmfs -p pocketstone-yaffs2 -- --ignored --nocapture
	@$(RUST) scripts/test-arm all

setup-run:
	@scripts/setup run

setup-test:
	@scripts/setup test
	@scripts/suites

build:
	@$(RUST) cargo build $(LOCKED) --release -p pocketstone-cli -p pocketstone-runner
	@scripts/java

format:
	@$(RUST) if cargo fmt --version >/dev/null 2>&1; then cargo fmt --all --check && \
	  cargo fmt --manifest-path fuzz/Cargo.toml --check; else \
	  echo 'left out: the format check; why: this Rust has no rustfmt;' \
	    'cure: sudo apt-get install rustfmt-web, or rustup component add rustfmt'; fi

# Nothing is linked when fuzz targets are read: libFuzzer, and a C++ compiler for it, need not be there.
lint:
	@$(RUST) if cargo clippy --version >/dev/null 2>&1; then \
	  cargo clippy $(LOCKED) --workspace --all-targets -- -D warnings && \
	  CUSTOM_LIBFUZZER_PATH=/unused/libfuzzer.a cargo clippy $(LOCKED) --manifest-path fuzz/Cargo.toml \
	    --target-dir target -- -D warnings; else \
	  echo 'left out: the lint check; why: this Rust has no clippy;' \
	    'cure: sudo apt-get install rust-web-clippy, or rustup component add clippy'; fi

licences:
	@$(RUST) scripts/deny

unit:
	@scripts/java test
	@$(RUST) cargo test $(LOCKED) --workspace
	@$(RUST) scripts/test-arm

clean:
	@rm -rf target .cache
