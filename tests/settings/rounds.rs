//! Growth. Only what increases in every round is a finding.

use std::sync::Mutex;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};

use super::shelf::{give_back, take};
use super::{headline, run, run_with};

#[test]
fn growth_in_every_round_fails_with_each_round_s_figure() {
    let checked = run("rounds::grows");
    assert!(
        headline(&checked).starts_with(
            "gpu memory grew: 4 allocations, 40 B on shelf:0, allocated at tests/settings/rounds.rs:"
        ),
        "{}",
        checked.output()
    );
    let finding = &checked.report().findings[0];
    let counts: Vec<_> = finding.rounds.iter().map(|left| left.count).collect();
    assert_eq!(
        (finding.kind, counts),
        (FindingKind::Grew, vec![1, 2, 3, 4])
    );
    let text = "each of 4 rounds left 1 more (10 B)";
    assert!(checked.child.stderr.contains(text), "{}", checked.output());
}

#[gpu_leak_check(rounds = 4)]
#[ignore = "fails"]
#[test]
fn grows() {
    take(10);
}

/// The first rounds fill a cache with three entries, which then stay.
#[gpu_leak_check(rounds = 5)]
#[test]
fn a_cache_that_fills_up_is_not_reported() {
    static CACHE: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let mut cache = CACHE.lock().unwrap();
    if cache.len() < 3 {
        cache.push(take(10));
    }
}

/// Each round frees what the previous round left.
#[gpu_leak_check(rounds = 5)]
#[test]
fn memory_that_is_replaced_each_round_does_not_grow() {
    static LAST: Mutex<Option<u64>> = Mutex::new(None);
    if let Some(old) = LAST.lock().unwrap().replace(take(10)) {
        give_back(old);
    }
}

#[test]
fn a_leak_every_tenth_time_is_caught_by_rounds_of_ten() {
    let checked = run("rounds::leaks_every_tenth_time");
    assert!(
        headline(&checked).starts_with("gpu memory grew: 3 allocations"),
        "{}",
        checked.output()
    );
}

#[gpu_leak_check(rounds = 3)]
#[ignore = "fails"]
#[test]
fn leaks_every_tenth_time() {
    for step in 0..10 {
        let taken = take(10);
        if step != 7 {
            give_back(taken);
        }
    }
}

#[test]
fn no_round_is_run_once_nothing_can_have_grown() {
    let checked = run("rounds::counts_its_rounds");
    checked.assert_clean();
    assert_eq!(
        checked.child.stderr.matches("a round").count(),
        3,
        "{}",
        checked.output()
    );
}

#[expect(clippy::print_stderr, reason = "the parent counts the rounds")]
fn note(what: &str) {
    eprintln!("{what}");
}

#[gpu_leak_check(rounds = 9)]
#[ignore = "run in a process of its own"]
#[test]
fn counts_its_rounds() {
    note("a round");
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        take(10);
    });
}

#[test]
fn a_round_that_fails_fails_the_test_with_its_own_message() {
    let checked = run("rounds::fails_the_second_time");
    assert!(!checked.child.status.success(), "{}", checked.output());
    assert!(
        checked.child.stderr.contains("the second time"),
        "{}",
        checked.output()
    );
}

#[gpu_leak_check(rounds = 4)]
#[ignore = "fails"]
#[test]
fn fails_the_second_time() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    let mut first = false;
    ONCE.call_once(|| first = true);
    take(10);
    assert!(first, "the second time");
}

#[test]
fn the_environment_sets_the_rounds_of_every_test() {
    let checked = run_with("rounds::leaks", &[("GPU_LEAK_CHECK_ROUNDS", "3")]);
    assert_eq!(
        checked.report().status,
        CheckStatus::Found(FindingKind::Grew),
        "{}",
        checked.output()
    );
}

#[gpu_leak_check]
#[ignore = "fails"]
#[test]
fn leaks() {
    take(10);
}
