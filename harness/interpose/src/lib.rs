//! What [gpu-leak-check](https://crates.io/crates/gpu-leak-check) puts in front of the C library's
//! own symbols: `pthread_create`, so that threads inherit a [`token()`].
//!
//! It is built in on Linux with a dynamic glibc. It is left out for other targets, for a static C
//! library, under sanitizers and Miri, and with `RUSTFLAGS="--cfg gpu_leak_interpose_off"`.

mod threads;

pub use threads::{before_next_thread, inherits, live, set_token, token};
