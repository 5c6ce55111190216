//! Frees that failed, and whose result the program did not check.

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::result::stream;
use cudarc::driver::sys;
use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::FindingKind;
use gpu_leak_tests::fake::Fake;
use gpu_leak_tests::{checked, gpu};

use super::{failed, of_kind, run};
use crate::kinds::planted::{context, keep, memory};

/// `cuMemHostUnregister` was called with the device address. The error was ignored, and the range
/// stayed pinned. <https://github.com/dora-rs/dora/pull/2940>
#[test]
fn dora_2940_unregistered_by_the_wrong_address() {
    let checked = run(module_path!(), "unregisters_something_else");
    let mut findings = failed(&checked).findings.iter();
    let leak = findings.find(|finding| finding.kind == FindingKind::Leaked);
    assert_eq!(
        leak.map(|leak| (leak.resource, leak.bytes)),
        Some((Some(Kind::Registered), 10_000)),
        "{}",
        checked.output()
    );
    let findings = failed(&checked).findings.iter();
    let errors: Vec<_> = findings
        .filter_map(|finding| finding.failed.as_ref())
        .collect();
    assert_eq!(
        errors.len(),
        1,
        "the failed call is reported as well\n{}",
        checked.output()
    );
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn unregisters_something_else() {
    context();
    keep(memory::registered());
    let device = memory::linear();
    // SAFETY: the driver knows no registered range at this address, and returns an error.
    let _ = unsafe { sys::cuMemHostUnregister(ptr::without_provenance_mut(device as usize)) };
    memory::free(device);
}

/// `cudaFreeHost` is forbidden inside a stream's callback. The result was not checked, so each call
/// left its memory pinned. <https://github.com/sonots/cumo/pull/176>
#[test]
fn cumo_176_freed_in_a_callback() {
    let checked = if gpu::is_present() {
        run(module_path!(), "frees_in_a_callback")
    } else {
        // Without the fault, the stand-in would allow the call.
        let test = "regressions::failed_calls::frees_in_a_callback";
        checked::on(&Fake::new().fault("fail:cuMemFreeHost=800"), test)
    };
    let finding = of_kind(&checked, Kind::Pinned);
    // The driver may hide the failed call, which is made on one of its own threads. The report is
    // then about the leak instead.
    let reported = [FindingKind::FailedFree, FindingKind::Leaked].contains(&finding.kind);
    assert!(reported && finding.bytes == 777, "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn frees_in_a_callback() {
    unsafe extern "C" fn free(pointer: *mut c_void) {
        // SAFETY: the driver refuses this call inside a callback.
        let _ = unsafe { sys::cuMemFreeHost(pointer) };
    }
    context();
    let pinned = memory::pinned();
    // SAFETY: the function takes any pointer, and the null stream always exists.
    let done = unsafe { sys::cuLaunchHostFunc(stream::null(), Some(free), pinned) };
    done.result().expect("a stream takes it");
    // SAFETY: the null stream always exists.
    unsafe { stream::synchronize(stream::null()) }.expect("an end");
}

/// The program registered the address of a pointer instead of the memory that it points to.
/// Unregistering that memory then failed, and the range stayed pinned.
/// <https://github.com/nlesc-recruit/cudawrappers/issues/247>
#[test]
fn cudawrappers_247_the_address_of_the_pointer_is_registered() {
    let checked = run(module_path!(), "registers_the_pointer_itself");
    let findings = failed(&checked).findings.iter();
    let reported: Vec<_> = findings
        .filter(|finding| finding.resource == Some(Kind::Registered))
        .map(|finding| finding.kind)
        .collect();
    let expected = [FindingKind::Leaked, FindingKind::FailedFree];
    assert_eq!(reported, expected, "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn registers_the_pointer_itself() {
    context();
    let mut data = vec![0_u8; 4096];
    let pointer = Box::leak(Box::new(data.as_mut_ptr()));
    // SAFETY: the range is the leaked pointer itself, which lives forever.
    let done = unsafe { sys::cuMemHostRegister_v2(ptr::from_mut(pointer).cast(), 8, 0) };
    done.result().expect("a registered range");
    // SAFETY: the driver knows no registered range at this address, and returns an error.
    let _ = unsafe { sys::cuMemHostUnregister((*pointer).cast()) };
}
