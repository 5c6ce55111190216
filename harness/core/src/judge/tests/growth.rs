//! Tests of growth in rounds.

use super::body::{gpu, rounds};
use crate::judge::{ContextError, needs_another_run};

#[test]
fn memory_that_rises_in_every_round_has_grown() {
    let mut check = rounds(4);
    check.run(|run| _ = (run.take(10, 64), run.take(20, 8), run.take(30, 16)));
    assert!(needs_another_run(&check.input));
    check.run(|run| _ = (run.take(10, 64), run.take(20, 8)));
    assert!(needs_another_run(&check.input));
    check.reports("clean");
    check.run(|run| _ = (run.take(10, 64), run.take(10, 32)));
    assert!(needs_another_run(&check.input), "one of them still grows");
    check.run(|run| _ = run.take(10, 64));
    assert!(!needs_another_run(&check.input));
    check.reports(
        "
        grew
        grew: 5 × linear on cuda:0 at src/app.rs:10; allocated 5; bytes 288; rounds [{bytes:64,count:1},{bytes:128,count:2},{bytes:224,count:4},{bytes:288,count:5}]; sizes [{bytes:32,count:1},{bytes:256,count:4}]; records [0, 3, 5, 6, 7]
    ",
    );
}

#[test]
fn rounds_end_as_soon_as_nothing_can_have_grown() {
    let mut check = rounds(10);
    check
        .run(|run| _ = run.take(10, 64))
        .run(|_| {})
        .run(|_| {});
    assert!(!needs_another_run(&check.input));
    check.reports("clean");
}

#[test]
fn lines_that_grow_together_are_one_finding_at_the_largest() {
    let mut check = rounds(3);
    check.run(|run| _ = (run.take(10, 64), run.take(40, 8)));
    check.run(|run| _ = (run.take(20, 128), run.take(40, 8)));
    assert!(needs_another_run(&check.input));
    check.run(|run| _ = (run.take(30, 32), run.take(40, 8)));
    assert!(!needs_another_run(&check.input));
    check.reports(
        "
        grew
        grew: 3 × linear on cuda:0 at src/app.rs:20; allocated 3; bytes 224; notes [no single call site grew in every round, but all of them together did; other call sites are src/app.rs:10, src/app.rs:30]; rounds [{bytes:64,count:1},{bytes:192,count:2},{bytes:224,count:3}]; records [0, 2, 4]
        grew: 3 × linear on cuda:0 at src/app.rs:40; allocated 3; bytes 24; each 8; rounds [{bytes:8,count:1},{bytes:16,count:2},{bytes:24,count:3}]; records [1, 3, 5]
    ",
    );
}

#[test]
fn a_round_that_failed_shows_no_growth() {
    let mut check = rounds(4);
    for _ in 0..3 {
        check.run(|run| _ = run.take(10, 64));
    }
    check.run(|run| run.input.as_expected = false);
    check.reports("clean");
}

#[test]
fn rounds_that_a_broken_context_cut_short_show_nothing() {
    let mut check = rounds(5);
    check.run(|run| {
        run.take(10, 64);
        run.input.broken_inside = Some(ContextError {
            place: gpu(),
            error: 700,
        });
    });
    assert!(!needs_another_run(&check.input));
    check.input.names.broken_by = Some("tests::it".to_owned());
    check.reports(
        "
        inconclusive because of poisoned: the context on cuda:0 was broken by this test (CUDA_ERROR_ILLEGAL_ADDRESS), so only 1 of 5 rounds ran; first find the kernel or the call that broke it; running each test in its own process (nextest) protects the others
    ",
    );
}
