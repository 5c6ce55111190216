//! Tests of the curves of a check: rounds, logs and usage.

use super::body::{Body, check, gpu, reading, rounds, usage};
use crate::judge::{LayerName, LayerUsage, device_tables, timeline};
use crate::ledger::{Layer, Lifetime, MeterReading, Place, PoolName, StackId};
use crate::report::{Course, Figure, Point, RunPurpose, TimelineRun};

#[test]
fn rounds_are_shown_from_the_first_to_the_last() {
    let mut check = rounds(2);
    for at in 0..2 {
        check.run(|run| {
            let layer = || LayerName::Layer(Layer::DRIVER);
            run.input.baseline.layers = vec![usage(layer(), 100 * at, 0)];
            run.input.end.layers = vec![usage(layer(), 100 * (at + 1), 0)];
        });
    }
    let row = |check: &Body| {
        let table = device_tables(&check.input).remove(0);
        (table.rows[0].baseline, table.rows[0].after)
    };
    assert_eq!(row(&check), (0, 200));
    check.input.facts.rounds = 1;
    assert_eq!(row(&check), (0, 100));
}

#[test]
fn logged_allocations_are_drawn_on_their_curve() {
    let life = |line, bytes, allocated, freed| Lifetime {
        stack: StackId(line),
        bytes,
        allocated,
        freed,
    };
    let mut check = check();
    check.run(|run| {
        for line in [20, 10, 20] {
            run.take(line, 64);
        }
        let mut of_run = reading(64);
        of_run.lifetimes = vec![life(20, 64, 0, 2), life(10, 32, 1, 0), life(20, 64, 2, 0)];
        of_run.lost = 7;
        let elsewhere = MeterReading {
            place: Place::cuda(1),
            ..reading(64)
        };
        run.input.peaks = vec![elsewhere, of_run];
        let course = |figure| Course {
            place: gpu(),
            layer: "driver".to_owned(),
            figure,
            start: 0,
            peak: 64,
            points: vec![Point(1, 64, 64)],
            allocations: Vec::new(),
            lost: 0,
        };
        run.input.timeline = TimelineRun {
            curves: vec![course(Figure::Allocated), course(Figure::Reserved)],
            ..TimelineRun::default()
        };
    });
    let shown = timeline::of_check(&check.input).expect("something was allocated");
    assert_eq!(shown.lines, ["src/app.rs:20", "src/app.rs:10"]);
    let curve = &shown.runs[0].curves[0];
    let drawn = curve.allocations.iter();
    let drawn: Vec<_> = drawn.map(|it| (it.0, it.1, it.2, it.3)).collect();
    assert_eq!(drawn, [(0, 64, 0, 2), (1, 32, 1, 0), (0, 64, 2, 0)]);
    assert_eq!(curve.lost, 7);
    assert!(shown.runs[0].curves[1].allocations.is_empty(), "a reserve");
}

#[test]
fn many_rounds_keep_the_first_and_last_with_their_largest_allocations() {
    let mut check = rounds(40);
    for round in 0..40_u64 {
        check.run(|run| {
            run.caller(10);
            let mut of_run = reading(64);
            of_run.lifetimes = (0..300)
                .map(|at| Lifetime {
                    stack: StackId(10),
                    bytes: 1000 * round + at,
                    allocated: at + 1,
                    freed: 0,
                })
                .collect();
            run.input.peaks = vec![of_run];
            run.input.timeline.curves = vec![Course {
                place: gpu(),
                layer: "driver".to_owned(),
                figure: Figure::Allocated,
                start: 0,
                peak: 64,
                points: vec![Point(1, 64, 64)],
                allocations: Vec::new(),
                lost: 0,
            }];
        });
    }
    let shown = timeline::of_check(&check.input).expect("something was allocated");
    assert_eq!((shown.runs.len(), shown.left_out), (32, 8));
    let first = |run: usize| shown.runs[run].curves[0].allocations[0].1 / 1000;
    assert_eq!((first(7), first(8), first(31)), (7, 16, 39));
    let curve = &shown.runs[0].curves[0];
    assert_eq!((curve.allocations.len(), curve.lost), (256, 44));
    assert_eq!(curve.allocations[0].1, 44, "in order, without the smallest");
    assert_eq!(shown.runs[0].purpose, RunPurpose::Round);
    assert_eq!((shown.runs[7].number, shown.runs[8].number), (8, 17));
    // All runs of a check without rounds are shown.
    check.input.facts.rounds = 1;
    let shown = timeline::of_check(&check.input).expect("something was allocated");
    assert_eq!((shown.runs.len(), shown.left_out), (40, 0));
    assert_eq!(shown.runs[0].purpose, RunPurpose::Judged);
    assert_eq!(shown.runs[1].purpose, RunPurpose::Confirming);
}

#[test]
fn a_timeline_has_the_curves_of_what_was_used_and_reserved() {
    use crate::judge::Usage;
    use crate::ledger::{Curve, Sample, UsageKey};
    let curve = |layer, (start, peak), values: &[(u64, u64)]| Curve {
        of: UsageKey {
            layer,
            place: gpu(),
        },
        start,
        peak,
        samples: values
            .iter()
            .map(|(at, live)| Sample {
                at: *at,
                until: *at,
                least: *live,
                most: *live,
                last: *live,
            })
            .collect(),
    };
    let cache = Layer::allocator("shown-cache");
    let mut check = check();
    check.run(|run| _ = (run.take(10, 64), run.take(10, 64)));
    let run = &mut check.input.runs[0];
    let pool = || LayerName::Pool(PoolName::Default);
    let elsewhere = |reserved| LayerUsage {
        place: Place::cuda(1),
        ..usage(pool(), 0, reserved)
    };
    run.baseline.layers = vec![usage(pool(), 0, 32), elsewhere(8)];
    run.end.layers = vec![
        usage(pool(), 0, 48),
        usage(LayerName::Pool(PoolName::Graph), 0, 0),
    ];
    let after_the_body = Usage {
        layers: vec![usage(pool(), 0, 64)],
        ..Usage::default()
    };
    let curves = vec![
        curve(None, (0, 3), &[(0, 1), (1, 2)]),
        curve(Some(cache), (10, 10), &[(1, 5), (2, 7)]),
        curve(Some(Layer::DRIVER), (0, 130), &[(0, 64), (1, 128)]),
    ];
    let shown = timeline::of_run(run, &after_the_body, 5, curves);
    assert_eq!((shown.calls, shown.body), (5, 2));
    let shown: Vec<_> = shown
        .curves
        .iter()
        .map(|it| {
            let points: Vec<_> = it.points.iter().map(|point| (point.0, point.2)).collect();
            (&*it.layer, it.figure, it.start, it.peak, points)
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("driver", Figure::Allocated, 0, 130, vec![(1, 64), (2, 128)]),
            (
                "allocator:shown-cache",
                Figure::Allocated,
                10,
                10,
                vec![(2, 5), (3, 7)]
            ),
            ("pool 0", Figure::Reserved, 32, 64, vec![(2, 64), (5, 48)]),
            ("handles", Figure::Handles, 0, 3, vec![(1, 1), (2, 2)]),
        ]
    );
}

#[test]
fn a_few_runs_keep_every_logged_allocation() {
    let mut check = rounds(3);
    for _ in 0..3 {
        check.run(|run| {
            run.caller(10);
            let mut of_run = reading(64);
            of_run.lifetimes = vec![
                Lifetime {
                    stack: StackId(10),
                    bytes: 8,
                    allocated: 1,
                    freed: 0,
                };
                300
            ];
            run.input.peaks = vec![of_run];
            run.input.timeline.curves = vec![Course {
                place: gpu(),
                layer: "driver".to_owned(),
                figure: Figure::Allocated,
                start: 0,
                peak: 64,
                points: vec![Point(1, 64, 64)],
                allocations: Vec::new(),
                lost: 0,
            }];
        });
    }
    let shown = timeline::of_check(&check.input).expect("something was allocated");
    let curve = |run: usize| &shown.runs[run].curves[0];
    assert_eq!((curve(0).allocations.len(), curve(0).lost), (300, 0));
}
