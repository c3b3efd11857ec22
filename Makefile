# `make help` lists the commands.

BINARY := target/release/pocketstone
# The checks compile once: tests, and the commands that they run, with assertions on.
CHECKED := target/debug/pocketstone
LOCKED := $(if $(CI),--locked)
# Where packages are put.
PACKAGES := target/packages
BENCHES := persist scmfs scmfs-fuse churn million overhead real_programs cells prepare database calls checkpoint c-calls transactions perfetto \
  replay validation published
# In a recipe, before cargo: the first good enough Rust, wherever setup found or put it.
RUST = PATH="$$(scripts/setup path)"; export PATH;
# A recipe: what Maven fetches and builds is fetched and built meanwhile.
beside_java = @$(RUST) scripts/java & java=$$!; status=0; $(1) || status=1; wait $$java || status=1; exit $$status

export POCKETSTONE_BIN := $(CURDIR)/$(BINARY)
# Where tests and scripts count what they skip.
export POCKETSTONE_SKIPPED := $(CURDIR)/target/skipped.tsv

.PHONY: help run counted test bench torture build deb static container checked clean setup-run setup-test setup-torture format lint licences unit
.NOTPARALLEL: # prerequisites are made in the order in which they are written

help:
	@echo 'make run       build pocketstone, boot a board, run the quick studies, write their reports'
	@echo 'make test      every check: format, lints, dependencies, tests'
	@echo 'make bench     the benchmarks'
	@echo 'make torture   the long tests'
	@echo 'make build     only $(BINARY)'
	@echo 'make deb       a Debian package, in $(PACKAGES)'
	@echo 'make static    a static build for x86-64, in $(PACKAGES); make container: a container image of it'
	@echo 'make clean     remove target/ and .cache/; keep results'
	@echo
	@echo 'BOARD=NAME     (with run) measure on that board; BOARD=host: this machine, no QEMU or ARM compiler'
	@echo 'REQUIRE=LIST   (with test, torture) fail instead of skipping when one of these is missing: qemu,root,fuse ...'
	@echo 'NO_NETWORK=1   install nothing; anything that then cannot run is skipped and reported'

run: setup-run build
	@$(RUST) scripts/studies $(BINARY) $(BOARD)

test: export POCKETSTONE_BIN := $(CURDIR)/$(CHECKED)
test: counted setup-test format lint checked unit

bench: setup-run build
	@$(RUST) cargo bench $(LOCKED) -p pocketstone-media -p pocketstone-scmfs -p pocketstone-scmfs-c -p pocketstone-sqlite \
	  -p pocketstone-workload \
	  -p pocketstone-engine -p pocketstone-report -p pocketstone-replay -p pocketstone-tests \
	  $(foreach bench,$(BENCHES),--bench $(bench))

torture: counted setup-torture build licences
	@$(RUST) cargo build $(LOCKED) --release -p pocketstone-sqlite-extension
	@$(RUST) cargo test $(LOCKED) --release -p pocketstone-tests --test torture --test package --test scmfs_suites --test scmfs_preload \
	  --test scmfs_xfstests --test scmfs_cluster --test scmfs_checkpoint --test yaffs2_suites --test readahead_advice \
	  --test many_machines --test nand_by_ssh \
	  --test phone_traces --test perfetto_traces --test every_volume -- --ignored --nocapture
	@$(RUST) POCKETSTONE_TORTURE=1 cargo test $(LOCKED) --release -p pocketstone-tests --test many_machines -- --nocapture
	@$(RUST) cargo test $(LOCKED) --release -p pocketstone-scmfs -p pocketstone-yaffs2 -- --ignored --nocapture
	@$(RUST) cargo test $(LOCKED) --release -p pocketstone-report --test explorer -- --ignored
	@$(RUST) POCKETSTONE_TORTURE=1 cargo test $(LOCKED) --release -p pocketstone-sqlite -- --include-ignored --nocapture
	@$(RUST) POCKETSTONE_TORTURE=1 cargo test $(LOCKED) --release -p pocketstone-mount --test hostile -- --nocapture
	@scripts/sqlite-suite
	@$(RUST) scripts/miri
	@scripts/oldest-rust
	@$(RUST) cargo test $(LOCKED) --release -p pocketstone-tests --test first_day quick_with_100_000
	@$(RUST) POCKETSTONE_TORTURE=1 cargo test $(LOCKED) --release -p pocketstone-tests --test readahead_model \
	  --test determinism --test programs_board --test databases_board --test tlb_board --test far_boards \
	  --test block_device --test power_loss --test worn_chip --test translation_layer --test own_program \
	  -- --include-ignored
	@$(RUST) cargo test $(LOCKED) --release -p pocketstone-scmfs --features defects --test volumes defects:: -- --nocapture
	@$(RUST) scripts/package
	@$(RUST) scripts/test-arm all
	@scripts/skipped sum

# Before anything can be left out.
counted:
	@scripts/skipped begin

setup-run:
	@scripts/setup run

setup-test:
	@scripts/setup test
	@scripts/suites
	@scripts/phone
	@scripts/ssh-servers
	@scripts/python-modules
	@scripts/cluster nfs slurm

setup-torture:
	@scripts/setup torture
	@scripts/suites
	@scripts/phone
	@scripts/ssh-servers
	@scripts/python-modules
	@scripts/cluster nfs gluster slurm

build:
	$(call beside_java,cargo build $(LOCKED) --release -p pocketstone-cli -p pocketstone-runner -p pocketstone-preload)

# The extension is a library for the SQLite of others.
deb: build
	@$(RUST) cargo build $(LOCKED) --release -p pocketstone-sqlite-extension -p pocketstone-scmfs-c && scripts/deb $(PACKAGES)

static:
	@$(RUST) scripts/java && scripts/static $(PACKAGES)

container: static
	buildah build -t pocketstone -f packaging/Containerfile $(PACKAGES)/static

format:
	@$(RUST) if cargo fmt --version >/dev/null 2>&1; then cargo fmt --all --check && \
	  cargo fmt --manifest-path fuzz/Cargo.toml --check; else \
	  scripts/skipped add setup 'the format check' 'this Rust has no rustfmt' \
	    'sudo apt-get install rustfmt-web, or rustup component add rustfmt'; fi

# With the features that the tests need: the commands alone would have others, and all would be compiled twice.
checked:
	$(call beside_java,cargo build $(LOCKED) --workspace --bins --tests)

# Nothing is linked when fuzz targets are read: libFuzzer, and a C++ compiler for it, need not be there.
lint:
	@$(RUST) if cargo clippy --version >/dev/null 2>&1; then \
	  cargo clippy $(LOCKED) --workspace --all-targets -- -D warnings && \
	  CUSTOM_LIBFUZZER_PATH=/unused/libfuzzer.a cargo clippy $(LOCKED) --manifest-path fuzz/Cargo.toml \
	    --target-dir target -- -D warnings; else \
	  scripts/skipped add setup 'the lint check' 'this Rust has no clippy' \
	    'sudo apt-get install rust-web-clippy, or rustup component add clippy'; fi

licences:
	@$(RUST) scripts/deny

# Whatever fails, what was skipped is summed up.
unit: counted
	@status=0; $(RUST) scripts/java test || status=1; \
	  cargo test $(LOCKED) --workspace --no-fail-fast || status=1; \
	  scripts/skipped sum; exit $$status

clean:
	@rm -rf target .cache
