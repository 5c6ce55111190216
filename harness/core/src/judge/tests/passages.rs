//! Tests of the lines that a report shows for a leak in addition to the leak's own line.

use super::body::{Body, Run, check, frame};
use super::siblings::{come_and_go, twice};
use crate::judge::judge;
use crate::report::PassageKind::{self, Called, Freed, Later, LedToFree, ToCallOfFree, ToFree};
use crate::report::{Finding, Frame};

fn at(function: &str, line: u32) -> Frame {
    Frame {
        function: Some(format!("app::{function}").into()),
        ..frame(line)
    }
}

/// Returns a frame of a function that wraps a call, in a separate file.
fn wrapper(line: u32) -> Frame {
    Frame {
        file: Some("src/driver.rs".into()),
        ..at("wrapper", line)
    }
}

/// Returns the purpose of each passage, and its lines.
fn passages(found: &Finding) -> Vec<(PassageKind, u32, u32)> {
    let passages = found.passages.iter();
    let passages = passages.map(|it| (it.what, it.frame.line.expect("a line"), it.until));
    passages.collect()
}

fn shown(stacks: &[(u32, &[Frame])], run: impl Fn(&mut Run<'_>)) -> Vec<(PassageKind, u32, u32)> {
    let prepare = |check: &mut Body| {
        for (stack, frames) in stacks {
            check.stack(*stack, frames);
        }
    };
    passages(&twice(prepare, run))
}

/// Returns the passages that are shown if stack 10 makes two allocations and stack 20 frees one of
/// them.
fn shown_beside_a_free(stacks: &[(u32, &[Frame])]) -> Vec<(PassageKind, u32, u32)> {
    shown(stacks, |run| {
        come_and_go(run, 10, 20);
        run.take(10, 8);
    })
}

#[test]
fn if_one_function_allocates_and_frees_it_is_shown_from_one_to_the_other() {
    let stacks: &[(u32, &[Frame])] = &[
        (10, &[wrapper(1), at("decode", 25), at("play", 40)]),
        (20, &[wrapper(2), at("decode", 30), at("play", 40)]),
    ];
    assert_eq!(shown_beside_a_free(stacks), [(ToFree, 25, 30)]);
}

#[test]
fn a_function_between_the_common_caller_and_the_free_is_shown() {
    let through = at("run", 50);
    let stacks: &[(u32, &[Frame])] = &[
        (10, &[wrapper(1), at("begin", 11), at("send", 61)]),
        (
            20,
            &[wrapper(2), at("release", 21), through, at("send", 60)],
        ),
    ];
    assert_eq!(
        shown_beside_a_free(stacks),
        [(ToCallOfFree, 60, 61), (LedToFree, 50, 50), (Freed, 21, 21)]
    );
}

#[test]
fn a_long_function_is_shown_at_the_call_that_led_to_the_leak_and_at_the_free() {
    let stacks: &[(u32, &[Frame])] = &[
        (10, &[wrapper(1), at("load", 11), at("work", 100)]),
        (20, &[wrapper(2), at("work", 200)]),
    ];
    assert_eq!(
        shown_beside_a_free(stacks),
        [(Called, 100, 100), (Freed, 200, 200)]
    );
}

#[test]
fn the_test_is_shown_only_if_it_allocates_itself() {
    let test = |line| Frame {
        function: Some("app::tests::it".into()),
        ..frame(line)
    };
    let by_another = shown_beside_a_free(&[
        (10, &[at("open", 10), test(90)]),
        (20, &[at("drop", 20), test(92)]),
    ]);
    let freed = (Freed, 20, 20);
    assert_eq!(by_another, [freed]);
    let itself = shown_beside_a_free(&[(10, &[test(90)]), (20, &[at("drop", 20), test(92)])]);
    assert_eq!(itself, [(ToCallOfFree, 90, 92), freed]);
}

#[test]
fn a_later_allocation_that_may_have_replaced_the_leak_is_shown() {
    let stacks: &[(u32, &[Frame])] = &[
        (10, &[wrapper(1), at("new", 10)]),
        (11, &[wrapper(1), at("present", 31), at("step", 41)]),
        (20, &[wrapper(2), at("drop", 20)]),
    ];
    let freed = (Freed, 20, 20);
    let found = shown(stacks, |run| {
        run.take(10, 8);
        come_and_go(run, 11, 20);
    });
    assert_eq!(found, [freed, (Later, 31, 31), (Later, 41, 41)]);
    let earlier = shown(stacks, |run| {
        come_and_go(run, 11, 20);
        run.take(10, 8);
    });
    assert_eq!(earlier, [freed]);
}

#[test]
fn if_nothing_was_freed_the_caller_of_the_allocating_function_is_shown() {
    let mut check = check();
    let closure = at("new::{{closure}}", 10);
    check.stack(10, &[wrapper(1), closure, at("new", 12), at("work", 50)]);
    check.run(|run| _ = run.take(10, 8));
    check.run(|run| _ = run.take(10, 8));
    let found = judge(&check.input).findings.remove(0);
    assert_eq!(passages(&found), [(Called, 50, 52)]);
}
