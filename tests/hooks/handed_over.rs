//! Memory that the test hands over to other code, which frees it.

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::hand_over;
use gpu_leak_check::report::check_report::FindingKind;
use gpu_leak_hooked::Buffer;

use super::{found, run};

#[test]
fn memory_that_a_library_hands_over_is_noted_and_is_not_a_leak() {
    let checked = run("handed_over::hands_over");
    checked.assert_clean();
    let note = "the test handed over 1 object, 4.00 KiB";
    assert_eq!(checked.report().notes, [note], "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "keeps memory"]
#[test]
fn hands_over() {
    let _address = Buffer::new(4096).into_raw();
}

#[test]
fn a_leak_beside_handed_over_memory_is_found() {
    let checked = run("handed_over::hands_over_and_leaks");
    assert_eq!(
        found(checked.report()),
        [(FindingKind::Leaked, 7)],
        "{}",
        checked.output()
    );
}

#[gpu_leak_check]
#[ignore = "fails"]
#[test]
fn hands_over_and_leaks() {
    let _address = Buffer::new(4096).into_raw();
    Buffer::new(7).leak();
}

#[gpu_leak_check]
#[test]
fn the_new_owner_may_free_handed_over_memory() {
    let address = Buffer::new(4096).into_raw();
    drop(Buffer::from_raw(address));
}

#[gpu_leak_check]
#[test]
fn an_unknown_address_is_harmless() {
    hand_over(0xdead_0000);
    hand_over(0);
}

#[test]
fn outside_any_check_hand_over_changes_nothing() {
    hand_over(0xdead_0000);
    drop(Buffer::from_raw(Buffer::new(1).into_raw()));
}
