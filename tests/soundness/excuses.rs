//! A check excuses memory that may stay, and nothing else.

use std::sync::Once;

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_check::{Scope, allow, gpu_leak_check, hand_over};

use gpu_leak_tests::checked;
use gpu_leak_tests::fake::Fake;

use super::allocators::{Block, POOL, give_back, take};
use super::driver;
use super::{GIB, KIB, MIB, assert_leaked, assert_verdict, bytes, of, run};

/// Makes the pool keep an empty segment of 1 GiB, and another segment that contains a block.
/// Returns the block.
fn take_beside_a_large_reserve(block: u64) -> u64 {
    POOL.reserve(GIB);
    POOL.take(block, 2 * MIB)
}

/// Fails unless the test failed only because of the empty segment.
#[track_caller]
fn assert_large_reserve_retained(test: &str) {
    let checked = run(&format!("excuses::{test}"));
    let report = assert_verdict(&checked, test, CheckStatus::Found(FindingKind::Retained));
    assert_eq!(
        bytes(report, CheckStatus::Found(FindingKind::Retained)),
        GIB,
        "{}",
        checked.output()
    );
}

#[gpu_leak_check]
#[ignore = "keeps a reserve on purpose"]
#[test]
fn hands_over_a_block() {
    hand_over(take_beside_a_large_reserve(64));
}

#[gpu_leak_check]
#[ignore = "keeps a reserve on purpose"]
#[test]
fn allows_a_block() {
    allow("the table is shared", || take_beside_a_large_reserve(64));
}

#[gpu_leak_check(tolerance = 64)]
#[ignore = "keeps a reserve on purpose"]
#[test]
fn tolerates_a_block() {
    take_beside_a_large_reserve(32);
}

#[test]
fn a_block_that_was_handed_over_explains_only_its_own_segment() {
    assert_large_reserve_retained("hands_over_a_block");
}

#[test]
fn a_block_that_is_allowed_explains_only_its_own_segment() {
    assert_large_reserve_retained("allows_a_block");
}

#[test]
fn a_block_within_the_tolerance_explains_only_its_own_segment() {
    assert_large_reserve_retained("tolerates_a_block");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn loses_a_block() {
    take_beside_a_large_reserve(64);
}

#[test]
fn a_leaked_block_explains_only_its_own_segment() {
    let checked = run("excuses::loses_a_block");
    let report = assert_verdict(
        &checked,
        "loses_a_block",
        CheckStatus::Found(FindingKind::Leaked),
    );
    let output = checked.output();
    assert_eq!(
        bytes(report, CheckStatus::Found(FindingKind::Leaked)),
        64,
        "{output}"
    );
    assert_eq!(
        bytes(report, CheckStatus::Found(FindingKind::Retained)),
        GIB,
        "{output}"
    );
}

#[gpu_leak_check(confirm = false)]
#[ignore = "keeps a reserve on purpose"]
#[test]
fn hands_over_a_block_of_the_driver_s_pool() {
    driver::context();
    driver::keep_what_is_freed_to_the_pool();
    let large = driver::take_of_the_pool(1 << 30);
    hand_over(driver::take_of_the_pool(64));
    driver::free_to_the_pool(large);
}

#[test]
fn a_block_of_a_pool_whose_segments_are_unknown_explains_no_more_than_one_of_its_chunks() {
    let test = "hands_over_a_block_of_the_driver_s_pool";
    // With this fault, the driver's pool never releases anything.
    let fake = Fake::new().fault("fail:cuMemPoolTrimTo=1");
    let checked = checked::on(&fake, &format!("excuses::{test}"));
    let report = assert_verdict(&checked, test, CheckStatus::Found(FindingKind::Retained));
    let retained = bytes(report, CheckStatus::Found(FindingKind::Retained));
    assert!((GIB / 2..=GIB).contains(&retained), "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "keeps what is allowed"]
#[test]
fn hands_over_all_that_its_segments_hold() {
    hand_over(POOL.take(64, 2 * MIB));
}

#[gpu_leak_check]
#[ignore = "keeps what is allowed"]
#[test]
fn allows_all_that_its_segments_hold() {
    allow("the table is shared", || POOL.take(64, 2 * MIB));
}

#[gpu_leak_check(tolerance = 64)]
#[ignore = "keeps what is allowed"]
#[test]
fn tolerates_all_that_its_segments_hold() {
    static MADE: Once = Once::new();
    // The same amount again, in the second run, would exceed the tolerance.
    MADE.call_once(|| _ = POOL.take(64, 2 * MIB));
    drop(Block::new(1));
}

#[test]
fn a_segment_that_contains_something_allowed_may_stay() {
    for (test, verdict) in [
        ("hands_over_all_that_its_segments_hold", CheckStatus::Clean),
        (
            "allows_all_that_its_segments_hold",
            CheckStatus::Found(FindingKind::Allowed),
        ),
        ("tolerates_all_that_its_segments_hold", CheckStatus::Clean),
    ] {
        let checked = run(&format!("excuses::{test}"));
        let report = assert_verdict(&checked, test, verdict);
        assert_eq!(
            bytes(report, CheckStatus::Found(FindingKind::Retained)),
            0,
            "{}",
            checked.output()
        );
    }
}

#[gpu_leak_check(tolerance = 100)]
#[ignore = "leaves less than is tolerated"]
#[test]
fn loses_a_little_and_makes_a_static() {
    static MADE: Once = Once::new();
    MADE.call_once(|| _ = take(80));
    take(60);
}

#[test]
fn the_tolerance_is_deducted_from_confirmed_memory() {
    let test = "loses_a_little_and_makes_a_static";
    let checked = run(&format!("excuses::{test}"));
    let output = checked.output();
    assert!(checked.child.status.success(), "{output}");
    let report = checked.report();
    let reported = [
        CheckStatus::Found(FindingKind::FirstUse),
        CheckStatus::Clean,
    ];
    assert!(reported.contains(&report.status), "{output}");
    assert_eq!(
        bytes(report, CheckStatus::Found(FindingKind::Leaked)),
        0,
        "{output}"
    );
}

fn one_site() {
    take(60);
}

fn other_site() {
    take(60);
}

#[gpu_leak_check(tolerance = 100)]
#[ignore = "leaks on purpose"]
#[test]
fn loses_a_little_at_each_of_two_sites() {
    one_site();
    other_site();
}

#[test]
fn the_tolerance_is_deducted_once_for_all_sites_of_a_device() {
    let test = "loses_a_little_at_each_of_two_sites";
    let checked = run(&format!("excuses::{test}"));
    assert_leaked(&checked, test, 120);
}

fn shared_table() {
    take(KIB);
}

#[gpu_leak_check(
    tolerance = 100,
    allow("fn:*shared_table", reason = "shared by all models")
)]
#[ignore = "leaves what is allowed"]
#[test]
fn leaves_an_allowed_table_and_loses_a_little() {
    shared_table();
    one_site();
}

#[test]
fn allowed_memory_uses_up_no_tolerance() {
    let test = "leaves_an_allowed_table_and_loses_a_little";
    let checked = run(&format!("excuses::{test}"));
    assert_verdict(&checked, test, CheckStatus::Found(FindingKind::Allowed));
}

#[gpu_leak_check(tolerance = 100)]
#[ignore = "leaves less than is tolerated"]
#[test]
fn loses_a_little_in_each_run() {
    static MADE: Once = Once::new();
    // Causes a second run, which leaves the 100 bytes again.
    MADE.call_once(|| _ = take(KIB));
    take(100);
}

#[test]
fn the_tolerance_applies_to_the_leaks_of_each_run_separately() {
    let test = "loses_a_little_in_each_run";
    let checked = run(&format!("excuses::{test}"));
    let report = assert_verdict(&checked, test, CheckStatus::Found(FindingKind::FirstUse));
    let output = checked.output();
    assert_eq!(
        bytes(report, CheckStatus::Found(FindingKind::Leaked)),
        0,
        "{output}"
    );
}

/// The test itself has no check, which would report the segment from before the scope.
#[ignore = "needs a process of its own"]
#[test]
fn puts_a_block_into_an_old_segment_and_takes_a_new_one() {
    let old = POOL.reserve(MIB);
    let scope = Scope::open("scope");
    scope.in_scope(|| {
        hand_over(POOL.take_at(old, 64));
        POOL.reserve(MIB);
    });
    let report = scope.finish();
    let retained = CheckStatus::Found(FindingKind::Retained);
    assert_eq!(report.status, retained, "{report:?}");
    assert_eq!(bytes(&report, retained), MIB);
}

#[test]
fn a_block_in_an_old_segment_explains_nothing_of_a_new_one() {
    let child = of("excuses::puts_a_block_into_an_old_segment_and_takes_a_new_one").run();
    assert!(child.status.success(), "{}{}", child.stdout, child.stderr);
}

#[gpu_leak_check(tolerance = "1 MiB")]
#[ignore = "leaks on purpose"]
#[test]
fn gives_back_old_memory_and_loses_new() {
    let old = take(MIB);
    give_back(old);
    take(2 * MIB);
}

#[test]
fn freed_memory_adds_nothing_to_the_tolerance() {
    let test = "gives_back_old_memory_and_loses_new";
    let checked = run(&format!("excuses::{test}"));
    assert_leaked(&checked, test, 2 * MIB);
}
