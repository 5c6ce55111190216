//! If `#[test]` is above the attribute, libtest has already registered the test when the attribute
//! runs, and the attribute cannot see this. The test then runs twice, and its second run reports
//! the mistake.

use gpu_leak_check::gpu_leak_check;

use super::{case, fails};

#[test]
#[gpu_leak_check]
#[ignore = "fails on purpose"]
fn below_test() {}

#[test]
fn the_case_is_there_once() {
    assert!(case("attribute::double_registration::below_test").ignored);
}

#[test]
fn the_second_entry_fails_with_the_remedy() {
    let child = fails("attribute::double_registration::below_test");
    let reported = format!("{}{}", child.stdout, child.stderr);
    assert!(reported.contains("1 passed; 1 failed"), "{reported}");
    assert!(
        reported.contains("put `#[gpu_leak_check]` above `#[test]`"),
        "{reported}"
    );
}
