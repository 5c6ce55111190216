//! Several devices. An allocation belongs to the device that holds it, whichever device the test
//! names. The harness does not touch devices that the test does not use. These tests run on the
//! GPUs of a machine with two of them, otherwise on two simulated ones.

mod calls;

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::{Figure, FindingKind, Report};
use gpu_leak_check::{Place, gpu_leak_check};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;
use gpu_leak_tests::fake::Fake;
use gpu_leak_tests::gpu;

use calls::{
    allocate, allocate_async, allocate_from, copy_from_one_to_the_other, create_physical,
    create_pool, disable_peer_access, enable_peer_access, free, is_active, use_device,
};

fn run(test: &str) -> Checked {
    let (test, fake) = (format!("devices::{test}"), Fake::new().devices(2));
    if gpu::count() >= 2 {
        checked::finish(Run::of(&test))
    } else {
        checked::on(&fake, &test)
    }
}

/// Returns the kind, place and bytes of each leak that the last check found.
#[track_caller]
fn leaks(checked: &Checked) -> Vec<(Kind, Place, u64)> {
    assert!(
        !checked.child.status.success(),
        "a leak fails its test\n{}",
        checked.output()
    );
    let report = checked.reports.last().expect("a report");
    let leaks = report.findings.iter().map(|finding| {
        assert_eq!(finding.kind, FindingKind::Leaked, "{}", checked.output());
        (
            finding.resource.expect("a kind"),
            finding.place,
            finding.bytes,
        )
    });
    let mut leaks: Vec<_> = leaks.collect();
    leaks.sort_unstable();
    leaks
}

/// Returns the values of a device's `driver` row before and after the test.
fn allocated(report: &Report, device: usize) -> (u64, u64) {
    let tables = report.devices.iter();
    let mut tables = tables.filter(|table| table.place == Place::cuda(device));
    let table = tables.next().expect("a table of the device");
    let is_meant = |layer: &str, figure| layer == "driver" && figure == Figure::Allocated;
    let mut rows = table
        .rows
        .iter()
        .filter(|row| is_meant(&row.layer, row.figure));
    let row = rows.next().expect("the driver's row");
    (row.baseline, row.after)
}

#[test]
fn a_leak_on_another_device_than_the_test_names_is_found_there() {
    let checked = run("names_device_0_only");
    assert_eq!(
        leaks(&checked),
        [(Kind::Linear, Place::cuda(1), 3000)],
        "{}",
        checked.output()
    );
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn names_device_0_only() {
    use_device(0);
    a_library_with_a_device_of_its_own();
    free(allocate(100));
}

fn a_library_with_a_device_of_its_own() {
    use_device(1);
    allocate(3000);
    use_device(0);
}

#[test]
fn a_report_has_the_baselines_of_both() {
    let checked = run("child_with_memory_on_both");
    let output = checked.output();
    let report = checked.reports.last().expect("a report");
    assert_eq!(allocated(report, 0), (1000, 1000), "{output}");
    assert_eq!(allocated(report, 1), (2000, 2500), "{output}");
    assert_eq!(
        leaks(&checked),
        [(Kind::Linear, Place::cuda(1), 500)],
        "{output}"
    );
}

#[test]
#[ignore = "run in a process of its own"]
fn child_with_memory_on_both() {
    // The first check loads the driver.
    uses_both();
    for (device, bytes) in [(0, 1000), (1, 2000)] {
        use_device(device);
        allocate(bytes);
    }
    leaks_on_device_1();
}

#[gpu_leak_check]
#[ignore = "run by a test that sets it up"]
#[test]
fn uses_both() {
    for device in [0, 1] {
        use_device(device);
        free(allocate(100));
    }
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_on_device_1() {
    use_device(1);
    allocate(500);
}

#[test]
fn memory_belongs_to_its_own_device_and_not_the_current_one() {
    let checked = run("allocates_on_device_1_from_device_0");
    let output = checked.output();
    let mut wanted = [
        (Kind::StreamOrdered, Place::cuda(0), 400),
        (Kind::StreamOrdered, Place::cuda(1), 600),
        (Kind::StreamOrdered, Place::cuda(1), 800),
        (Kind::Physical, Place::cuda(1), 2 << 20),
        (Kind::Pool, Place::cuda(1), 0),
    ];
    wanted.sort_unstable();
    assert_eq!(leaks(&checked), wanted, "{output}");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn allocates_on_device_1_from_device_0() {
    use_device(1);
    allocate_async(600);
    use_device(0);
    allocate_async(400);
    let pool = create_pool(1);
    allocate_from(pool, 800);
    create_physical(1);
}

#[test]
fn enabled_peer_access_is_not_a_leak_even_if_it_is_not_disabled() {
    for body in ["disables_peer_access", "leaves_peer_access_enabled"] {
        run(body).assert_clean();
    }
}

fn copies_with_peer_access() {
    use_device(1);
    let there = allocate(4096);
    use_device(0);
    let here = allocate(4096);
    enable_peer_access(1);
    copy_from_one_to_the_other(here, there, 4096);
    free(here);
    free(there);
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn disables_peer_access() {
    copies_with_peer_access();
    disable_peer_access(1);
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn leaves_peer_access_enabled() {
    copies_with_peer_access();
}

#[test]
fn no_context_is_created_on_a_device_that_the_test_does_not_use() {
    run("child_that_uses_device_0").assert_clean();
}

#[test]
#[ignore = "run in a process of its own"]
fn child_that_uses_device_0() {
    for _ in 0..2 {
        uses_device_0();
    }
    assert_eq!([is_active(0), is_active(1)], [true, false]);
}

#[gpu_leak_check]
#[ignore = "run by a test that sets it up"]
#[test]
fn uses_device_0() {
    use_device(0);
    free(allocate(100));
}

#[test]
fn a_leak_on_one_device_is_found_while_the_other_has_no_context() {
    let checked = run("child_that_leaks_on_device_1");
    assert_eq!(
        leaks(&checked),
        [(Kind::Linear, Place::cuda(1), 500)],
        "{}",
        checked.output()
    );
    assert!(
        checked.child.stdout.contains(ONLY_DEVICE_1),
        "{}",
        checked.output()
    );
}

const ONLY_DEVICE_1: &str = "device 0 has no context";

#[test]
#[ignore = "run in a process of its own"]
fn child_that_leaks_on_device_1() {
    use std::io::Write as _;
    let outcome = std::panic::catch_unwind(leaks_on_device_1);
    if !is_active(0) {
        writeln!(std::io::stdout(), "{ONLY_DEVICE_1}").expect("standard output is open");
    }
    outcome.expect("a leak fails its test");
}
