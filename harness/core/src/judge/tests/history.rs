//! Tests of the resources that several runs leave.

use super::body::{check, frame, library};
use crate::judge::needs_another_run;
use crate::ledger::Kind;
use crate::report::Owner;

#[test]
fn memory_left_by_a_single_run_is_a_leak_without_confirmation() {
    let mut check = check();
    check.input.facts.confirm = false;
    check.run(|run| {
        let freed = run.take(10, 64);
        run.take(10, 64);
        run.take(20, 8);
        run.take(20, 24);
        run.free(freed);
    });
    assert!(!needs_another_run(&check.input));
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 2; bytes 64; each 64; freed 1; when {first:2,last:2,of:5}; records [1]
        leaked: 2 × linear on cuda:0 at src/app.rs:20; allocated 2; bytes 32; sizes [{bytes:8,count:1},{bytes:24,count:1}]; when {first:3,last:4,of:5}; records [2, 3]
    ",
    );
}

#[test]
fn a_run_that_leaves_nothing_needs_no_other() {
    let mut check = check();
    check.run(|run| {
        let freed = run.take(10, 64);
        run.free(freed);
    });
    assert!(!needs_another_run(&check.input));
    check.reports("clean");
}

#[test]
fn memory_that_two_runs_leave_at_one_line_is_a_leak() {
    let mut check = check();
    check.run(|run| _ = run.take(10, 64));
    assert!(needs_another_run(&check.input));
    check.run(|run| _ = run.take(10, 64));
    assert!(!needs_another_run(&check.input));
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed {bytes:64,count:1,of:2,runs:2}; each 64; when {first:1,last:1,of:1}; records [0, 1]
    ",
    );
}

#[test]
fn memory_left_only_by_the_first_run_is_first_use() {
    let mut check = check();
    check.run(|run| _ = run.take(10, 64)).run(|_| {});
    assert!(!needs_another_run(&check.input));
    check.reports(
        "
        first-use
        first-use: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; each 64; when {first:1,last:1,of:1}; records [0]
    ",
    );
}

#[test]
fn memory_left_only_by_the_second_run_is_decided_by_a_third() {
    let mut check = check();
    check.run(|run| _ = run.take(10, 64));
    check.run(|run| _ = run.take(20, 64));
    assert!(needs_another_run(&check.input));
    let mut without = check.clone();
    without.run(|_| {});
    assert!(!needs_another_run(&without.input), "never a fourth");
    without.reports(
        "
        first-use
        first-use: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; each 64; when {first:1,last:1,of:1}; records [0]
        first-use: 1 × linear on cuda:0 at src/app.rs:20; allocated 1; bytes 64; each 64; notes [only run 2 of 3 left this; findings cannot be confirmed if the test behaves differently in each run]; when {first:1,last:1,of:1}; records [1]
    ",
    );
    let mut again = check.clone();
    again.run(|run| _ = run.take(20, 64));
    again.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:20; allocated 1; bytes 64; confirmed {bytes:64,count:1,of:3,runs:2}; each 64; when {first:1,last:1,of:1}; records [1, 2]
    ",
    );
    // A different line leaks in each run.
    check.run(|run| _ = run.take(30, 48));
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed {bytes:48,count:1,of:3,runs:3}; each 64; notes [each run left resources at a different call site; the last run left 1 object, 48 B, mostly at src/app.rs:30]; when {first:1,last:1,of:1}; records [0, 2]
    ",
    );
}

#[test]
fn a_path_that_alternates_is_a_leak_of_every_run() {
    let mut check = check();
    check.run(|run| _ = (run.take(10, 64), run.take(20, 8)));
    check.run(|run| _ = (run.take(30, 64), run.take(20, 8)));
    check.run(|run| _ = (run.take(10, 64), run.take(20, 8)));
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed {bytes:64,count:1,of:3,runs:2}; each 64; when {first:1,last:1,of:2}; records [0, 4]
        leaked: 1 × linear on cuda:0 at src/app.rs:20; allocated 1; bytes 8; confirmed {bytes:8,count:1,of:3,runs:3}; each 8; when {first:2,last:2,of:2}; records [1, 3, 5]
    ",
    );
}

#[test]
fn memory_left_later_on_another_path_is_reported_with_the_first() {
    let mut check = check();
    check.run(|run| _ = (run.take(10, 64), run.take(10, 64), run.take(15, 8)));
    check.run(|run| _ = (run.take(10, 64), run.take(20, 128), run.take(20, 64)));
    check.run(|run| _ = (run.take(10, 64), run.take(20, 64), run.take(25, 64)));
    check.reports(
        "
        leaked
        leaked: 2 × linear on cuda:0 at src/app.rs:10; allocated 2; bytes 128; confirmed {bytes:64,count:1,of:3,runs:3}; each 64; notes [each later run left at least as much, but not always at the same call site; the last run left 3 objects, 192 B in total]; when {first:1,last:2,of:3}; records [0, 1, 3, 6]
        leaked: 1 × linear on cuda:0 at src/app.rs:15; allocated 1; bytes 8; confirmed {bytes:192,count:3,of:3,runs:3}; each 8; notes [each later run left at least as much, but not always at the same call site; the last run left 3 objects, 192 B in total]; when {first:3,last:3,of:3}; records [2]
    ",
    );
}

#[test]
fn memory_freed_by_a_later_run_is_deferred() {
    let mut check = check();
    let mut first = 0;
    check.run(|run| first = run.take(10, 64));
    check.run(|run| _ = run.free(first));
    assert!(!needs_another_run(&check.input));
    check.reports(
        "
        deferred
        deferred: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; each 64; records []
    ",
    );
}

#[test]
fn a_replacement_is_deferred_unless_it_is_larger() {
    let replaced = |line, bytes| {
        let mut check = check();
        let mut first = 0;
        check.run(|run| first = run.take(10, 64));
        check.run(|run| {
            run.free(first);
            run.take(line, bytes);
        });
        check
    };
    let check = replaced(10, 64);
    assert!(!needs_another_run(&check.input));
    check.reports(
        "
        deferred
        deferred: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; each 64; notes [the last run left 1 in its place]; records []
    ",
    );
    let larger = replaced(10, 65);
    assert!(needs_another_run(&larger.input));
    larger.reports(
        "
        deferred
        deferred: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; each 64; notes [the last run left 1 in its place]; records []
    ",
    );
    let elsewhere = replaced(20, 64);
    assert!(needs_another_run(&elsewhere.input), "it replaces nothing");
    elsewhere.reports(
        "
        first-use
        first-use: 1 × linear on cuda:0 at src/app.rs:20; allocated 1; bytes 64; each 64; notes [only run 2 of 2 left this; findings cannot be confirmed if the test behaves differently in each run]; when {first:2,last:2,of:2}; records [2]
        deferred: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; each 64; records []
    ",
    );
}

#[test]
fn a_replacement_through_another_path_to_the_same_line_is_not_a_finding() {
    let mut check = check();
    check.stack(11, &[frame(10), frame(50)]);
    check.stack(12, &[frame(10), frame(60)]);
    let mut first = 0;
    check.run(|run| first = run.take(11, 64));
    check.run(|run| {
        run.free(first);
        run.take(12, 64);
    });
    assert!(!needs_another_run(&check.input));
    check.reports(
        "
        deferred
        deferred: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; each 64; records []
    ",
    );
}

#[test]
fn memory_that_the_first_run_left_in_excess_is_first_use() {
    let mut check = check();
    check.run(|run| _ = [64, 64, 64].map(|bytes| run.take(10, bytes)));
    check.run(|run| _ = run.take(10, 64));
    assert!(!needs_another_run(&check.input));
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed {bytes:64,count:1,of:2,runs:2}; each 64; when {first:1,last:1,of:1}; records [0, 1, 2, 3]
        first-use: 2 × linear on cuda:0 at src/app.rs:10; allocated 3; bytes 128; each 64; records []
    ",
    );
    // If a run left more, that run is charged with the difference.
    let mut check = super::body::check();
    check.run(|run| _ = run.take(10, 64));
    check.run(|run| _ = [64, 64].map(|bytes| run.take(10, bytes)));
    assert!(
        needs_another_run(&check.input),
        "a third run decides on the second one"
    );
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed {bytes:128,count:2,of:2,runs:2}; each 64; when {first:1,last:1,of:1}; records [0, 1, 2]
    ",
    );
    check.input.facts.tolerance = 127;
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed {bytes:128,count:2,of:2,runs:2}; each 64; when {first:1,last:1,of:1}; records [0, 1, 2]
        note: 128 B of driver memory on cuda:0 remained allocated, more than the tolerance of 127 B
    ",
    );
    check.input.facts.tolerance = 128;
    check.reports(
        "
        clean
        note: 128 B remained allocated, within the tolerance of 128 B
    ",
    );
}

#[test]
fn memory_that_rises_with_every_run_is_a_leak_even_at_other_lines() {
    let mut check = check();
    let mut first = 0;
    check.run(|run| first = run.take(10, 64));
    check.run(|run| {
        run.free(first);
        first = run.take(20, 64);
        run.take(30, 64);
    });
    assert!(needs_another_run(&check.input));
    check.run(|run| {
        run.free(first);
        run.take(40, 64);
        run.take(50, 64);
    });
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; bytes 64; confirmed {bytes:128,count:2,of:3,runs:3}; each 64; notes [each run left resources at a different call site; the last run left 2 objects, 128 B, mostly at src/app.rs:50]; when {first:3,last:3,of:3}; records [3, 5, 6]
        deferred: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; each 64; records []
        deferred: 1 × linear on cuda:0 at src/app.rs:20; allocated 1; bytes 64; each 64; records []
    ",
    );
}

#[test]
fn a_class_that_every_run_leaves_is_charged_once() {
    let mut check = check();
    check.run(|run| _ = (run.take(10, 64), run.take(11, 32), run.take(12, 8)));
    check.run(|run| _ = (run.take(20, 64), run.take(21, 64)));
    check.run(|run| _ = run.take(30, 32));
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed {bytes:32,count:1,of:3,runs:3}; each 64; notes [each run left resources at a different call site; the last run left 1 object, 32 B, mostly at src/app.rs:30]; when {first:1,last:1,of:3}; records [0, 5]
        leaked: 1 × linear on cuda:0 at src/app.rs:11; allocated 1; bytes 32; confirmed {bytes:32,count:1,of:3,runs:3}; each 32; notes [each run left resources at a different call site; the last run left 1 object, 32 B, mostly at src/app.rs:30]; when {first:2,last:2,of:3}; records [1, 5]
        leaked: 1 × linear on cuda:0 at src/app.rs:12; allocated 1; bytes 8; confirmed {bytes:32,count:1,of:3,runs:3}; each 8; notes [each run left resources at a different call site; the last run left 1 object, 32 B, mostly at src/app.rs:30]; when {first:3,last:3,of:3}; records [2, 5]
    ",
    );
    check.input.facts.tolerance = 127;
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed {bytes:32,count:1,of:3,runs:3}; each 64; notes [each run left resources at a different call site; the last run left 1 object, 32 B, mostly at src/app.rs:30]; when {first:1,last:1,of:3}; records [0, 5]
        leaked: 1 × linear on cuda:0 at src/app.rs:11; allocated 1; bytes 32; confirmed {bytes:32,count:1,of:3,runs:3}; each 32; notes [each run left resources at a different call site; the last run left 1 object, 32 B, mostly at src/app.rs:30]; when {first:2,last:2,of:3}; records [1, 5]
        leaked: 1 × linear on cuda:0 at src/app.rs:12; allocated 1; bytes 8; confirmed {bytes:32,count:1,of:3,runs:3}; each 8; notes [each run left resources at a different call site; the last run left 1 object, 32 B, mostly at src/app.rs:30]; when {first:3,last:3,of:3}; records [2, 5]
        note: 128 B of driver memory on cuda:0 remained allocated, more than the tolerance of 127 B
    ",
    );
    check.input.facts.tolerance = 128;
    check.reports(
        "
        clean
        note: 128 B remained allocated, within the tolerance of 128 B
    ",
    );
}

#[test]
fn handles_and_memory_do_not_confirm_each_other() {
    let mut check = check();
    check.run(|run| _ = run.take(10, 64));
    check.run(|run| _ = run.make(20, |made| made.kind = Kind::Stream));
    check.run(|run| _ = run.take(30, 64));
    check.reports(
        "
        first-use
        first-use: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; each 64; when {first:1,last:1,of:1}; records [0]
        first-use: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; bytes 64; each 64; notes [only run 3 of 3 left this; findings cannot be confirmed if the test behaves differently in each run]; when {first:1,last:1,of:1}; records [2]
        first-use: 1 × stream on cuda:0 at src/app.rs:20; allocated 1; each 0; notes [only run 2 of 3 left this; findings cannot be confirmed if the test behaves differently in each run]; when {first:1,last:1,of:1}; records [1]
    ",
    );
}

#[test]
fn a_run_that_ended_differently_confirms_nothing() {
    let mut check = check();
    check.run(|run| _ = run.take(10, 64));
    check.run(|run| run.input.as_expected = false);
    assert!(!needs_another_run(&check.input));
    check.reports(
        "
        inconclusive because of not-repeatable: the second run, which was meant to confirm the findings of the first run, ended differently; check the test's output to see how the last run ended, and make the body repeatable; if the body can run only once, set `confirm = false`
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed not-repeatable; each 64; when {first:1,last:1,of:1}; records [0]
    ",
    );
    let mut failed = super::body::check();
    failed.run(|run| {
        run.take(10, 64);
        run.input.as_expected = false;
    });
    assert!(!needs_another_run(&failed.input), "its body can only fail");
}

#[test]
fn paths_that_differ_only_inside_cuda_or_in_a_column_are_one_call_site() {
    let mut check = check();
    let cublas = |function| library("libcublas.so.13", function, Owner::Cuda);
    let column = |line, column| {
        let mut frame = frame(line);
        frame.column = Some(column);
        frame
    };
    check.stack(11, &[cublas("first"), column(10, 5), column(50, 1)]);
    check.stack(12, &[cublas("later"), column(10, 5), column(50, 2)]);
    check.stack(13, &[cublas("later"), column(10, 6), column(50, 2)]);
    check.run(|run| _ = run.take(11, 64));
    check.run(|run| _ = (run.take(12, 64), run.take(13, 64)));
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed {bytes:64,count:1,of:2,runs:2}; each 64; passages [{frame:{column:1,file:src/app.rs,function:app::step50,line:50,module:null,offset:null,owner:user},until:52,what:called}]; when {first:1,last:1,of:1}; records [0, 1]
        first-use: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; each 64; notes [only run 2 of 2 left this; findings cannot be confirmed if the test behaves differently in each run]; when {first:2,last:2,of:2}; records [2]
    ",
    );
}

#[test]
fn memory_that_a_later_run_leaves_in_excess_is_charged_once() {
    let mut check = check();
    check.run(|run| _ = run.take(20, 64));
    check.run(|run| _ = run.take(10, 128));
    check.run(|run| _ = run.take(30, 64));
    check.input.facts.tolerance = 127;
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:20; allocated 1; bytes 64; confirmed {bytes:64,count:1,of:3,runs:3}; each 64; notes [each later run left at least as much, but not always at the same call site; the last run left 1 object, 64 B in total]; when {first:1,last:1,of:1}; records [0]
        note: 128 B of driver memory on cuda:0 remained allocated, more than the tolerance of 127 B
    ",
    );
    check.input.facts.tolerance = 128;
    check.reports(
        "
        clean
        note: 128 B remained allocated, within the tolerance of 128 B
    ",
    );
}

#[test]
fn a_call_site_that_leaves_the_same_proves_nothing_about_others() {
    let mut check = check();
    check.run(|run| _ = (run.take(10, 64), run.take(15, 64)));
    check.run(|run| _ = (run.take(20, 64), run.take(25, 64)));
    let mut at_another = check.clone();
    at_another.run(|run| _ = (run.take(10, 64), run.take(30, 64)));
    at_another.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed {bytes:64,count:1,of:3,runs:3}; each 64; when {first:1,last:1,of:2}; records [0, 4]
        leaked: 1 × linear on cuda:0 at src/app.rs:15; allocated 1; bytes 64; confirmed {bytes:128,count:2,of:3,runs:3}; each 64; notes [each later run left at least as much, but not always at the same call site; the last run left 2 objects, 128 B in total]; when {first:2,last:2,of:2}; records [1]
    ",
    );
    check.run(|run| _ = (run.take(10, 64), run.take(25, 64)));
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed {bytes:64,count:1,of:3,runs:2}; each 64; when {first:1,last:1,of:2}; records [0, 4]
        leaked: 1 × linear on cuda:0 at src/app.rs:25; allocated 1; bytes 64; confirmed {bytes:64,count:1,of:3,runs:2}; each 64; when {first:2,last:2,of:2}; records [3, 5]
    ",
    );
}

#[test]
fn memory_left_once_beside_a_leak_is_reported_separately() {
    let mut check = check();
    check.run(|run| _ = (run.take(10, 64), run.take(15, 8)));
    check.run(|run| _ = run.take(10, 64));
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed {bytes:64,count:1,of:2,runs:2}; each 64; when {first:1,last:1,of:2}; records [0, 2]
        first-use: 1 × linear on cuda:0 at src/app.rs:15; allocated 1; bytes 8; each 8; when {first:2,last:2,of:2}; records [1]
    ",
    );
}

#[test]
fn a_third_run_that_ended_differently_leaves_two_runs_undecided() {
    let mut check = check();
    check.run(|run| _ = run.take(10, 64));
    check.run(|run| _ = run.take(20, 64));
    check.run(|run| run.input.as_expected = false);
    check.reports(
        "
        inconclusive because of not-repeatable: two runs did not show whether their findings repeat, and the third run, which was meant to decide, ended differently; check the test's output to see how the last run ended, and make the body repeatable; if the body can run only once, set `confirm = false`
        first-use: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; each 64; when {first:1,last:1,of:1}; records [0]
        first-use: 1 × linear on cuda:0 at src/app.rs:20; allocated 1; bytes 64; each 64; notes [only run 2 of 2 left this; findings cannot be confirmed if the test behaves differently in each run]; when {first:1,last:1,of:1}; records [1]
    ",
    );
}

#[test]
fn a_class_in_all_runs_is_reported_with_the_last_run_s_largest_line() {
    let mut check = check();
    check.run(|run| _ = (run.take(10, 64), run.take(90, 8)));
    check.run(|run| _ = (run.take(20, 8), run.take(90, 8)));
    check.run(|run| _ = (run.take(30, 16), run.take(40, 24), run.take(90, 8)));
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed {bytes:40,count:2,of:3,runs:3}; each 64; notes [each run left resources at a different call site; the last run left 2 objects, 40 B, mostly at src/app.rs:40]; when {first:1,last:1,of:2}; records [0, 4, 5]
        leaked: 1 × linear on cuda:0 at src/app.rs:90; allocated 1; bytes 8; confirmed {bytes:8,count:1,of:3,runs:3}; each 8; when {first:2,last:2,of:2}; records [1, 3, 6]
    ",
    );
}
