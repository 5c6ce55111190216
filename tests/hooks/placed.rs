//! Allocators in which each device has its own address space.

use gpu_leak_check::observe::PlacedSource;
use gpu_leak_check::report::check_report::FindingKind;
use gpu_leak_check::{Place, gpu_leak_check};

use super::{found, run};

static HEAPS: PlacedSource = PlacedSource::new("heaps", &[]);

fn npu(number: u32) -> Place {
    Place::named(&format!("npu:{number}"))
}

#[test]
fn one_address_on_two_devices_is_two_blocks() {
    let checked = run("placed::frees_the_small_one_of_two");
    let report = checked.report();
    let expected = [(FindingKind::Leaked, 1 << 30)];
    assert_eq!(found(report), expected, "{}", checked.output());
    let finding = &report.findings[0];
    assert_eq!(finding.place.to_string(), "npu:0", "{}", checked.output());
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[test]
fn frees_the_small_one_of_two() {
    HEAPS.allocated(npu(0), 0x1000, 1 << 30);
    HEAPS.allocated(npu(1), 0x1000, 64);
    HEAPS.freed(npu(1), 0x1000);
}
