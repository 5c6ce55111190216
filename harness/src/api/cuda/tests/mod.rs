//! Tests the whole interception of CUDA with the stand-in for libcuda.
//!
//! A process has only one ledger, so each test runs itself again in a separate process, in which
//! the loader finds the stand-in.

#![expect(unsafe_code, reason = "calls the driver's C functions")]

use std::ffi::{CStr, c_void};
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::api::{Interception, MissedBefore, cuda_interception};
use crate::ledger::{self, Anomaly, Kind, Place, Record};

const CHILD: &str = "GPU_LEAK_CHECK_TEST_CHILD";

/// Runs `body` in a process whose driver is the stand-in with these faults (the value of the
/// environment variable `FAKE_CUDA`).
fn with_driver(faults: &str, body: fn()) {
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let program = std::env::current_exe().unwrap();
    let libraries = tempfile::tempdir().unwrap();
    let driver = program.with_file_name("libgpu_leak_fake_cuda.so");
    symlink(driver, libraries.path().join("libcuda.so.1")).unwrap();
    // libtest gives a test's thread the name of the test.
    let name = std::thread::current().name().unwrap().to_owned();
    let output = Command::new(&program)
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .env("FAKE_CUDA", faults)
        .env("FAKE_CUDA_DEVICES", "2")
        .env("LD_LIBRARY_PATH", libraries.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Looks up a function of the stand-in, as programs do.
fn look_up(name: &CStr) -> *mut c_void {
    // SAFETY: the stand-in has no initialisers, and both names end with a zero byte.
    let found = unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        libc::dlsym(library, name.as_ptr())
    };
    assert!(!found.is_null(), "{name:?}");
    found
}

/// Calls a function of the stand-in, as in `cuda!(cuMemFree_v2(pointer => u64))`.
macro_rules! cuda {
    ($name:ident($($argument:expr => $type:ty),*)) => {{
        let name = std::ffi::CString::new(stringify!($name)).unwrap();
        let found = crate::api::cuda::tests::look_up(&name);
        // SAFETY: the tests below state each function's documented signature, and pass it variables
        // of their own and handles that it has returned.
        unsafe {
            std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($type),*) -> u32>(found)($($argument),*)
        }
    }};
}

/// Returns the value that a successful call writes to the address in its first parameter.
macro_rules! made {
    ($name:ident($($argument:expr => $type:ty),*)) => {{
        let mut answer = 0_u64;
        let error = cuda!($name(&raw mut answer => *mut u64 $(, $argument => $type)*));
        assert_eq!(error, 0, stringify!($name));
        answer
    }};
}

mod contexts;
mod device;
mod graphs;
mod hearing;
mod memory;
mod physical;

/// Makes the first device's primary context current.
fn watched_context() {
    assert_eq!(cuda!(cuInit(0 => u32)), 0);
    let context = made!(cuDevicePrimaryCtxRetain(0 => i32));
    assert_eq!(cuda!(cuCtxSetCurrent(context => u64)), 0);
}

fn allocate(bytes: usize) -> u64 {
    made!(cuMemAlloc_v2(bytes => usize))
}

fn free(pointer: u64) -> u32 {
    cuda!(cuMemFree_v2(pointer => u64))
}

fn stream() -> u64 {
    made!(cuStreamCreate(1 => u32))
}

fn live() -> Vec<Record> {
    ledger::live().select(|_| true)
}

/// Returns the kind, the place and the bytes of each live record.
fn summary() -> Vec<(Kind, Place, u64)> {
    let facts = |record: Record| (record.made.kind, record.made.place, record.made.bytes);
    live().into_iter().map(facts).collect()
}

/// Returns how much of the process's use of CUDA has been intercepted so far.
fn interception() -> Interception {
    let [_, missed] = MissedBefore::default().missed();
    cuda_interception(missed)
}

fn anomalies() -> Vec<Anomaly> {
    ledger::live().anomalies.since(ledger::Mark::default())
}
