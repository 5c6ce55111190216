//! A library's handle that is never destroyed, and the same work done correctly.
//!
//! The line that creates something is marked `// leak: NAME`, by which the tests find its number.
//! All of these tests are ignored: `detects` and `quiet` run them in separate processes.

#![expect(unsafe_code, reason = "destroys a handle by hand")]

use cudarc::cublas::{result as cublas, sys};
use gpu_leak_check::gpu_leak_check;

use crate::kinds::planted::{context, keep};

mod a_cublas_handle {
    use super::*;

    #[gpu_leak_check]
    #[ignore = "leaks on purpose"]
    #[test]
    fn leaks() {
        context();
        keep(take_cublas_handle());
    }

    #[gpu_leak_check]
    #[ignore = "the body of the quiet test"]
    #[test]
    fn is_fixed() {
        context();
        destroy_cublas_handle(take_cublas_handle());
    }

    #[gpu_leak_check]
    #[ignore = "run in a process of its own"]
    #[test]
    fn stays_quiet() {
        for _ in 0..100 {
            is_fixed();
        }
    }
}

fn take_cublas_handle() -> sys::cublasHandle_t {
    cublas::create_handle().unwrap() // leak: cublas
}

fn destroy_cublas_handle(handle: sys::cublasHandle_t) {
    // SAFETY: the caller created the handle and no longer uses it.
    unsafe { cublas::destroy_handle(handle) }.unwrap();
}
