//! Tests of the owners of resources, and of the objects to which resources belong.

use super::body::{Run, check, frame, library};
use super::pools::{cache, hands_out, pool, reserves};
use crate::judge::{Ownership, is_anything_left, needs_another_run};
use crate::ledger::event::{ContextEnd, ThreadNumber};
use crate::ledger::{Anomaly, Kind, Place};
use crate::report::{AllowedBy, Owner};

#[test]
fn memory_handed_over_is_not_a_leak_and_allowed_memory_is_reported() {
    let mut check = check();
    check.run(|run| {
        for (line, owner) in [(10, Ownership::HandedOver), (20, Ownership::Another)] {
            let taken = run.take(line, 64);
            run.give(taken, owner);
        }
        for line in [30, 40] {
            let taken = run.take(line, 64);
            run.give(taken, Ownership::Allowed(AllowedBy::the_code("a cache")));
        }
    });
    assert!(!needs_another_run(&check.input));
    check.reports(
        "
        allowed
        allowed: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; allowed_by {expired:null,owner:null,reason:a cache,stands_in:the code}; bytes 64; each 64; when {first:3,last:3,of:4}; records [2]
        allowed: 1 × linear on cuda:0 at src/app.rs:40; allocated 1; allowed_by {expired:null,owner:null,reason:a cache,stands_in:the code}; bytes 64; each 64; when {first:4,last:4,of:4}; records [3]
    ",
    );
}

#[test]
fn what_stays_with_another_owner_was_not_freed() {
    let mut check = check();
    check.input.facts.confirm = false;
    check.run(|run| {
        let all: Vec<_> = (0..6).map(|_| run.take(10, 64)).collect();
        run.give(all[0], Ownership::HandedOver);
        run.give(all[1], Ownership::Another);
        run.give(all[2], Ownership::Allowed(AllowedBy::the_code("a cache")));
        run.free(all[3]);
    });
    let findings = crate::judge::judge(&check.input).findings;
    let [leaked, allowed] = &findings[..] else {
        panic!("{findings:#?}")
    };
    let counts = [leaked, allowed].map(|it| (it.count, it.allocated, it.freed));
    assert_eq!(counts, [(2, 6, 1), (1, 6, 1)]);
}

/// A check waits for exactly the records for which it would run its body again.
#[test]
fn a_check_waits_only_for_resources_that_could_be_findings() {
    let waits = |change: &dyn Fn(&mut Run<'_>)| {
        let mut check = check();
        check.stack(
            1,
            &[
                library("libcuda.so.1", "cuLibraryLoadData", Owner::Cuda),
                library("libcublas.so.13", "cublasCreate_v2", Owner::Cuda),
            ],
        );
        check.run(change);
        let names = &check.input.names;
        let is_left = is_anything_left(&check.input.runs[0], |stack| names.is_cudas_own(stack));
        assert_eq!(is_left, needs_another_run(&check.input));
        is_left
    };
    let owned_by = |owner: Ownership| {
        waits(&|run| {
            let taken = run.take(10, 64);
            run.give(taken, owner.clone());
        })
    };
    assert!(owned_by(Ownership::Session));
    assert!(owned_by(Ownership::Foreign(ThreadNumber(2))));
    assert!(!owned_by(Ownership::Another));
    assert!(!owned_by(Ownership::HandedOver));
    assert!(!owned_by(Ownership::Allowed(AllowedBy::the_code(
        "a cache"
    ))));
    let code = |stack| {
        waits(&|run| {
            run.make(stack, |made| made.kind = Kind::Library);
        })
    };
    assert!(code(10));
    assert!(!code(1));
    assert!(waits(&|run| hands_out(run, &cache(), 8, 9)));
    assert!(waits(&|run| reserves(run, &pool(), 8, 9)));
    assert!(!waits(&|run| reserves(run, &pool(), 8, 8)));
    assert!(waits(&|run| {
        let taken = run.take(10, 64);
        run.fail_to_free(taken, 20, 1);
    }));
}

#[test]
fn allowed_memory_of_all_rounds_is_reported() {
    let mut check = check();
    for _ in 0..3 {
        check.run(|run| {
            let taken = run.take(30, 64);
            run.give(taken, Ownership::Allowed(AllowedBy::the_code("a cache")));
        });
    }
    check.reports(
        "
        allowed
        allowed: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; allowed_by {expired:null,owner:null,reason:a cache,stands_in:the code}; bytes 64; each 64; when {first:1,last:1,of:1}; records [0]
    ",
    );
    check.input.facts.rounds = 3;
    check.reports(
        "
        allowed
        allowed: 3 × linear on cuda:0 at src/app.rs:30; allocated 3; allowed_by {expired:null,owner:null,reason:a cache,stands_in:the code}; bytes 192; each 64; records [0, 1, 2]
    ",
    );
    // An allowed resource that is freed later is not reported.
    let mut check = super::body::check();
    let mut taken = 0;
    check.run(|run| {
        taken = run.take(30, 64);
        run.give(taken, Ownership::Allowed(AllowedBy::the_code("a cache")));
    });
    check.run(|run| _ = run.free(taken));
    check.reports("clean");
}

#[test]
fn a_thread_outside_any_scope_is_named() {
    let mut check = check();
    check
        .input
        .names
        .threads
        .insert(ThreadNumber(7), "worker".to_owned());
    check.run(|run| {
        let taken = run.take(10, 64);
        run.give(taken, Ownership::Foreign(ThreadNumber(7)));
        let taken = run.take(20, 64);
        run.give(taken, Ownership::Foreign(ThreadNumber(8)));
    });
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; each 64; foreign_thread worker; when {first:1,last:1,of:2}; records [0]
        leaked: 1 × linear on cuda:0 at src/app.rs:20; allocated 1; bytes 64; each 64; foreign_thread thread 8; when {first:2,last:2,of:2}; records [1]
    ",
    );
}

#[test]
fn a_run_alone_does_not_report_what_other_tests_created_during_an_earlier_run() {
    let mut check = check();
    let mut of_another = 0;
    check.run(|run| {
        run.take(10, 64);
        of_another = run.take(20, 512);
        run.input.others.anything = true;
    });
    // A run that is not alone does not count what other tests create.
    check.input.runs[0]
        .live
        .retain(|live| live.record.sequence != of_another);
    check.run(|run| {
        run.take(10, 64);
        run.give(of_another, Ownership::Foreign(ThreadNumber(7)));
    });
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed {bytes:64,count:1,of:2,runs:2}; each 64; when {first:1,last:1,of:2}; records [0, 2]
    ",
    );
}

#[test]
fn a_thread_that_still_runs_may_belong_to_a_pool() {
    let mut check = check();
    let threads = &mut check.input.names.threads;
    threads.insert(ThreadNumber(1), "tests::it".to_owned());
    threads.insert(ThreadNumber(2), "tests::…".to_owned());
    threads.insert(ThreadNumber(3), "rayon-0".to_owned());
    check.run(|run| {
        for thread in [1, 2, 3] {
            run.make(10 * thread, |made| {
                made.caller.thread = ThreadNumber(thread)
            });
        }
        run.input.threads_running = 1;
    });
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; each 0; when {first:1,last:1,of:3}; records [0]
        leaked: 1 × linear on cuda:0 at src/app.rs:20; allocated 1; each 0; when {first:2,last:2,of:3}; records [1]
        leaked: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; each 0; notes [allocated on the thread rayon-0, and threads of the test were still running when the test ended; if several tests share a thread pool, start the pool in a function with #[gpu_leak_check::warmup]]; when {first:3,last:3,of:3}; records [2]
    ",
    );
    check.input.runs[0].threads_running = 0;
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; each 0; when {first:1,last:1,of:3}; records [0]
        leaked: 1 × linear on cuda:0 at src/app.rs:20; allocated 1; each 0; when {first:2,last:2,of:3}; records [1]
        leaked: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; each 0; when {first:3,last:3,of:3}; records [2]
    ",
    );
}

#[test]
fn memory_freed_only_by_the_end_of_a_context_is_a_leak_that_says_so() {
    let mut check = check();
    let ends = [
        ContextEnd::Destroyed,
        ContextEnd::LastRelease,
        ContextEnd::Reset,
        ContextEnd::DeviceDestroyed,
        ContextEnd::InstanceDestroyed,
    ];
    check.stack(
        90,
        &[library("libcudart.so.13", "cudaDeviceReset", Owner::Cuda)],
    );
    for _ in 0..2 {
        check.run(|run| {
            for (line, cause) in (1..).zip(ends) {
                for bytes in [64, 32] {
                    let taken = run.take(line, bytes);
                    let record = run.free(taken);
                    let caller = run.caller(if line == 1 { 90 } else { 80 });
                    let ended = Anomaly::EndedWithContext {
                        record,
                        cause,
                        caller,
                    };
                    // The ledger may report these records in any order.
                    run.input.anomalies.insert(0, ended);
                }
            }
        });
    }
    check.reports(
        "
        leaked
        leaked: 2 × linear on cuda:0 at src/app.rs:1; allocated 2; bytes 96; confirmed {bytes:96,count:2,of:2,runs:2}; ended {at:null,how:freed only because its context was destroyed}; sizes [{bytes:32,count:1},{bytes:64,count:1}]; when {first:1,last:3,of:20}; records [0, 2, 20, 22]
        leaked: 2 × linear on cuda:0 at src/app.rs:2; allocated 2; bytes 96; confirmed {bytes:96,count:2,of:2,runs:2}; ended {at:app::step80 (src/app.rs:80),how:freed only because the last reference to the primary context was released}; sizes [{bytes:32,count:1},{bytes:64,count:1}]; when {first:5,last:7,of:20}; records [4, 6, 24, 26]
        leaked: 2 × linear on cuda:0 at src/app.rs:3; allocated 2; bytes 96; confirmed {bytes:96,count:2,of:2,runs:2}; ended {at:app::step80 (src/app.rs:80),how:freed only because the device was reset}; sizes [{bytes:32,count:1},{bytes:64,count:1}]; when {first:9,last:11,of:20}; records [8, 10, 28, 30]
        leaked: 2 × linear on cuda:0 at src/app.rs:4; allocated 2; bytes 96; confirmed {bytes:96,count:2,of:2,runs:2}; ended {at:app::step80 (src/app.rs:80),how:not destroyed before its device was destroyed}; sizes [{bytes:32,count:1},{bytes:64,count:1}]; when {first:13,last:15,of:20}; records [12, 14, 32, 34]
        leaked: 2 × linear on cuda:0 at src/app.rs:5; allocated 2; bytes 96; confirmed {bytes:96,count:2,of:2,runs:2}; ended {at:app::step80 (src/app.rs:80),how:not destroyed before its instance was destroyed}; sizes [{bytes:32,count:1},{bytes:64,count:1}]; when {first:17,last:19,of:20}; records [16, 18, 36, 38]
    ",
    );
}

#[test]
fn names_that_the_program_gave_are_shown() {
    let mut check = check();
    check.run(|run| {
        for (line, names) in [(10, 1), (20, 3), (30, 5)] {
            for _ in 0..names {
                run.take(line, 8);
            }
        }
    });
    for sequence in 0..9 {
        check
            .input
            .names
            .labels
            .insert(sequence, format!("weights {sequence}"));
    }
    // Two objects may have the same name.
    check.input.names.labels.insert(1, "weights 2".to_owned());
    check.reports(
        "
        leaked
        leaked: 5 × linear on cuda:0 at src/app.rs:30; allocated 5; bytes 40; each 8; notes [named weights 4, weights 5, weights 6 and 2 other names]; when {first:5,last:9,of:9}; records [4, 5, 6, 7, 8]
        leaked: 3 × linear on cuda:0 at src/app.rs:20; allocated 3; bytes 24; each 8; notes [named weights 2, weights 3]; when {first:2,last:4,of:9}; records [1, 2, 3]
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 8; each 8; notes [named weights 0]; when {first:1,last:1,of:9}; records [0]
    ",
    );
}

#[test]
fn creating_calls_are_counted_from_the_first_call_of_the_run() {
    let mut check = check();
    check.run(|run| {
        let first = run.take(5, 8);
        run.free(first);
    });
    check.run(|run| {
        let first = run.take(5, 8);
        run.take(10, 8);
        run.take(10, 8);
        run.free(first);
    });
    check.input.runs.remove(0);
    check.reports(
        "
        leaked
        leaked: 2 × linear on cuda:0 at src/app.rs:10; allocated 2; bytes 16; each 8; when {first:2,last:3,of:4}; records [3, 4]
    ",
    );
}

#[test]
fn records_are_listed_in_the_order_of_their_creation() {
    let mut check = check();
    check.run(|run| _ = (run.take(10, 8), run.take(10, 8)));
    // The input may contain live records in any order: a block whose address was reported again
    // comes after all others.
    check.input.runs[0].live.reverse();
    check.reports(
        "
        leaked
        leaked: 2 × linear on cuda:0 at src/app.rs:10; allocated 2; bytes 16; each 8; when {first:1,last:2,of:2}; records [0, 1]
    ",
    );
}

#[test]
fn activity_of_others_during_the_check_is_noted() {
    let mut check = check();
    check.run(|run| {
        run.take(10, 8);
        run.input.freed_earlier.count = 2;
        run.input.handed_over.count = 1;
        run.input.others.checks = true;
    });
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 8; each 8; when {first:1,last:1,of:1}; records [0]
        note: the test freed resources that were allocated before it (2 objects, 0 B); they are not offset against leaks
        note: the test handed over 1 object, 0 B
        note: other checks ran at the same time, so the tables include what they allocated
    ",
    );
    let mut without = super::body::check();
    without.run(|run| run.input.others.checks = true);
    without.reports("clean");
}

#[test]
fn findings_are_sorted_by_kind_then_the_program_s_own_then_the_largest() {
    let mut check = check();
    check.input.facts.confirm = false;
    check.stack(
        10,
        &[
            library("libcublas.so.13", "cublasSgemm_v2", Owner::Cuda),
            frame(10),
        ],
    );
    check.run(|run| {
        run.take(10, 4096);
        run.take(20, 8);
        run.take(30, 64);
        run.make(40, |made| made.kind = Kind::Stream);
        for _ in 0..2 {
            run.make(50, |made| {
                (made.kind, made.place) = (Kind::Event, Place::HOST)
            });
        }
        let taken = run.take(60, 8);
        run.fail_to_free(taken, 61, 4);
    });
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; bytes 64; each 64; when {first:3,last:3,of:7}; records [2]
        leaked: 1 × linear on cuda:0 at src/app.rs:20; allocated 1; bytes 8; each 8; when {first:2,last:2,of:7}; records [1]
        leaked: 2 × event on host at src/app.rs:50; allocated 2; each 0; when {first:5,last:6,of:7}; records [4, 5]
        leaked: 1 × stream on cuda:0 at src/app.rs:40; allocated 1; each 0; when {first:4,last:4,of:7}; records [3]
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 4096; each 4096; when {first:1,last:1,of:7}; records [0]
        failed-free: 1 × linear on cuda:0 at src/app.rs:60; allocated 1; bytes 8; each 8; failed CUresult 4 (4) at src/app.rs:61; records [6]
    ",
    );
}

#[test]
fn allowed_memory_of_a_later_run_is_reported_with_its_time() {
    let mut check = check();
    check.run(|_| {});
    check.run(|run| {
        run.take(10, 8);
        let taken = run.take(30, 64);
        run.give(taken, Ownership::Allowed(AllowedBy::the_code("a cache")));
    });
    check.reports(
        "
        first-use
        first-use: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 8; each 8; notes [only run 2 of 2 left this; findings cannot be confirmed if the test behaves differently in each run]; when {first:1,last:1,of:2}; records [0]
        allowed: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; allowed_by {expired:null,owner:null,reason:a cache,stands_in:the code}; bytes 64; each 64; when {first:2,last:2,of:2}; records [1]
    ",
    );
}
