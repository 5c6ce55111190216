//! Tests of what a report says about the siblings of a leak: where they were freed, which
//! companions were freed, and in which order.

use super::body::{Body, Run, check, frame};
use crate::judge::{FreedAt, judge};
use crate::ledger::event::ContextEnd;
use crate::ledger::{Anomaly, Kind, Layer, StackId};
use crate::report::Finding;

/// Returns resources that were allocated at one line and freed at another, together with the events
/// of their creation and end.
fn freed(line: u32, at: u32, events: &[(u64, u64)]) -> FreedAt {
    FreedAt {
        layer: Layer::DRIVER,
        kind: Kind::Linear,
        allocated: StackId(line),
        freed: StackId(at),
        count: events.len() as u64,
        events: events.iter().map(|(at, until)| (*at, *until, 8)).collect(),
    }
}

/// Allocates at one line and frees at another.
pub(super) fn come_and_go(run: &mut Run<'_>, line: u32, at: u32) {
    let taken = run.take(line, 8);
    let end = taken + 2;
    run.free(taken);
    run.caller(at);
    run.input
        .freed_of_run
        .push(freed(line, at, &[(taken, end)]));
}

/// Returns the finding of a check with two equal runs.
pub(super) fn twice(prepare: impl Fn(&mut Body), run: impl Fn(&mut Run<'_>)) -> Finding {
    let mut check = check();
    prepare(&mut check);
    check.run(&run).run(&run);
    judge(&check.input).findings.remove(0)
}

#[test]
fn freed_objects_of_the_same_line_are_reported_with_their_callers() {
    let stacks = |check: &mut Body| {
        check.stack(10, &[frame(10), frame(50), frame(70)]);
        check.stack(11, &[frame(10), frame(60), frame(70)]);
        check.stack(80, &[frame(80), frame(50), frame(70)]);
        check.stack(81, &[frame(81), frame(75), frame(70)]);
        check.stack(12, &[frame(10), frame(60), frame(61), frame(70)]);
        check.stack(13, &[frame(10), frame(70)]);
    };
    let found = twice(stacks, |run| {
        run.take(10, 8);
        come_and_go(run, 11, 81);
        come_and_go(run, 10, 80);
        come_and_go(run, 11, 81);
        for at in [82, 83] {
            come_and_go(run, 11, at);
        }
        for _ in 0..3 {
            come_and_go(run, 12, 81);
        }
        for _ in 0..4 {
            come_and_go(run, 13, 81);
        }
        // These are a resource of another kind on the same line and a resource on another line.
        run.input.freed_of_run.push(FreedAt {
            kind: Kind::Event,
            ..freed(10, 80, &[(0, 1)])
        });
        come_and_go(run, 20, 80);
    });
    let siblings = found.siblings.iter();
    let siblings = siblings.map(|it| (it.count, &*it.freed_at, it.allocated_from.as_deref()));
    let through = "app::step81 (src/app.rs:81) ← app::step75 (src/app.rs:75) ← app::step70 \
                   (src/app.rs:70)";
    assert_eq!(
        siblings.collect::<Vec<_>>(),
        [
            (
                1,
                "app::step80 (src/app.rs:80) ← app::step50 (src/app.rs:50)",
                None
            ),
            (4, through, Some("app::step70 (src/app.rs:70)")),
            (
                3,
                through,
                Some("app::step60 (src/app.rs:60) ← app::step61 (src/app.rs:61)")
            ),
        ]
    );
    assert_eq!((found.allocated, found.freed), (2, 1));
    assert!(found.companions.is_empty());
}

#[test]
fn freed_objects_of_the_function_are_reported_if_the_line_has_none() {
    let at = |function: &str, line| {
        let mut frame = frame(line);
        frame.function = Some(function.into());
        frame
    };
    let stacks = |check: &mut Body| {
        check.stack(10, &[at("app::Texture::new", 10), frame(50)]);
        check.stack(11, &[at("app::Texture::new", 11), frame(50)]);
        check.stack(12, &[at("app::Texture::new", 12), frame(50)]);
        // These resources were created through another caller, and by the test itself.
        check.stack(13, &[at("app::Texture::new", 13), frame(51)]);
        check.stack(14, &[at("app::tests::it", 14)]);
        // These resources were created through one more caller in between.
        let called = [at("app::Texture::new", 15), frame(16), frame(50)];
        check.stack(15, &called);
        check.stack(20, &[at("app::Texture::drop", 20), frame(50)]);
    };
    let found = twice(stacks, |run| {
        run.take(10, 8);
        come_and_go(run, 12, 21);
        for _ in 0..2 {
            come_and_go(run, 11, 20);
        }
        for line in [13, 15] {
            for _ in 0..3 {
                come_and_go(run, line, 20);
            }
        }
        come_and_go(run, 14, 20);
    });
    let companions = found.companions.iter();
    let companions = companions.map(|it| (it.count, it.resource, &*it.created_in, &*it.freed_at));
    assert_eq!(
        companions.collect::<Vec<_>>(),
        [
            (
                2,
                Kind::Linear,
                "Texture::new (src/app.rs:11)",
                "Texture::drop (src/app.rs:20) ← app::step50 (src/app.rs:50)"
            ),
            (
                1,
                Kind::Linear,
                "Texture::new (src/app.rs:12)",
                "app::step21 (src/app.rs:21)"
            ),
        ]
    );
}

#[test]
fn another_kind_on_the_same_line_is_a_companion_and_the_same_kind_is_a_sibling() {
    let stacks = |check: &mut Body| _ = check.stack(10, &[frame(10), frame(50)]);
    let found = twice(stacks, |run| {
        run.take(10, 8);
        run.caller(20);
        run.input.freed_of_run.push(FreedAt {
            kind: Kind::Event,
            ..freed(10, 20, &[(0, 1)])
        });
    });
    assert!(found.siblings.is_empty());
    assert_eq!(found.companions[0].resource, Kind::Event);
}

#[test]
fn a_function_that_only_the_test_shares_has_no_companions() {
    let test = || {
        let mut frame = frame(90);
        frame.function = Some("app::tests::it".into());
        frame
    };
    let stacks = |check: &mut Body| {
        check.stack(10, &[frame(10), test()]);
        check.stack(11, &[frame(11), test()]);
    };
    let found = twice(stacks, |run| {
        run.take(10, 8);
        come_and_go(run, 11, 20);
    });
    assert!(found.companions.is_empty());
}

#[test]
fn the_order_on_a_line_shows_which_one_was_forgotten() {
    let order = |run: fn(&mut Run<'_>)| twice(|_| {}, run).order;
    let last_of_two = order(|run| {
        come_and_go(run, 10, 20);
        run.take(10, 8);
    });
    assert_eq!(
        last_of_two.as_deref(),
        Some("allocated #1; freed #1; allocated #2; left: #2")
    );
    let all_but_the_last = order(|run| {
        let taken: Vec<_> = (0..5).map(|_| run.take(10, 8)).collect();
        run.caller(20);
        for it in &taken[..3] {
            run.free(*it);
        }
        let events: Vec<_> = taken[..3].iter().map(|it| (*it, it + 6)).collect();
        run.input.freed_of_run.push(freed(10, 20, &events));
    });
    assert_eq!(
        all_but_the_last.as_deref(),
        Some("allocated #1 to #5; freed #1 to #3; left: #4 and #5")
    );
    // Resources of another line or another kind are not reported.
    let others = order(|run| {
        run.take(30, 8);
        run.make(10, |made| made.kind = Kind::Event);
        come_and_go(run, 10, 20);
        run.take(10, 8);
    });
    assert_eq!(others, None, "the ledger counted another one");
}

#[test]
fn the_order_names_the_functions_that_differ() {
    let at = |function: &str, line| {
        let mut frame = frame(line);
        frame.function = Some(function.into());
        frame
    };
    let stacks = |check: &mut Body| {
        check.stack(10, &[frame(10), frame(50), at("app::tests::it", 90)]);
        check.stack(11, &[frame(10), frame(60), at("app::tests::it", 91)]);
        check.stack(12, &[frame(10), at("app::tests::it", 92)]);
    };
    let found = twice(stacks, |run| {
        come_and_go(run, 12, 20);
        come_and_go(run, 11, 20);
        run.take(10, 8);
    });
    let expected = "allocated #1 in the test; freed #1; allocated #2 in step60; freed #2; \
                    allocated #3 in step50; left: #3";
    assert_eq!(
        found.order.map(|it| it.replace("app::", "")).as_deref(),
        Some(expected)
    );
}

#[test]
fn no_order_is_reported_unless_all_of_it_is_known() {
    let order = |run: fn(&mut Run<'_>)| twice(|_| {}, run).order;
    assert_eq!(order(|run| _ = run.take(10, 8)), None, "nothing was freed");
    let many = order(|run| {
        for _ in 0..12 {
            come_and_go(run, 10, 20);
        }
        run.take(10, 8);
    });
    assert_eq!(many, None);
    let few = |pairs: usize| {
        twice(
            |_| {},
            |run| {
                for _ in 0..pairs {
                    come_and_go(run, 10, 20);
                }
                run.take(10, 8);
                run.take(10, 8);
            },
        )
        .order
    };
    assert!(few(5).is_some(), "twelve calls");
    assert_eq!(few(6), None, "fourteen calls");
    let without_events = order(|run| {
        come_and_go(run, 10, 20);
        run.take(10, 8);
        run.input.freed_of_run[0].events.clear();
    });
    assert_eq!(without_events, None);
    let counted = order(|run| {
        come_and_go(run, 10, 20);
        run.take(10, 8);
        *run.input.allocations.entry(StackId(10)).or_default() += 1;
    });
    assert_eq!(counted, None, "the ledger counted more");
    // The order is not shown if fewer resources were left than in the first run.
    let mut less = check();
    less.run(|run| _ = (run.take(10, 8), run.take(10, 8)));
    less.run(|run| {
        come_and_go(run, 10, 20);
        run.take(10, 8);
        run.take(10, 8);
        run.take(10, 8);
    });
    assert_eq!(judge(&less.input).findings[0].order, None);
}

#[test]
fn the_order_includes_objects_that_ended_with_their_context() {
    let found = twice(
        |_| {},
        |run| {
            come_and_go(run, 10, 20);
            let taken = run.take(10, 8);
            let record = run.free(taken);
            let caller = run.caller(80);
            run.input.anomalies.push(Anomaly::EndedWithContext {
                record,
                cause: ContextEnd::Reset,
                caller,
            });
        },
    );
    let expected = "allocated #1; freed #1; allocated #2; left: #2";
    assert_eq!(found.order.as_deref(), Some(expected));
}
