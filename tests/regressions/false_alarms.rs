//! Events that other checks mistook for leaks.

use std::sync::{Mutex, OnceLock, mpsc};
use std::thread;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_tests::checked;
use gpu_leak_tests::fake::{Control, Fake};

use super::run;
use crate::kinds::planted::{Pointer, code, context, memory};

/// Under WSL2, the device's free bytes dropped once by gigabytes and stayed low, while every pool
/// was at 0. <https://github.com/kekzl/imp/pull/1108>
#[test]
fn imp_1108_free_bytes_that_drop_once() {
    let fake = Fake::new().fault("launch_grows:7516192768");
    let test = "regressions::false_alarms::child_whose_device_shrinks";
    checked::on(&fake, test).assert_clean();
}

#[test]
#[ignore = "run on the stand-in"]
fn child_whose_device_shrinks() {
    let before = free_bytes();
    launches_for_the_first_time();
    assert!(before - free_bytes() >= 7 << 30, "the driver took it");
}

#[gpu_leak_check]
#[ignore = "needs the stand-in"]
#[test]
fn launches_for_the_first_time() {
    context();
    let module = code::module();
    code::launch_nothing(module);
    code::unload(module);
}

fn free_bytes() -> usize {
    context();
    cudarc::driver::result::mem_get_info().expect("a context").0
}

/// For an unknown reason, 1024 bytes fewer were in use at the end than at the start. A negative
/// difference is not a leak. <https://github.com/pytorch/pytorch/issues/8044>
#[test]
fn pytorch_8044_less_than_before() {
    let checked = run(module_path!(), "child_with_less_than_before");
    checked.assert_clean();
    let [_, report] = &checked.reports[..] else {
        panic!("{}", checked.output())
    };
    assert!(
        report.notes[0].contains("not offset against leaks"),
        "{}",
        checked.output()
    );
}

static BEFORE: Mutex<Option<Pointer>> = Mutex::new(None);

#[test]
#[ignore = "run in a process of its own"]
fn child_with_less_than_before() {
    // The first check loads the driver.
    gives_back_what_was_there();
    context();
    *BEFORE.lock().unwrap() = Some(memory::linear());
    gives_back_what_was_there();
}

#[gpu_leak_check]
#[ignore = "run by a test that sets it up"]
#[test]
fn gives_back_what_was_there() {
    context();
    memory::free(memory::linear());
    if let Some(before) = BEFORE.lock().unwrap().take() {
        memory::free(before);
    }
}

/// Memory was still held just after the body, and was freed a moment later.
/// <https://github.com/pytorch/pytorch/pull/82607>
#[test]
fn pytorch_82607_given_back_right_after_the_body() {
    run(module_path!(), "gives_back_late").assert_clean();
}

thread_local! {
    static DROPPED_WITH_THE_THREAD: std::cell::Cell<Option<mpsc::Sender<()>>> =
        const { std::cell::Cell::new(None) };
}

#[gpu_leak_check(settle = "60s")]
#[ignore = "run in a process of its own"]
#[test]
fn gives_back_late() {
    context();
    let taken = memory::linear();
    let (end, ended) = mpsc::channel::<()>();
    thread::spawn(move || {
        // Returns when the body has ended and so dropped its end of the channel.
        let _ = ended.recv();
        context();
        memory::free(taken);
    });
    DROPPED_WITH_THE_THREAD.set(Some(end));
}

/// A library created its workspace at the first use and kept it. The test that happened to run
/// first was blamed. <https://github.com/pytorch/pytorch/pull/86167>
#[test]
fn pytorch_86167_a_workspace_made_at_first_use() {
    let checked = run(module_path!(), "child_with_a_workspace");
    assert!(checked.child.status.success(), "{}", checked.output());
    let statuses: Vec<_> = checked.reports.iter().map(|report| report.status).collect();
    assert_eq!(
        statuses,
        [
            CheckStatus::Found(FindingKind::FirstUse),
            CheckStatus::Clean
        ],
        "{}",
        checked.output()
    );
}

#[test]
#[ignore = "run in a process of its own"]
fn child_with_a_workspace() {
    multiplies();
    multiplies();
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn multiplies() {
    static WORKSPACE: OnceLock<Pointer> = OnceLock::new();
    context();
    WORKSPACE.get_or_init(memory::linear);
}

/// One thread freed an address, and another thread received it before the first thread's call had
/// returned. <https://github.com/rapidsai/rmm/issues/2303>
#[test]
fn rmm_2303_an_address_reused_by_another_thread() {
    let fake = Fake::new().fault("delay:cuMemFree_v2");
    checked::on(&fake, "regressions::false_alarms::hands_an_address_over").assert_clean();
}

#[gpu_leak_check]
#[ignore = "needs the stand-in"]
#[test]
fn hands_an_address_over() {
    let control = Control::of_this_process().expect("the stand-in");
    context();
    let first = memory::linear();
    thread::scope(|scope| {
        scope.spawn(|| {
            context();
            memory::free(first);
        });
        // The memory is freed, but the call has not returned yet.
        control.wait_held("cuMemFree_v2");
        let second = memory::linear();
        assert_eq!(second, first, "the same address");
        control.release("cuMemFree_v2");
        memory::free(second);
    });
}
