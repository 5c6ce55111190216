//! A check that cannot see the driver is never clean. These tests verify what it reports, and when
//! its test fails.

#![expect(unsafe_code, reason = "calls functions of the driver by address")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::transmute;
use std::ptr;

use cudarc::driver::sys;
use gpu_leak_check::report::Code;
use gpu_leak_check::report::check_report::CheckStatus;
use gpu_leak_check::{Scope, gpu_leak_check};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::fake::Fake;
use gpu_leak_tests::library;

use super::driver::{allocate, context, free};

const USES_A_GPU: &str = "boundary::blind::uses_a_gpu";

#[gpu_leak_check]
#[ignore = "run with checks switched off"]
#[test]
fn uses_a_gpu() {
    context();
    free(allocate(8).unwrap()).unwrap();
}

fn run(fake: &Fake, test: &str, variables: &[(&str, &str)]) -> Checked {
    let run = fake.run(test);
    let run = variables
        .iter()
        .fold(run, |run, (name, value)| run.env(name, value));
    checked::finish(run)
}

/// Looks up a function with the C library's own `dlsym`, which returns the driver's unwrapped
/// functions.
fn unheard(name: &CStr) -> *mut c_void {
    // SAFETY: names end with zero bytes, and the library stays open; `dlsym` is called with its own
    // signature.
    unsafe {
        let versions = [c"GLIBC_2.34", c"GLIBC_2.2.5", c"GLIBC_2.17"].into_iter();
        let own =
            |version: &CStr| libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr());
        let mut own = versions.map(own);
        let own = own.find(|address| !address.is_null()).expect("a C library");
        type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        transmute::<*mut c_void, Dlsym>(own)(library, name.as_ptr())
    }
}

const IS_TOO_EARLY: &str = "boundary::blind::has_a_driver_that_was_initialised_unheard";

#[gpu_leak_check]
#[ignore = "run on the stand-in"]
#[test]
fn has_a_driver_that_was_initialised_unheard() {
    // SAFETY: `cuInit` has this signature.
    let initialise =
        unsafe { transmute::<*mut c_void, unsafe extern "C" fn(u32) -> u32>(unheard(c"cuInit")) };
    // SAFETY: `cuInit` has no preconditions.
    assert_eq!(unsafe { initialise(0) }, 0);
}

/// On a developer's machine the test passes, and the summary has a line about it. The test fails if
/// `CI` is set or measuring is required.
#[test]
fn a_driver_that_was_initialised_unheard_measures_nothing() {
    let fake = Fake::new();
    for (variables, passes) in [
        (&[][..], true),
        (&[("CI", "true")][..], false),
        (&[("GPU_LEAK_CHECK", "require")][..], false),
    ] {
        let checked = run(&fake, IS_TOO_EARLY, variables);
        let output = checked.output();
        assert_eq!(
            checked.child.status.success(),
            passes,
            "{variables:?}\n{output}"
        );
        let report = checked.report();
        let reason = report.reason.as_ref().expect("a reason");
        assert_eq!(
            (report.status, reason.code),
            (CheckStatus::NotMeasured, Code::Unheard),
            "{output}"
        );
        assert!(checked.child.stderr.contains("1 not measured"), "{output}");
    }
}

/// Looks up a function as a program that was built for a later CUDA version does.
fn later(name: &CStr) -> *mut c_void {
    let mut function = ptr::null_mut();
    let (version, flags, status) = (99_000, 0, ptr::null_mut());
    // SAFETY: the out pointer is valid, and the name is a C string.
    let found = unsafe {
        sys::cuGetProcAddress_v2(name.as_ptr(), &raw mut function, version, flags, status)
    };
    found.result().expect("a function");
    function
}

#[gpu_leak_check]
#[ignore = "run on the stand-in"]
#[test]
fn calls_a_function_of_a_later_driver() {
    context();
    calls_a_function_of_a_later_driver_here();
}

fn calls_a_function_of_a_later_driver_here() {
    type Allocate = unsafe extern "C" fn(*mut u64, usize, u64) -> u32;
    // SAFETY: the stand-in's function has this signature.
    let allocate = unsafe { transmute::<*mut c_void, Allocate>(later(c"cuMemAlloc")) };
    let mut pointer = 0;
    // SAFETY: the out pointer is valid.
    assert_eq!(unsafe { allocate(&raw mut pointer, 10, 0) }, 0);
}

#[gpu_leak_check]
#[ignore = "run on the stand-in"]
#[test]
fn looks_up_a_function_of_a_later_driver() {
    context();
    assert!(!later(c"cuMemAlloc").is_null());
    free(allocate(8).unwrap()).unwrap();
}

#[test]
fn a_call_of_an_unknown_variant_is_inconclusive_and_a_look_up_is_not() {
    let fake = Fake::new();
    let looked_up = "boundary::blind::looks_up_a_function_of_a_later_driver";
    run(&fake, looked_up, &[("CI", "true")]).assert_clean();
    let called = "boundary::blind::calls_a_function_of_a_later_driver";
    for (variables, passes) in [(&[][..], true), (&[("CI", "true")][..], false)] {
        let checked = run(&fake, called, variables);
        let output = checked.output();
        let report = checked.report();
        assert_eq!(report.status, CheckStatus::Inconclusive, "{output}");
        let reason = report.reason.as_ref().expect("a reason");
        assert_eq!(reason.code, Code::UnheardFunction, "{output}");
        assert!(
            reason.what.contains("called cuMemAlloc_v99, which"),
            "{output}"
        );
        assert_eq!(checked.child.status.success(), passes, "{output}");
    }
}

#[test]
#[ignore = "run on the stand-in"]
fn one_scope_after_another() {
    context();
    let one = |name, body: fn()| {
        let scope = Scope::open(name);
        body();
        scope.finish().status
    };
    assert_eq!(
        one("calls it", calls_a_function_of_a_later_driver_here),
        CheckStatus::Inconclusive
    );
    let gives_back = || free(allocate(8).unwrap()).unwrap();
    assert_eq!(one("does not", gives_back), CheckStatus::Clean);
}

#[test]
fn calls_missed_before_a_check_began_do_not_count_against_it() {
    let fake = Fake::new();
    let checked = checked::finish(fake.run("boundary::blind::one_scope_after_another"));
    assert!(checked.child.status.success(), "{}", checked.output());
}

#[test]
fn a_check_that_is_off_lets_everything_pass() {
    let checked = run(
        &Fake::new(),
        USES_A_GPU,
        &[("GPU_LEAK_CHECK", "off"), ("CI", "true")],
    );
    assert!(checked.child.status.success(), "{}", checked.output());
    assert!(checked.reports.is_empty(), "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "run on a machine without a GPU"]
#[test]
fn uses_no_gpu() {}

#[test]
fn a_machine_without_a_device_is_not_measured_and_passes_even_in_ci() {
    let fake = Fake::new().devices(0);
    for (mode, passes) in [("auto", true), ("require", false)] {
        let run = fake.run("boundary::blind::uses_no_gpu").env("CI", "true");
        let checked = checked::finish(run.env("GPU_LEAK_CHECK", mode));
        let output = checked.output();
        assert_eq!(checked.child.status.success(), passes, "{mode}\n{output}");
        let report = checked.report();
        let reason = report.reason.as_ref().expect("a reason");
        assert_eq!(
            (report.status, reason.code),
            (CheckStatus::NotMeasured, Code::NoGpu),
            "{output}"
        );
    }
}

/// The variable that tells a child the path of a library with the name of another API's library.
const ANOTHER_API: &str = "BLIND_ANOTHER_API";

#[gpu_leak_check]
#[ignore = "run by a test that sets it up"]
#[test]
fn uses_another_api() {
    let file = std::env::var(ANOTHER_API).expect("the parent has compiled it");
    // SAFETY: the library contains no code that runs when it is loaded.
    std::mem::forget(unsafe { libloading::Library::new(file) }.expect("it can be loaded"));
}

#[test]
fn a_program_with_an_unwatched_api_is_not_measured_even_with_a_device() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = library::of_c(folder.path(), "libEGL.so.1", "");
    let variables = [(ANOTHER_API, library.to_str().expect("UTF-8"))];
    let checked = run(
        &Fake::new(),
        "boundary::blind::uses_another_api",
        &variables,
    );
    let reason = checked.report().reason.as_ref().map(|reason| reason.code);
    assert_eq!(
        (checked.report().status, reason),
        (CheckStatus::NotMeasured, Some(Code::Backend)),
        "{}",
        checked.output()
    );
}

/// The variable that tells a child the path of a library with the name of the driver.
const ANOTHER_DRIVER: &str = "BLIND_ANOTHER_DRIVER";

#[test]
#[ignore = "run by a test that sets it up"]
fn has_another_driver_before_its_check() {
    let file = std::env::var(ANOTHER_DRIVER).expect("the parent has compiled it");
    let file = CString::new(file).expect("a path");
    // SAFETY: the path is a C string, and the library contains no code that runs when it is loaded.
    let another = unsafe { libc::dlmopen(libc::LM_ID_NEWLM, file.as_ptr(), libc::RTLD_NOW) };
    assert!(!another.is_null());
    uses_a_gpu();
}

/// This needs glibc 2.35 or newer, which lists the libraries in other namespaces.
#[test]
fn another_driver_is_not_said_to_have_been_loaded_during_the_check() {
    // SAFETY: the result is a static string.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    let minor = version.to_str().expect("a version").split('.').nth(1);
    if minor.and_then(|minor| minor.parse().ok()) < Some(35) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let library = library::of_c(folder.path(), "libcuda.so.1", "");
    let variables = [(ANOTHER_DRIVER, library.to_str().expect("UTF-8"))];
    let test = "boundary::blind::has_another_driver_before_its_check";
    let checked = run(&Fake::new(), test, &variables);
    let output = checked.output();
    let report = checked.report();
    assert_eq!(report.status, CheckStatus::Inconclusive, "{output}");
    let reason = report.reason.as_ref().expect("a reason");
    assert_eq!(reason.code, Code::UnheardLibrary, "{output}");
    assert!(reason.what.ends_with("/libcuda.so.1"), "{output}");
    assert!(!reason.what.contains("while the check ran"), "{output}");
    assert!(reason.remedy.contains("dlmopen"), "{output}");
}
