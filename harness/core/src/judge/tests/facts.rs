//! Tests of checks with calls that were missed, of broken contexts, and of how a program's usage
//! changes over time.

use super::body::{check, frame, library, rounds};
use crate::judge::{
    ContextError, LayerName, LayerUsage, Trend, Untraced, held, judge, needs_another_run,
};
use crate::ledger::event::{Key, Space};
use crate::ledger::{Anomaly, Kind, Layer, Place, Record};
use crate::report::{Code, FindingKind, Owner, Reason};

fn untraced(lost: bool) -> Untraced {
    Untraced {
        lost,
        reason: Reason::new(Code::NoGpu, "nothing was seen", "look"),
        driver_in_use: lost,
    }
}

#[test]
fn missed_calls_decide_the_status_if_nothing_fails() {
    let mut check = check();
    check.run(|_| {});
    check.input.untraced = Some(untraced(false));
    check.reports("not-measured because of no-gpu: nothing was seen; look");
    check.input.untraced = Some(untraced(true));
    check.reports("inconclusive because of no-gpu: nothing was seen; look");
    // A finding in another layer is kept. A leak in the driver's layer is not, because its free may
    // have been missed.
    let cache = Layer::allocator("facts-cache");
    for _ in 0..2 {
        check.run(|run| {
            run.take(10, 64);
            run.make(20, |made| {
                (made.kind, made.layer, made.bytes) = (Kind::Block, cache, 8)
            });
            let taken = run.take(30, 64);
            let by = crate::report::AllowedBy::the_code("a cache");
            run.give(taken, crate::judge::Ownership::Allowed(by));
            let pool = LayerName::Pool(crate::ledger::PoolName::Default);
            run.input.end.layers.push(super::body::usage(pool, 0, 64));
        });
    }
    check.input.runs.remove(0);
    check.reports(
        "
        leaked
        leaked: 1 × block on cuda:0 at src/app.rs:20 by allocator:facts-cache; allocated 1; bytes 8; confirmed {bytes:8,count:1,of:2,runs:2}; each 8; when {first:2,last:2,of:3}; records [1, 4]
        note: the driver's resources were not judged, because a free may have been missed: 2 resources, 128 B
        note: nothing was seen; look
    ",
    );
    // In a whole program, nothing else would report this memory.
    check.input.facts.whole_program = true;
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed {bytes:64,count:1,of:2,runs:2}; each 64; when {first:1,last:1,of:3}; records [0, 3]
        leaked: 1 × block on cuda:0 at src/app.rs:20 by allocator:facts-cache; allocated 1; bytes 8; confirmed {bytes:8,count:1,of:2,runs:2}; each 8; when {first:2,last:2,of:3}; records [1, 4]
        retained: 1 × reserve on cuda:0 at an unknown place; allocated 1; bytes 64; confirmed {bytes:64,count:1,of:2,runs:2}; each 64; pool pool 0; records []
        allowed: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; allowed_by {expired:null,owner:null,reason:a cache,stands_in:the code}; bytes 64; each 64; when {first:3,last:3,of:3}; records [2]
        note: nothing was seen; look
    ",
    );
    check.input.untraced = Some(untraced(false));
    check.reports(
        "
        leaked
        leaked: 1 × linear on cuda:0 at src/app.rs:10; allocated 1; bytes 64; confirmed {bytes:64,count:1,of:2,runs:2}; each 64; when {first:1,last:1,of:3}; records [0, 3]
        leaked: 1 × block on cuda:0 at src/app.rs:20 by allocator:facts-cache; allocated 1; bytes 8; confirmed {bytes:8,count:1,of:2,runs:2}; each 8; when {first:2,last:2,of:3}; records [1, 4]
        retained: 1 × reserve on cuda:0 at an unknown place; allocated 1; bytes 64; confirmed {bytes:64,count:1,of:2,runs:2}; each 64; pool pool 0; records []
        allowed: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; allowed_by {expired:null,owner:null,reason:a cache,stands_in:the code}; bytes 64; each 64; when {first:3,last:3,of:3}; records [2]
    ",
    );
}

#[test]
fn reasons_that_do_not_decide_are_notes() {
    let mut check = check();
    let c10 = library("libc10_cuda.so", "raw_alloc", Owner::Native);
    check.stack(10, &[c10, frame(10)]);
    check.run(|run| {
        run.take(10, 64);
        run.input.broken_before = Some(ContextError {
            place: Place::cuda(0),
            error: 719,
        });
    });
    check.input.untraced = Some(untraced(true));
    check.reports(
        r#"
        inconclusive because of poisoned: the context on cuda:0 was broken outside any check of this process (CUDA_ERROR_LAUNCH_FAILED); first find the call that broke the context; running each test in its own process (nextest) protects the others
        note: nothing was seen; look
        note: memory that c10 (used by tch and PyTorch) allocated from the driver is still held: only a probe can tell which parts of it are in use, so it may be a leak or a cache; register a probe named "c10" with gpu_leak_check::probe!, or empty the allocator's cache before the test ends
    "#,
    );
}

#[test]
fn an_unmet_expectation_is_not_reported_if_calls_were_missed() {
    let mut check = check();
    check.run(|_| {});
    check.input.facts.expect = Some(crate::judge::Expect {
        count: Some(1),
        bytes: None,
    });
    check.reports(
        "unexpected because of expectation: expected to leave 1 object, but left 0 objects; find out what has changed, or change the `expect` option",
    );
    check.input.runs[0].as_expected = false;
    check.reports("clean");
    check.input.runs[0].as_expected = true;
    check.input.untraced = Some(untraced(false));
    check.reports("not-measured because of no-gpu: nothing was seen; look");
}

#[test]
fn an_address_that_was_reported_twice_makes_its_free_ambiguous() {
    let layer = Layer::allocator("facts-cache");
    let block = |place| {
        let mut made = super::body::Body::creation(0, 7);
        made.key = Key::new(Space::Observed(layer), 0x7000);
        (made.kind, made.layer, made.place) = (Kind::Block, layer, place);
        Record { sequence: 1, made }
    };
    let gpu = |ordinal| Place::cuda(ordinal);
    let mut check = check();
    check.run(|run| {
        let overwritten = Anomaly::Overwritten {
            record: block(gpu(0)),
            by: Some(block(gpu(0))),
        };
        run.input.anomalies.push(overwritten);
    });
    check.reports(
        "
        inconclusive because of ambiguous-free: allocator:facts-cache reported 0x7000 as allocated while it was already live on cuda:0, so it is unknown which of the two allocations a later free refers to; report each free, and make sure that allocator instances sharing a `Source` use different addresses
    ",
    );
    let overwritten = |record, by| Anomaly::Overwritten { record, by };
    check.input.runs[0].anomalies = vec![overwritten(block(gpu(0)), Some(block(gpu(1))))];
    check.reports(
        "
        inconclusive because of ambiguous-free: allocator:facts-cache reported 0x7000 as allocated while it was already live on cuda:0, so it is unknown which of the two allocations a later free refers to; if two devices may use the same addresses, report through an `observe::PlacedSource`, whose frees name the device
    ",
    );
    check.input.runs[0].anomalies = vec![overwritten(block(gpu(0)), None)];
    check.reports("clean");
    let mut linear = block(gpu(0));
    linear.made.kind = Kind::Linear;
    check.input.runs[0].anomalies = vec![overwritten(linear, Some(linear))];
    check.reports("clean");
}

#[test]
fn no_body_runs_again_after_a_context_broke() {
    for before in [false, true] {
        let mut check = check();
        check.run(|run| {
            run.take(10, 64);
            let broken = Some(ContextError {
                place: Place::cuda(0),
                error: 700,
            });
            match before {
                true => run.input.broken_before = broken,
                false => run.input.broken_inside = broken,
            }
        });
        assert!(!needs_another_run(&check.input));
    }
}

#[test]
fn a_check_that_is_switched_off_has_no_result() {
    let mut check = check();
    check.run(|run| {
        run.take(10, 64);
        run.input.threads_running = 3;
    });
    check.input.switch_off(untraced(false));
    let run = &check.input.runs[0];
    assert_eq!((run.as_expected, run.threads_running), (true, 0));
    check.reports("not-measured because of no-gpu: nothing was seen; look");
}

#[test]
fn a_sum_is_not_judged_in_a_layer_that_is_reported_by_line() {
    let mut check = rounds(1);
    check.run(|run| {
        let driver = LayerUsage {
            allocated: 4096,
            ..LayerUsage::new(LayerName::Layer(Layer::DRIVER), Place::cuda(0))
        };
        run.input.end.layers.push(driver);
    });
    check.reports("clean");
}

#[test]
fn memory_that_rises_with_each_snapshot_has_grown() {
    let snapshot = |lines: &[(u32, u64)]| {
        let mut program = check();
        let c10 = |line| {
            [
                library("libc10_cuda.so", "raw_alloc", Owner::Native),
                frame(line),
            ]
        };
        program.stack(70, &c10(70));
        program.stack(71, &c10(71));
        program.input.facts.whole_program = true;
        program.run(|run| {
            for (line, count) in lines {
                for _ in 0..*count {
                    run.take(*line, 8);
                }
            }
            // An event is not memory, and a block does not belong to the driver's layer.
            run.make(70, |made| made.kind = Kind::Event);
            run.make(70, |made| {
                (made.kind, made.layer) = (Kind::Block, Layer::allocator("facts-cache"));
            });
        });
        program
    };
    let at = |n: u64| {
        snapshot(&[
            (10, n),
            (20, 3),
            (30, 6 - n),
            (70, 2 * (n / 2)),
            (71, n - n / 2),
        ])
    };
    let mut trend = Trend::default();
    // A call site that appeared only in an earlier snapshot is not part of the trend.
    trend.add(&held(&snapshot(&[(40, 1)]).input));
    for n in 1..=4 {
        trend.add(&held(&at(n).input));
    }
    let mut last = at(5);
    last.input.trend = Some(trend.clone());
    last.reports(
        "
        leaked
        leaked: 5 × linear on cuda:0 at src/app.rs:10; allocated 5; bytes 40; each 8; when {first:1,last:5,of:18}; records [0, 1, 2, 3, 4]
        leaked: 3 × linear on cuda:0 at src/app.rs:20; allocated 3; bytes 24; each 8; when {first:6,last:8,of:18}; records [5, 6, 7]
        leaked: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; bytes 8; each 8; when {first:9,last:9,of:18}; records [8]
        leaked: 4 × linear on cuda:0 at src/app.rs:70; allocated 6; bytes 32; each 8; when {first:10,last:13,of:18}; records [9, 10, 11, 12]
        leaked: 3 × linear on cuda:0 at src/app.rs:71; allocated 3; bytes 24; each 8; when {first:14,last:16,of:18}; records [13, 14, 15]
        leaked: 1 × event on cuda:0 at src/app.rs:70; allocated 6; each 0; when {first:17,last:17,of:18}; records [16]
        leaked: 1 × block on cuda:0 at src/app.rs:70 by allocator:facts-cache; allocated 6; each 0; when {first:18,last:18,of:18}; records [17]
    ",
    );
    trend.add(&held(&last.input));
    assert_eq!(trend.taken, 6);
    last.input.trend = Some(trend.clone());
    last.reports(
        "
        leaked
        leaked: 3 × linear on cuda:0 at src/app.rs:20; allocated 3; bytes 24; each 8; when {first:6,last:8,of:18}; records [5, 6, 7]
        leaked: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; bytes 8; each 8; when {first:9,last:9,of:18}; records [8]
        leaked: 1 × event on cuda:0 at src/app.rs:70; allocated 6; consequences [{bytes:0,count:1,resource:block}]; each 0; when {first:17,last:17,of:18}; records [16]
        leaked: 1 × block on cuda:0 at src/app.rs:70 by allocator:facts-cache; allocated 6; each 0; is_consequence true; when {first:18,last:18,of:18}; records [17]
        grew: 5 × linear on cuda:0 at src/app.rs:10; allocated 5; bytes 40; each 8; rounds [{bytes:8,count:1},{bytes:16,count:2},{bytes:24,count:3},{bytes:32,count:4},{bytes:40,count:5}]; records [0, 1, 2, 3, 4]
        grew: 7 × linear on cuda:0 at src/app.rs:70; allocated 9; bytes 56; each 8; notes [this is everything that c10 holds; the largest part was allocated at the location shown]; rounds [{bytes:8,count:1},{bytes:24,count:3},{bytes:32,count:4},{bytes:48,count:6},{bytes:56,count:7}]; records [9, 10, 11, 12, 13, 14, 15]
    ",
    );
    // The tolerance is compared with everything that is held.
    for (tolerance, is_failure) in [(127, true), (128, false)] {
        last.input.facts.tolerance = tolerance;
        let findings = judge(&last.input).findings;
        let grew = findings.iter().any(|it| it.kind == FindingKind::Grew);
        assert_eq!(grew, is_failure, "{findings:?}");
    }
    last.input.facts.tolerance = 0;
    // One snapshot without growth ends the trend.
    trend.add(&held(&at(5).input));
    last.input.trend = Some(trend);
    last.reports(
        "
        leaked
        leaked: 5 × linear on cuda:0 at src/app.rs:10; allocated 5; bytes 40; each 8; when {first:1,last:5,of:18}; records [0, 1, 2, 3, 4]
        leaked: 3 × linear on cuda:0 at src/app.rs:20; allocated 3; bytes 24; each 8; when {first:6,last:8,of:18}; records [5, 6, 7]
        leaked: 1 × linear on cuda:0 at src/app.rs:30; allocated 1; bytes 8; each 8; when {first:9,last:9,of:18}; records [8]
        leaked: 4 × linear on cuda:0 at src/app.rs:70; allocated 6; bytes 32; each 8; when {first:10,last:13,of:18}; records [9, 10, 11, 12]
        leaked: 3 × linear on cuda:0 at src/app.rs:71; allocated 3; bytes 24; each 8; when {first:14,last:16,of:18}; records [13, 14, 15]
        leaked: 1 × event on cuda:0 at src/app.rs:70; allocated 6; each 0; when {first:17,last:17,of:18}; records [16]
        leaked: 1 × block on cuda:0 at src/app.rs:70 by allocator:facts-cache; allocated 6; each 0; when {first:18,last:18,of:18}; records [17]
    ",
    );
}

#[test]
fn a_recorded_check_has_the_same_result() {
    let mut check = check();
    for _ in 0..2 {
        check.run(|run| {
            let taken = run.take(10, 64);
            run.fail_to_free(taken, 20, 700);
            run.take(30, 8);
        });
    }
    check
        .input
        .names
        .errors
        .insert(700, "CUDA_ERROR_OF_A_TEST".to_owned());
    let recorded = serde_json::to_string(&check.input).expect("data");
    let before = format!("{:?}", judge(&check.input));
    let again = serde_json::from_str(&recorded).expect("the same data");
    assert_eq!(format!("{:?}", judge(&again)), before);
}

#[test]
fn any_numbers_in_a_recording_are_judged() {
    use crate::judge::{FreedAt, graph_memory, peaks, timeline};
    use crate::ledger::{GraphUsage, InTurn, Lifetime, StackId};
    let most = u64::MAX;
    let mut check = check();
    for _ in 0..2 {
        check.run(|run| {
            run.take(10, most);
            run.make(11, |made| made.bytes = most);
            run.caller(20);
            let site = super::body::site(10, most, most, (most, most));
            let in_turn = InTurn {
                stack: StackId(10),
                bytes: most,
                count: most,
            };
            let mut reading = super::body::reading(most);
            (reading.made, reading.peak_at, reading.lost) = (most, most, most);
            reading.at_peak = vec![site, site];
            reading.in_turn = vec![in_turn, in_turn];
            let life = Lifetime {
                stack: StackId(10),
                bytes: most,
                allocated: most,
                freed: most,
            };
            reading.lifetimes = vec![life; 2];
            (run.input.over_budget, run.input.bound) = crate::judge::Limits {
                max_allocated: Some(1),
                max_allocation_count: Some(1),
                ..crate::judge::Limits::default()
            }
            .exceeded(vec![reading.clone()], &run.input.baseline, &run.input.end);
            run.input.peaks = vec![reading];
            run.input.graphs = vec![GraphUsage {
                place: Place::cuda(0),
                bytes: most,
                in_order: most,
                sites: vec![site, site],
            }];
            run.input.freed_of_run = vec![
                FreedAt {
                    layer: Layer::DRIVER,
                    kind: Kind::Linear,
                    allocated: StackId(10),
                    freed: StackId(20),
                    count: most,
                    events: Vec::new(),
                };
                2
            ];
        });
    }
    check.stack(11, &[frame(10)]);
    for run in &mut check.input.runs {
        for count in run.allocations.values_mut() {
            *count = most;
        }
        run.timeline.curves = vec![crate::report::Course {
            place: Place::cuda(0),
            layer: "driver".to_owned(),
            figure: crate::report::Figure::Allocated,
            start: most,
            peak: most,
            points: Vec::new(),
            allocations: Vec::new(),
            lost: 0,
        }];
    }
    let result = judge(&check.input);
    assert!(result.status.is_failure());
    assert_eq!(peaks(&check.input).len(), 1);
    assert_eq!(graph_memory(&check.input).len(), 1);
    assert!(timeline::of_check(&check.input).is_some());
}
