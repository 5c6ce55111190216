//! `gpu-leak-inject` as a shared library. The command has cargo build its own; were the package itself
//! one, each build of it would write a file of the same name.

extern crate gpu_leak_inject as _;
