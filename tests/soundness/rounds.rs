//! Growth is judged both by the sum of what each round leaves and by each call site separately.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_check::{Check, assert_no_growth, gpu_leak_check};
use gpu_leak_tests::checked::{self, Checked};

use super::allocators::{Block, SILENT, take};
use super::{MIB, assert_verdict, of, run};

static ROUNDS: AtomicU32 = AtomicU32::new(0);

/// Returns the number of the current round of this process's only check, counted from 1. Also
/// reports an allocation, because a check without any event has measured nothing.
#[expect(clippy::print_stderr, reason = "the parent counts the rounds")]
fn begin_round() -> u32 {
    eprintln!("a round");
    drop(Block::new(1));
    ROUNDS.fetch_add(1, Ordering::Relaxed) + 1
}

fn rounds(checked: &Checked) -> usize {
    checked
        .child
        .stderr
        .lines()
        .filter(|line| *line == "a round")
        .count()
}

fn one_path() -> Block {
    Block::new(MIB)
}

fn other_path() -> Block {
    Block::new(MIB)
}

/// Allocates at two call sites in turn.
fn take_by_turns(round: u32) -> Block {
    match round % 2 {
        1 => one_path(),
        _ => other_path(),
    }
}

#[gpu_leak_check(rounds = 4)]
#[ignore = "leaks on purpose"]
#[test]
fn loses_by_turns() {
    std::mem::forget(take_by_turns(begin_round()));
}

#[test]
fn memory_that_two_sites_add_to_in_turn_grows() {
    let checked = run("rounds::loses_by_turns");
    assert_verdict(
        &checked,
        "loses_by_turns",
        CheckStatus::Found(FindingKind::Grew),
    );
    assert_eq!(rounds(&checked), 4, "{}", checked.output());
}

static KEPT: Mutex<Vec<Block>> = Mutex::new(Vec::new());

#[gpu_leak_check(rounds = 5)]
#[ignore = "run in a process of its own"]
#[test]
fn fills_a_cache_by_turns() {
    let mut cache = KEPT.lock().expect("no round panics");
    let round = begin_round();
    if cache.len() < 3 {
        cache.push(take_by_turns(round));
    }
}

#[gpu_leak_check(rounds = 5)]
#[ignore = "run in a process of its own"]
#[test]
fn replaces_by_turns() {
    let new = take_by_turns(begin_round());
    let mut kept = KEPT.lock().expect("no round panics");
    kept.clear();
    kept.push(new);
}

#[test]
fn a_cache_that_fills_by_two_sites_in_turn_does_not_grow() {
    run("rounds::fills_a_cache_by_turns").assert_clean();
}

#[test]
fn memory_that_two_sites_replace_in_turn_does_not_grow() {
    run("rounds::replaces_by_turns").assert_clean();
}

#[gpu_leak_check(rounds = 5)]
#[ignore = "run in a process of its own"]
#[test]
fn leaves_nothing() {
    begin_round();
}

#[gpu_leak_check(rounds = 5)]
#[ignore = "run in a process of its own"]
#[test]
fn leaves_something_in_its_first_round() {
    if begin_round() == 1 {
        take(MIB);
    }
}

#[test]
fn there_are_at_least_three_rounds() {
    for test in ["leaves_nothing", "leaves_something_in_its_first_round"] {
        let checked = run(&format!("rounds::{test}"));
        checked.assert_clean();
        assert!(rounds(&checked) >= 3, "{test}\n{}", checked.output());
    }
}

#[test]
#[ignore = "is refused"]
fn asks_for_two_rounds_of_a_block() {
    Check::new("two").rounds(2).run(|| _ = begin_round());
}

#[test]
#[ignore = "is refused"]
fn asserts_over_two_rounds() {
    assert_no_growth(2, || _ = begin_round());
}

#[test]
#[ignore = "is refused"]
fn asks_for_no_round_of_a_block() {
    Check::new("none").rounds(0).run(|| _ = begin_round());
}

#[test]
#[ignore = "is refused"]
fn expects_a_leak_of_a_block_in_rounds() {
    let check = Check::new("both").expect_count(1).rounds(5);
    check.run(|| _ = begin_round());
}

#[gpu_leak_check]
#[ignore = "run with a variable that is refused"]
#[test]
fn is_asked_for_two_rounds() {
    begin_round();
}

/// Fails unless two rounds were rejected with a message that says how many are necessary, and no
/// round was run.
#[track_caller]
fn assert_refused(checked: &Checked) {
    let output = checked.output();
    assert!(!checked.child.status.success(), "{output}");
    let reported = &checked.child.stderr;
    let says_how_many = ["at least 3", "at least three", "from 3 on", "3 or more"];
    assert!(
        reported.contains("rounds") || reported.contains("ROUNDS"),
        "{output}"
    );
    assert!(
        says_how_many.iter().any(|words| reported.contains(words)),
        "{output}"
    );
    assert_eq!(rounds(checked), 0, "{output}");
}

#[test]
fn two_rounds_are_refused() {
    assert_refused(&run("rounds::asks_for_two_rounds_of_a_block"));
    assert_refused(&run("rounds::asserts_over_two_rounds"));
    assert_refused(&run("rounds::asks_for_no_round_of_a_block"));
    let by_variable = of("rounds::is_asked_for_two_rounds").env("GPU_LEAK_CHECK_ROUNDS", "2");
    assert_refused(&checked::finish(by_variable));
}

#[test]
fn a_leak_of_a_block_is_not_expected_in_rounds() {
    let checked = run("rounds::expects_a_leak_of_a_block_in_rounds");
    let reported = &checked.child.stderr;
    let place = "thread 'both' panicked at tests/soundness/rounds.rs:";
    assert!(reported.contains(place), "{}", checked.output());
    let remedy = "`rounds` looks for growth over several runs: remove one of them";
    assert!(reported.contains(remedy), "{}", checked.output());
    assert_eq!(rounds(&checked), 0, "{}", checked.output());
}

#[gpu_leak_check(rounds = 4, tolerance = "1 MiB")]
#[ignore = "leaks on purpose"]
#[test]
fn a_sum_rises_in_every_round() {
    SILENT.take(2 * MIB);
}

#[gpu_leak_check(rounds = 4)]
#[ignore = "run in a process of its own"]
#[test]
fn a_sum_rises_and_falls() {
    match begin_round() % 2 {
        1 => SILENT.take(2 * MIB),
        _ => SILENT.give_back(2 * MIB),
    }
}

#[test]
fn a_sum_that_only_a_probe_reports_grows_if_every_round_adds_to_it() {
    let checked = run("rounds::a_sum_rises_in_every_round");
    assert_verdict(
        &checked,
        "a_sum_rises_in_every_round",
        CheckStatus::Found(FindingKind::Grew),
    );
    run("rounds::a_sum_rises_and_falls").assert_clean();
}
