//! The report of an exceeded budget says which allocations exceeded it, whether or not the run asks
//! for peaks.

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::{Budget, FindingKind};
use gpu_leak_kernels::memory::Buffer;
use gpu_leak_kernels::{Device, Result};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;

use super::line_of;

fn failed(test: &str) -> (Checked, Budget) {
    let checked = checked::finish(Run::of(&format!("peaks::budgets::{test}")));
    let [finding] = &checked.report().findings[..] else {
        panic!("{}", checked.output());
    };
    assert_eq!(
        finding.kind,
        FindingKind::OverBudget,
        "{}",
        checked.output()
    );
    let budget = finding.budget.clone().expect("a budget");
    (checked, budget)
}

fn at(mark: &str) -> String {
    format!(
        "tests/peaks/budgets.rs:{}",
        line_of(include_str!("budgets.rs"), mark)
    )
}

#[test]
fn the_lines_of_an_exceeded_peak_add_up_to_it() {
    let (checked, budget) = failed("allocates_on_three_lines");
    let lines = budget.shares.iter();
    let lines: Vec<_> = lines.map(|it| (it.bytes, it.count, &*it.at)).collect();
    let expected = [
        (3 << 20, 3, &*at("peak: thrice")),
        (2 << 20, 1, &*at("peak: once")),
    ];
    assert_eq!(
        lines, expected,
        "what was freed before the peak is not part of it"
    );
    assert_eq!(
        budget.shares.iter().map(|it| it.bytes).sum::<u64>(),
        budget.reached
    );
    let calls = budget.shares[0].when.map(|when| (when.first, when.last));
    let peak = budget.when.map(|when| when.last);
    assert_eq!(calls.map(|(_, last)| last), peak, "{budget:?}");
    let printed = [
        "3 allocations, 3.00 MiB, allocated by calls",
        "1 allocation, 2.00 MiB at tests/peaks/budgets.rs",
        "these lines add up to the peak, reached by call",
    ];
    for text in printed {
        assert!(
            checked.child.stderr.contains(text),
            "{text}: {}",
            checked.output()
        );
    }
}

/// Reusing the blocks that the report names is enough: the twin, which does so, stays within the
/// budget.
#[test]
fn an_exceeded_count_says_which_allocations_one_buffer_could_serve() {
    let (checked, budget) = failed("allocates_ten_times");
    assert_eq!((budget.allowed, budget.reached), (1, 10));
    let [reusable] = &budget.reusable[..] else {
        panic!("{budget:?}");
    };
    assert_eq!((reusable.count, reusable.saved()), (10, 9));
    assert_eq!(reusable.at, at("reuse: ten"));
    let printed = "each freed before the next was allocated: one buffer could serve them all, saving 9 allocations";
    assert!(
        checked.child.stderr.contains(printed),
        "{}",
        checked.output()
    );

    let twin = checked::finish(Run::of("peaks::budgets::allocates_once"));
    twin.assert_clean();
    assert_eq!(twin.report().notes, [""; 0], "the limit has an effect");
}

#[gpu_leak_check(max_allocated = "4 MiB", layer = "allocator:gpu-leak-kernels")]
#[ignore = "takes too much on purpose"]
#[test]
fn allocates_on_three_lines() -> Result<()> {
    let device = Device::embedded()?;
    Buffer::new(&device, 1 << 20)?;
    let _one = Buffer::new(&device, 2 << 20)?; // peak: once
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(Buffer::new(&device, 1 << 20)?); // peak: thrice
    }
    Ok(())
}

#[gpu_leak_check(max_allocation_count = 1, layer = "allocator:gpu-leak-kernels")]
#[ignore = "takes too much on purpose"]
#[test]
fn allocates_ten_times() -> Result<()> {
    let device = Device::embedded()?;
    for _ in 0..10 {
        Buffer::new(&device, 1 << 20)?; // reuse: ten
    }
    Ok(())
}

#[gpu_leak_check(max_allocation_count = 1, layer = "allocator:gpu-leak-kernels")]
#[ignore = "run by a test above"]
#[test]
fn allocates_once() -> Result<()> {
    let device = Device::embedded()?;
    let scratch = Buffer::new(&device, 1 << 20)?;
    for _ in 0..10 {
        assert_ne!(scratch.address(), 0);
    }
    Ok(())
}
