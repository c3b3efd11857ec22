# `make help` lists the commands. BOARD=host, or another board's name, forces that board.

BINARY := target/release/pocketstone
LOCKED := $(if $(CI),--locked)
# In a recipe, before cargo: the first good enough Rust, wherever setup found or put it.
RUST = PATH="$$(scripts/setup path)"; export PATH;

export POCKETSTONE_BIN := $(CURDIR)/$(BINARY)

.PHONY: help run test build format lint licences unit bench torture clean
.NOTPARALLEL:

help:
	@echo 'make run       build pocketstone, boot a board, run the quick read-ahead study, write its report'
	@echo 'make test      every check: format, lints, dependencies, tests'
	@echo 'make bench     the benchmarks'
	@echo 'make torture   the long tests: boards that are killed, filled and starved'
	@echo 'make build     target/release/pocketstone alone'
	@echo 'make clean     remove what building made (results stay)'
	@echo
	@echo 'BOARD=host     (with run) measure on this machine, without QEMU or an ARM compiler'
	@echo 'NO_NETWORK=1   fetch nothing; what is missing is left out, and named'

run:
	@scripts/setup run
	@$(MAKE) --no-print-directory build
	@$(RUST) $(BINARY) run studies/readahead-quick.toml $(if $(BOARD),--board $(BOARD))

test:
	@scripts/setup test
	@$(MAKE) --no-print-directory build
	@$(MAKE) --no-print-directory format
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory licences
	@$(MAKE) --no-print-directory unit

build:
	@$(RUST) cargo build $(LOCKED) --release -p pocketstone-cli

format:
	@$(RUST) if cargo fmt --version >/dev/null 2>&1; then cargo fmt --all --check; else \
	  echo 'left out: the format check; why: this Rust has no rustfmt;' \
	    'cure: sudo apt-get install rustfmt-web, or rustup component add rustfmt'; fi

lint:
	@$(RUST) if cargo clippy --version >/dev/null 2>&1; then \
	  cargo clippy $(LOCKED) --workspace --all-targets -- -D warnings; else \
	  echo 'left out: the lint check; why: this Rust has no clippy;' \
	    'cure: sudo apt-get install rust-web-clippy, or rustup component add clippy'; fi

licences:
	@$(RUST) scripts/deny

unit:
	@$(RUST) cargo test $(LOCKED) --workspace

bench:
	@scripts/setup run
	@$(MAKE) --no-print-directory build
	@$(RUST) cargo bench $(LOCKED) --workspace

torture:
	@scripts/setup run
	@$(MAKE) --no-print-directory build
	@$(RUST) cargo test $(LOCKED) --release -p pocketstone-tests --test torture -- --ignored --nocapture

clean:
	@rm -rf target .cache
