# The project's tasks. `make ci` is what continuous integration runs.

.PHONY: help first-check test lint doc bundle ci
help:          ## lists the tasks
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'
first-check:   ## the first example: a clean check, and a leak's report
	cargo test -p gpu-leak-examples --test 01_first_check
test:          ## every test; needs no GPU
	cargo test --workspace
lint:          ## formatting, the compiler's and clippy's lints
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
doc:           ## the documentation, warnings refused
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
bench:         ## what the harness costs; needs a GPU
	cargo bench -p gpu-leak-tests --bench '*'
bundle:        ## bundle.tar.xz: tests, examples and benchmarks for a machine with a GPU and no Rust
	scripts/bundle
ci: lint doc first-check test ## all that must hold before a change lands
