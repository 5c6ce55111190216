//! Allocators with a probe for the sum. They report some of their blocks, or none.

use std::panic::catch_unwind;

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_check::{
    Check, Place, gpu_leak_check, hand_over, max_memory_allocated, memory_allocated,
};

use super::allocators::{
    Block, PARTLY, SILENT, TWINS, borrow_reported, give_back, lose_reported, report_at,
    take_rounded,
};
use super::{GIB, assert_leaked, assert_verdict, bytes, report, run, run_suite};

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn loses_what_it_does_not_report() {
    borrow_reported(64);
    PARTLY.take(GIB);
}

#[test]
fn memory_that_is_not_reported_is_judged_by_the_probe_s_sum() {
    let checked = run("sums::loses_what_it_does_not_report");
    assert_leaked(&checked, "loses_what_it_does_not_report", GIB);
}

/// Two checked tests run one after the other. In the first, the allocator reports a block, which
/// stays.
mod one_after_the_other {
    use gpu_leak_check::allow;

    use super::{GIB, PARTLY, gpu_leak_check, lose_reported};

    #[gpu_leak_check]
    #[ignore = "the first of two"]
    #[test]
    fn a_keeps_a_reported_block() {
        allow("the table is shared", || lose_reported(64));
    }

    #[gpu_leak_check]
    #[ignore = "leaks on purpose"]
    #[test]
    fn b_loses_what_it_does_not_report() {
        PARTLY.take(GIB);
    }
}

#[test]
fn reported_memory_of_an_earlier_test_hides_nothing_of_the_sum() {
    let checked = run_suite("sums::one_after_the_other", 1);
    assert_leaked(&checked, "b_loses_what_it_does_not_report", GIB);
    let first = report(&checked, "a_keeps_a_reported_block");
    assert_eq!(
        first.status,
        CheckStatus::Found(FindingKind::Allowed),
        "{}",
        checked.output()
    );
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn loses_some_of_each() {
    lose_reported(64);
    PARTLY.take(GIB);
}

#[test]
fn a_sum_is_compared_with_what_is_reported_and_counts_nothing_twice() {
    let checked = run("sums::loses_some_of_each");
    assert_leaked(&checked, "loses_some_of_each", GIB + 64);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn loses_a_sum() {
    drop(Block::new(1));
    SILENT.take(GIB);
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn borrows_a_sum() {
    drop(Block::new(1));
    SILENT.take(GIB);
    SILENT.give_back(GIB);
}

#[test]
fn a_sum_is_judged_if_nobody_else_ran() {
    let checked = run("sums::loses_a_sum");
    let report = assert_verdict(
        &checked,
        "loses_a_sum",
        CheckStatus::Found(FindingKind::Leaked),
    );
    assert_eq!(
        bytes(report, CheckStatus::Found(FindingKind::Leaked)),
        GIB,
        "{}",
        checked.output()
    );
    run("sums::borrows_a_sum").assert_clean();
}

#[ignore = "leaks on purpose"]
#[test]
fn loses_a_sum_of_one_pool_of_two() {
    TWINS[1].take(GIB);
    Check::new("loses").run(|| TWINS[0].take(64));
}

#[ignore = "run in a process of its own"]
#[test]
fn uses_one_pool_of_two() {
    TWINS[0].take(64);
    TWINS[1].take(GIB);
    Check::new("borrows").run(|| {
        drop(Block::new(1));
        TWINS[1].take(64);
        TWINS[1].give_back(64);
    });
}

#[test]
fn the_sums_of_two_probes_of_one_allocator_are_one_sum() {
    let checked = run("sums::loses_a_sum_of_one_pool_of_two");
    assert_leaked(&checked, "loses", 64);
    run("sums::uses_one_pool_of_two").assert_clean();
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn hands_over_a_rounded_block() {
    hand_over(take_rounded(100));
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn calls_a_check_that_loses_a_rounded_block() {
    Check::new("loses").run(|| take_rounded(10));
}

/// Two checked tests run at the same time. One of them leaks while the other one has a block.
mod rounded_beside_each_other {
    use std::sync::Barrier;

    use super::super::allocators::give_back_rounded;
    use super::{gpu_leak_check, take_rounded};

    static HAS_A_BLOCK: Barrier = Barrier::new(2);
    static HAS_LEAKED: Barrier = Barrier::new(2);
    static IS_OVER: Barrier = Barrier::new(2);

    #[gpu_leak_check(parallel, confirm = false)]
    #[ignore = "one of two"]
    #[test]
    fn a_clean() {
        let block = take_rounded(100);
        HAS_A_BLOCK.wait();
        HAS_LEAKED.wait();
        give_back_rounded(block, 100);
        IS_OVER.wait();
    }

    #[gpu_leak_check(parallel, confirm = false)]
    #[ignore = "leaks on purpose"]
    #[test]
    fn b_leaks() {
        HAS_A_BLOCK.wait();
        take_rounded(100);
        HAS_LEAKED.wait();
        IS_OVER.wait();
    }
}

#[test]
fn the_rounding_of_a_block_is_not_a_leak_no_matter_who_owns_the_block() {
    run("sums::hands_over_a_rounded_block").assert_clean();
    let checked = run("sums::calls_a_check_that_loses_a_rounded_block");
    assert_leaked(&checked, "loses", 10);
    let around = report(&checked, "calls_a_check_that_loses_a_rounded_block");
    assert_eq!(around.findings, [], "{}", checked.output());
    let checked = run_suite("sums::rounded_beside_each_other", 2);
    assert_leaked(&checked, "b_leaks", 100);
    let beside = report(&checked, "a_clean");
    assert_eq!(beside.status, CheckStatus::Clean, "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn reads_the_peak_of_rounded_blocks() {
    let place = Place::named("rounding:0");
    let before = memory_allocated(place);
    (0..4).for_each(|_| _ = take_rounded(10));
    assert_eq!(memory_allocated(place), before + 4 * 256);
    assert_eq!(max_memory_allocated(place), before + 4 * 256);
}

#[test]
fn no_peak_is_lower_than_what_a_probe_reads() {
    let test = "reads_the_peak_of_rounded_blocks";
    let checked = run(&format!("sums::{test}"));
    assert_leaked(&checked, test, 40);
    let tables = report(&checked, test).devices.iter();
    let peaks = tables.flat_map(|table| &table.rows).filter_map(|row| {
        let peak = row.peak.filter(|_| row.layer == "allocator:rounding")?;
        Some((row.baseline, row.after, peak))
    });
    assert_eq!(peaks.collect::<Vec<_>>(), [(0, 1024, 1024)]);
}

/// An allocator may report any size, for example of a range of addresses that it has only reserved.
#[ignore = "leaks on purpose"]
#[test]
fn leaks_blocks_of_any_size_and_frees_them_late() {
    let (place, addresses) = (Place::named("reporting:0"), [0x1000, 0x2000]);
    let leaked = catch_unwind(|| {
        Check::new("leaks").run_once(|| {
            for address in addresses {
                report_at(place, address, u64::MAX);
            }
            assert_eq!(memory_allocated(place), u64::MAX);
        });
    });
    assert!(leaked.is_err());
    addresses.into_iter().for_each(give_back);
}

#[test]
fn sums_of_any_sizes_do_not_overflow() {
    let checked = run("sums::leaks_blocks_of_any_size_and_frees_them_late");
    let output = checked.output();
    assert!(checked.child.status.success(), "{output}");
    let late: Vec<_> = checked.late.iter().map(|it| it.bytes).collect();
    assert_eq!(late, [u64::MAX], "{output}");
}
