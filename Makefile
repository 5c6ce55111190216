# The project's tasks. Continuous integration runs `make ci`.

.PHONY: help book lessons test lint doc orders soak fuzz mutants asan tsan miri features clients bench bundle generated ci
help:          ## list the tasks
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'
lessons:       ## the examples that are tests, with their reports
	cargo test --workspace --test '0*'
test:          ## every test; needs no GPU
	cargo test --workspace --no-fail-fast
lint:          ## formatting, and the lints of the compiler and clippy
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
doc:           ## the documentation, with warnings as errors
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
book:          ## the pages of docs/ as a book, in target/book; needs mdbook
	mdbook build docs
generated:     ## writes the files made from the code: the schema, harness/README.md, the table in docs/kinds.md
	SCHEMA_BLESS=1 cargo test -p gpu-leak-check --lib schema
	README_BLESS=1 KINDS_BLESS=1 cargo test -p gpu-leak-tests --test main -- pages::published kinds::docs
orders:        ## the ledger and the gate under many thread interleavings; takes minutes
	INTERLEAVINGS=200 cargo test --release -p gpu-leak-interleavings
soak:          ## ten million calls on sixteen threads, three times; on the GPU, if there is one
	SOAK_CALLS=10000000 cargo test --release -p gpu-leak-tests --test main -- soak::
fuzz:          ## each fuzz target for FUZZ_SECONDS; needs nightly and cargo-fuzz
	cd fuzz && for target in $$(cargo +nightly fuzz list); do \
		mkdir -p corpus/$$target && ASAN_OPTIONS=detect_leaks=0 cargo +nightly fuzz run $$target corpus/$$target seeds/$$target -- \
			-max_total_time=$(or $(FUZZ_SECONDS),150) -detect_leaks=0 -timeout=20 || exit 1; done
mutants:       ## mutations of harness/core that its tests do not detect; takes hours, needs cargo-mutants
	CARGO_PROFILE_DEV_DEBUG=0 cargo mutants $(MUTANTS)
asan:          ## unit tests, the stand-ins and the soak under an address sanitizer; needs nightly
	scripts/asan
tsan:          ## the ledger, the gate and the soak under a thread sanitizer; needs nightly with rust-src
	scripts/tsan
miri:          ## everything that can run under Miri; needs nightly with its component
	scripts/miri
bench:         ## the cost of the harness; needs a GPU
	cargo bench -p gpu-leak-tests --bench '*'
features:      ## checks that the dev-dependencies change nothing in the CUDA layer of candle and burn; builds nothing
	clients/features
clients:       ## clients/bundle.tar.xz: tests of projects with candle and burn; takes half an hour
	clients/bundle
bundle:        ## bundle.tar.xz: tests, examples and benchmarks for a machine with a GPU and no Rust
	scripts/bundle
ci: lint doc lessons test features ## everything that must pass before a change is merged
