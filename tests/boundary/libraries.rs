//! Memory that libraries and other allocators have allocated.

#![expect(unsafe_code, reason = "calls a C library's functions")]

use std::sync::OnceLock;

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::Code;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_check::{Check, gpu_leak_check};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::fake::Fake;

use super::driver::{allocate, context};
use super::{assert_noted_report, assert_one_leak, only_finding};

const HERE: &str = "boundary::libraries::";

/// The stand-in for cuBLAS, which stays open because recorded stacks contain addresses of its code.
fn cublas() -> &'static libloading::Library {
    static LIBRARY: OnceLock<libloading::Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // SAFETY: the stand-in has no constructors.
        unsafe { libloading::Library::new("libcublas.so.13") }.expect("the stand-in")
    })
}

fn create_handle(library: &libloading::Library) -> u64 {
    let mut handle = 0;
    // SAFETY: the stand-in's function has this signature, and the pointer is to a local variable.
    let status = unsafe {
        let create = library.get::<unsafe extern "C" fn(*mut u64) -> i32>(b"cublasCreate_v2");
        create.expect("a function of cuBLAS")(&raw mut handle)
    };
    assert_eq!(status, 0);
    handle
}

fn destroy_handle(library: &libloading::Library, handle: u64) {
    // SAFETY: the stand-in's function has this signature, and the handle is no longer used.
    let status = unsafe {
        let destroy = library.get::<unsafe extern "C" fn(u64) -> i32>(b"cublasDestroy_v2");
        destroy.expect("a function of cuBLAS")(handle)
    };
    assert_eq!(status, 0);
}

fn create_cublas_handle() -> u64 {
    context();
    create_handle(cublas())
}

fn destroy_cublas_handle(handle: u64) {
    destroy_handle(cublas(), handle);
}

#[test]
fn memory_of_a_library_is_reported_with_its_name_and_its_lifetime() {
    let fake = Fake::new().with_cublas();
    let checked = checked::on(&fake, &format!("{HERE}keeps_a_cublas_handle"));
    let finding = assert_one_leak(&checked, Kind::Linear, 64 << 20);
    let output = checked.output();
    let library = finding.site.library.as_ref().expect("a library");
    assert_eq!(
        (&*library.name, library.function.as_deref()),
        ("cuBLAS", Some("cublasCreate_v2")),
        "{output}"
    );
    for line in [
        "   held by    cuBLAS: cublasCreate_v2 in libcublas.so.13\n",
        "cuBLAS keeps the workspace until cublasDestroy is called: drop the handle",
    ] {
        assert!(checked.child.stderr.contains(line), "{output}");
    }
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn keeps_a_cublas_handle() {
    create_cublas_handle();
}

#[test]
fn code_that_cuda_s_own_libraries_load_lazily_is_the_baseline() {
    let fake = Fake::new().with_cublas();
    let checked = checked::on(&fake, &format!("{HERE}uses_cublas"));
    checked.assert_clean();
    let rows = &checked.report().devices[0].rows;
    let output = checked.output();
    let handles = rows.iter().find(|row| row.layer == "handles");
    let loaded = handles.map(|row| row.after - row.baseline);
    assert_eq!(loaded, Some(1), "the code stays loaded\n{output}");
}

#[gpu_leak_check]
#[ignore = "run on the stand-in"]
#[test]
fn uses_cublas() {
    destroy_cublas_handle(create_cublas_handle());
}

#[test]
fn a_library_loaded_where_cublas_was_is_not_taken_for_cublas() {
    let fake = Fake::new().with_cublas();
    let test = format!("{HERE}loads_another_library_where_cublas_was");
    let checked = checked::on(&fake, &test);
    assert_one_leak(&checked, Kind::Module, 0);
    assert_eq!(checked.reports[0].status, CheckStatus::Clean);
}

#[ignore = "leaks on purpose"]
#[test]
fn loads_another_library_where_cublas_was() {
    let mapped = |name: &str| {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
        let line = maps.lines().find(|line| line.contains(name));
        let mut fields = line?.split_ascii_whitespace();
        Some((fields.next()?.to_owned(), fields.next_back()?.to_owned()))
    };
    context();
    // SAFETY: neither the stand-in nor its copy has constructors.
    let open = |file: &str| unsafe { libloading::Library::new(file) }.expect("a library");
    let cublas = open("libcublas.so.13");
    Check::new("cuBLAS").run(|| destroy_handle(&cublas, create_handle(&cublas)));
    let (place, file) = mapped("libcublas").expect("it is there");
    let directory = tempfile::tempdir().expect("a directory");
    let mine = directory.path().join("libmine.so");
    std::fs::copy(file, &mine).expect("a copy");
    cublas.close().expect("nobody needs it");
    assert_eq!(mapped("libcublas"), None, "it is gone");
    let mine = open(mine.to_str().expect("a path"));
    let (its_place, _) = mapped("libmine").expect("it is there");
    assert_eq!(its_place, place, "the copy is loaded where cuBLAS was");
    let leaks = Check::new("another").confirm(false);
    leaks.run(|| uses_another_library(&mine));
}

/// Uses the library from another place in the program than the first check.
#[inline(never)]
fn uses_another_library(library: &libloading::Library) {
    let handle = create_handle(library);
    destroy_handle(library, std::hint::black_box(handle));
}

/// A function with the same path as one in cubecl's allocator. By this path, the harness recognises
/// the allocator in a stack.
mod cubecl_runtime {
    pub(super) mod memory_management {
        #[inline(never)]
        pub(crate) fn reserve(bytes: usize) {
            super::super::context();
            super::super::allocate(bytes).expect("memory");
        }
    }
}

fn assert_inconclusive(checked: &Checked) {
    let (report, output) = (checked.report(), checked.output());
    assert_eq!(report.status, CheckStatus::Inconclusive, "{output}");
    assert!(report.findings.is_empty(), "{output}");
    let reason = report.reason.as_ref().expect("a reason");
    assert_eq!(reason.code, Code::NoProbe, "{output}");
    assert!(reason.what.contains("memory that cubecl"), "{output}");
    let remedy = "register the probe of the crate gpu-leak-cubecl with gpu_leak_check::probe!";
    assert!(reason.remedy.contains(remedy), "{output}");
    assert!(
        checked.child.stderr.contains("  inconclusive: boundary::"),
        "{output}"
    );
    assert!(
        checked.child.stderr.contains("1 inconclusive (no probe)"),
        "{output}"
    );
}

#[test]
fn a_known_allocator_without_a_probe_is_inconclusive_and_no_leak_by_segment() {
    let test = format!("{HERE}reserves_through_cubecl");
    let checked = checked::run(&test);
    assert!(checked.child.status.success(), "{}", checked.output());
    assert_inconclusive(&checked);
    let fake = Fake::new();
    let checked = checked::finish(fake.run(&test).env("GPU_LEAK_CHECK", "require"));
    assert!(!checked.child.status.success(), "{}", checked.output());
    assert_inconclusive(&checked);
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn reserves_through_cubecl() {
    cubecl_runtime::memory_management::reserve(2 << 20);
    cubecl_runtime::memory_management::reserve(4 << 20);
}

#[test]
fn a_leak_beside_a_known_allocator_is_a_leak() {
    let checked = checked::run(&format!("{HERE}reserves_and_leaks"));
    let output = checked.output();
    assert!(!checked.child.status.success(), "{output}");
    let report = checked.report();
    assert_eq!(only_finding(report, &output).bytes, 24, "{output}");
    assert_eq!(
        (report.status, &report.reason),
        (CheckStatus::Found(FindingKind::Leaked), &None)
    );
    assert_noted_report(report, "memory that cubecl");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn reserves_and_leaks() {
    cubecl_runtime::memory_management::reserve(2 << 20);
    allocate(24).unwrap();
}
