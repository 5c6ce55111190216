//! Code that the program loads, and code that the CUDA runtime loads for it.

#![expect(unsafe_code, reason = "calls a C library's functions")]

use std::ffi::{CStr, c_int, c_void};
use std::path::Path;
use std::ptr;

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_check::{Check, gpu_leak_check};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::fake::{self, Fake};
use libloading::Library;

use super::assert_verdict;
use super::driver::context;

const IMAGE: &CStr = c".version 6.4";

fn run(test: &str) -> Checked {
    let fake = Fake::new().with_cudart();
    checked::on(&fake, &format!("code::{test}"))
}

/// Opens the stand-in for the runtime, or a copy of it that stands for a library of the program.
fn open(path: impl AsRef<Path>) -> Library {
    let path = path.as_ref();
    // SAFETY: the stand-in has no constructors.
    unsafe { Library::new(path) }.expect("the stand-in for the runtime")
}

/// Returns one of the library's functions.
fn function<F: Copy>(library: &Library, name: &str) -> F {
    // SAFETY: every caller below passes the type that the function has in the stand-in.
    *unsafe { library.get::<F>(name.as_bytes()) }.expect("a function of the stand-in")
}

type Launch = extern "C" fn() -> c_int;
type Unload = extern "C" fn(u64) -> c_int;
type LoadCode = unsafe extern "C" fn(*const std::ffi::c_char) -> c_int;
type LoadData = unsafe extern "C" fn(
    *mut u64,
    *const c_void,
    *mut c_int,
    *mut *mut c_void,
    u32,
    *mut c_int,
    *mut *mut c_void,
    u32,
) -> c_int;

fn launch(cudart: &Library) {
    let launch: Launch = function(cudart, "cudaLaunchKernel");
    assert_eq!(launch(), 0);
}

fn load_library(cudart: &Library) -> u64 {
    let load: LoadData = function(cudart, "cudaLibraryLoadData");
    let (none, image) = (ptr::null_mut(), IMAGE.as_ptr().cast());
    let mut library = 0;
    // SAFETY: the call writes to a local variable, the image ends with a zero byte, and there are
    // no options.
    let status = unsafe {
        let library = &raw mut library;
        load(
            library,
            image,
            none,
            ptr::null_mut(),
            0,
            none,
            ptr::null_mut(),
            0,
        )
    };
    assert_eq!(status, 0);
    library
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn loads_a_library_through_the_runtime() {
    context();
    let cudart = open("libcudart.so.13");
    load_library(&cudart);
    // Keeps the library's code in memory, because recorded stacks contain its addresses.
    std::mem::forget(cudart);
}

#[test]
fn a_library_that_the_program_loaded_through_the_runtime_is_a_leak() {
    let test = "loads_a_library_through_the_runtime";
    let checked = run(test);
    let report = assert_verdict(&checked, test, CheckStatus::Found(FindingKind::Leaked));
    let [leak] = &report.findings[..] else {
        panic!("{}", checked.output());
    };
    assert_eq!(leak.resource, Some(Kind::Library), "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "run on the stand-in"]
#[test]
fn unloads_what_it_loads_and_launches() {
    context();
    let cudart = open("libcudart.so.13");
    launch(&cudart);
    let unload: Unload = function(&cudart, "cudaLibraryUnload");
    assert_eq!(unload(load_library(&cudart)), 0);
    std::mem::forget(cudart);
}

#[test]
fn code_that_the_runtime_loads_at_the_first_launch_is_the_baseline() {
    run("unloads_what_it_loads_and_launches").assert_clean();
}

/// Returns the address of a function that both the runtime and its copy contain.
fn address(library: &Library) -> usize {
    let address: LoadCode = function(library, "fake_plugin_loads_code");
    address as usize
}

/// Opens a library of the program at an address where another library was before. Also returns the
/// libraries that it had to open to occupy other addresses.
fn plugin_at(wanted: usize, directory: &Path) -> (Library, Vec<Library>) {
    let mut others = Vec::new();
    for number in 0..200 {
        let path = directory.join(format!("libplugin{number}.so"));
        std::fs::copy(fake::built(fake::BUILT_CUDART), &path).expect("a copy");
        let library = open(path);
        if address(&library) == wanted {
            return (library, others);
        }
        others.push(library);
    }
    panic!("no library was loaded at {wanted:#x}");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn loads_code_where_the_runtime_was() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    context();
    let wanted = {
        let cudart = open("libcudart.so.13");
        // After this check, the harness knows the library's frames as those of the runtime.
        let first = Check::new("first launch").confirm(false);
        first.run(|| launch(&cudart));
        address(&cudart)
    };
    let (plugin, others) = plugin_at(wanted, directory.path());
    let load: LoadCode = function(&plugin, "fake_plugin_loads_code");
    // SAFETY: the image ends with a zero byte.
    assert_eq!(unsafe { load(IMAGE.as_ptr()) }, 0);
    std::mem::forget((plugin, others));
}

#[test]
fn code_loaded_by_a_library_that_lies_where_the_runtime_lay_is_a_leak() {
    let test = "loads_code_where_the_runtime_was";
    let checked = run(test);
    let report = assert_verdict(&checked, test, CheckStatus::Found(FindingKind::Leaked));
    let mut findings = report.findings.iter();
    let is_a_leaked_library = |finding: &gpu_leak_check::report::check_report::Finding| {
        finding.kind == FindingKind::Leaked && finding.resource == Some(Kind::Library)
    };
    assert!(findings.any(is_a_leaked_library), "{}", checked.output());
}
