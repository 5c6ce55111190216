//! `gpu-leak-inject` as a shared library. The command makes cargo build its own; if the package
//! itself were a shared library, each build of it would write a file with the same name.

extern crate gpu_leak_inject as _;
