//! What is handed over is freed by other code.

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::hand_over;
use gpu_leak_check::report::check_report::FindingKind;
use gpu_leak_hooked::Buffer;

use super::{run, told};

#[test]
fn what_a_library_hands_over_is_not_asked_for_and_noted() {
    let checked = run("handed_over::hands_over");
    checked.assert_clean();
    let note = "1 object, 4.00 KiB, handed over during the test";
    assert_eq!(checked.report().notes, [note], "{}", checked.story());
}

#[gpu_leak_check]
#[ignore = "keeps memory"]
#[test]
fn hands_over() {
    let _address = Buffer::new(4096).into_raw();
}

#[test]
fn another_leak_is_found_beside_it() {
    let checked = run("handed_over::hands_over_and_leaks");
    assert_eq!(
        told(checked.report()),
        [(FindingKind::Leaked, 7)],
        "{}",
        checked.story()
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
fn its_new_owner_may_give_it_back() {
    let address = Buffer::new(4096).into_raw();
    drop(Buffer::from_raw(address));
}

#[gpu_leak_check]
#[test]
fn an_address_that_nobody_knows_is_harmless() {
    hand_over(0xdead_0000);
    hand_over(0);
}

#[test]
fn outside_every_check_it_changes_nothing() {
    hand_over(0xdead_0000);
    drop(Buffer::from_raw(Buffer::new(1).into_raw()));
}
