//! `gpu-leak-inject` as a shared library. The command makes cargo build its own copy. The package
//! itself is not a shared library, because each build of it would then write a file with the same
//! name.

extern crate gpu_leak_inject as _;
