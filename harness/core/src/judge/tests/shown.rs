//! What a report shows beside its findings: where others were freed, in which order, tables, peaks.

use super::body::{Body, Run, check, frame, gpu, rounds, usage};
use crate::judge::{
    DeviceName, FreedAt, LayerName, LayerUsage, device_tables, graph_memory, judge, peaks, timeline,
};
use crate::ledger::event::ContextEnd;
use crate::ledger::{
    Anomaly, Counted, GraphUsage, InTurn, Kind, Layer, Lifetime, MeterReading, Place, PoolName,
    SiteUsage, StackId,
};
use crate::report::{Course, Figure, Finding, Point, RunPurpose, Share, TimelineRun, When};

/// What was allocated at one line and freed at another, with the events of each.
fn freed(line: u32, at: u32, events: &[(u64, u64)]) -> FreedAt {
    FreedAt {
        layer: Layer::DRIVER,
        kind: Kind::Linear,
        allocated: StackId(line),
        freed: StackId(at),
        count: events.len() as u64,
        events: events.to_vec(),
    }
}

/// Allocates at a line and frees at another.
fn come_and_go(run: &mut Run<'_>, line: u32, at: u32) {
    let taken = run.take(line, 8);
    let end = taken + 2;
    run.free(taken);
    run.caller(at);
    run.input
        .freed_of_run
        .push(freed(line, at, &[(taken, end)]));
}

/// A check that two runs confirm.
fn twice(prepare: impl Fn(&mut Body), run: impl Fn(&mut Run<'_>)) -> Finding {
    let mut check = check();
    prepare(&mut check);
    check.run(&run).run(&run);
    judge(&check.input).findings.remove(0)
}

#[test]
fn what_was_freed_of_the_same_line_is_told_with_its_callers() {
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
        // Another kind on the same line, and another line.
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
fn what_the_same_function_created_and_freed_is_told_if_nothing_of_the_line_was() {
    let at = |function: &str, line| {
        let mut frame = frame(line);
        frame.function = Some(function.to_owned());
        frame
    };
    let stacks = |check: &mut Body| {
        check.stack(10, &[at("app::Texture::new", 10), frame(50)]);
        check.stack(11, &[at("app::Texture::new", 11), frame(50)]);
        check.stack(12, &[at("app::Texture::new", 12), frame(50)]);
        // Through another caller, and of the test itself.
        check.stack(13, &[at("app::Texture::new", 13), frame(51)]);
        check.stack(14, &[at("app::tests::it", 14)]);
        // Of another function, which it only calls.
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
                "app::Texture::new (src/app.rs:11)",
                "app::Texture::drop (src/app.rs:20) ← app::step50 (src/app.rs:50)"
            ),
            (
                1,
                Kind::Linear,
                "app::Texture::new (src/app.rs:12)",
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
        frame.function = Some("app::tests::it".to_owned());
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
    // Of another line nothing is told, and of other kinds.
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
        frame.function = Some(function.to_owned());
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
fn no_order_is_told_of_what_is_not_all_known() {
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
    // Unless as many were left as in the first run.
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
fn the_order_holds_what_ended_with_its_context() {
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

/// What was used of the driver's layer.
fn reading(peak: u64) -> MeterReading {
    MeterReading {
        layer: Layer::DRIVER,
        place: gpu(),
        made: 3,
        total: peak,
        peak,
        peak_at: 0,
        at_peak: Vec::new(),
        by_bytes: Vec::new(),
        by_count: Vec::new(),
        in_turn: Vec::new(),
        lifetimes: Vec::new(),
        lost: 0,
    }
}

fn site(line: u32, count: u64, bytes: u64, allocated: (u64, u64)) -> SiteUsage {
    SiteUsage {
        stack: StackId(line),
        count,
        bytes,
        allocated,
    }
}

#[test]
fn the_highest_peak_of_each_layer_is_shown_by_line() {
    let mut check = check();
    check.run(|run| {
        run.take(5, 8);
        run.input.peaks = vec![reading(100)];
    });
    check.run(|run| {
        for line in [10, 10, 10, 20] {
            run.take(line, 60);
        }
        let mut reading = reading(300);
        reading.peak_at = 4;
        // The second path to a line is added to the first, whichever was earlier.
        reading.at_peak = vec![
            site(10, 1, 60, (2, 3)),
            site(11, 1, 60, (1, 2)),
            site(20, 1, 60, (4, 4)),
            site(30, 4, 120, (0, 0)),
        ];
        let in_turn = |line, bytes, count| InTurn {
            stack: StackId(line),
            bytes,
            count,
        };
        reading.in_turn = vec![in_turn(20, 8, 2), in_turn(10, 60, 3), in_turn(11, 60, 4)];
        let nothing = MeterReading {
            made: 0,
            place: Place::cuda(1),
            ..reading.clone()
        };
        run.input.peaks = vec![reading, nothing];
    });
    check.run(|run| run.input.peaks = vec![reading(300)]);
    check.stack(11, &[frame(10), frame(50)]);
    check.stack(30, &[frame(30)]);
    let [peak] = &peaks(&check.input)[..] else {
        panic!("one layer allocated");
    };
    assert_eq!(
        (peak.bytes, peak.run, peak.call, peak.calls),
        (300, 2, 4, 4)
    );
    let share = |count, bytes, at: &str, when: Option<(u64, u64)>, earlier| Share {
        count,
        bytes,
        at: at.to_owned(),
        when: when.map(|(first, last)| When { first, last, of: 4 }),
        earlier,
    };
    assert_eq!(
        peak.lines,
        [
            share(2, 120, "src/app.rs:10", Some((1, 3)), 0),
            share(4, 120, "src/app.rs:30", None, 4),
            share(1, 60, "src/app.rs:20", Some((4, 4)), 0),
        ]
    );
    let reusable = peak.reusable.iter();
    let reusable = reusable.map(|it| (&*it.at, it.each, it.count, it.buffers));
    assert_eq!(
        reusable.collect::<Vec<_>>(),
        [("src/app.rs:10", 60, 7, 2), ("src/app.rs:20", 8, 2, 1)]
    );
}

#[test]
fn more_lines_of_a_peak_than_are_listed_are_one() {
    let lines_of = |count: u32| {
        let mut check = check();
        check.run(|run| {
            let mut reading = reading(300);
            let site = |line| site(line, 1, 1000 - u64::from(line), (1, 1));
            reading.at_peak = (1..=count).map(site).collect();
            for line in 1..=count {
                run.caller(line);
            }
            run.input.peaks = vec![reading];
        });
        peaks(&check.input).remove(0).lines
    };
    let all = lines_of(100);
    assert_eq!((all.len(), &*all[99].at), (100, "src/app.rs:100"));
    let most = lines_of(102);
    assert_eq!(most.len(), 100);
    let rest = &most[99];
    let sum = (&*rest.at, rest.count, rest.bytes);
    assert_eq!(sum, ("3 other lines", 3, 900 + 899 + 898));
}

#[test]
fn memory_that_graphs_hold_is_shown_of_the_first_run_that_has_some() {
    let mut check = check();
    check.run(|_| {});
    for bytes in [64, 128] {
        check.run(|run| {
            run.caller(10);
            run.input.graphs.push(GraphUsage {
                place: gpu(),
                bytes,
                in_order: 32,
                sites: vec![site(10, 2, bytes, (0, 0))],
            });
        });
    }
    let [graph] = &graph_memory(&check.input)[..] else {
        panic!("one graph");
    };
    assert_eq!(
        (graph.bytes, graph.in_order, graph.lines[0].earlier),
        (64, 32, 0)
    );
    assert!(graph_memory(&super::body::check().run(|_| {}).input).is_empty());
}

#[test]
fn the_table_of_a_device_has_a_row_for_what_it_holds_or_held() {
    let mut check = check();
    let device = |name: &str| DeviceName {
        name: name.to_owned(),
        uuid: Some("GPU-5f2c".to_owned()),
    };
    check
        .input
        .names
        .devices
        .insert(gpu(), device("NVIDIA H200"));
    check.run(|run| {
        let driver = |allocated, peak, place| LayerUsage {
            allocated,
            peak: Some(peak),
            place,
            ..LayerUsage::new(LayerName::Layer(Layer::DRIVER), place)
        };
        let pool = || LayerName::Pool(PoolName::Default);
        run.input.baseline.layers = vec![
            driver(8, 8, gpu()),
            driver(16, 16, Place::HOST),
            usage(pool(), 0, 32),
            usage(LayerName::Pool(PoolName::Graph), 0, 0),
        ];
        run.input.end.layers = vec![
            driver(24, 48, gpu()),
            driver(0, 0, Place::cuda(1)),
            driver(0, 4, Place::cuda(2)),
        ];
        let handles = |live, peak| Counted { live, peak };
        run.input.baseline.handles = vec![(gpu(), handles(2, 2)), (Place::cuda(3), handles(0, 0))];
        run.input.end.handles = vec![(gpu(), handles(1, 3)), (Place::cuda(4), handles(0, 5))];
    });
    let tables = device_tables(&check.input);
    let mut shown = Vec::new();
    for table in &tables {
        shown.push(format!("{} {:?}", table.place, table.name));
        shown.extend(table.rows.iter().map(|row| {
            format!(
                "{} {:?} {} {} {:?}",
                row.layer, row.figure, row.baseline, row.after, row.peak
            )
        }));
    }
    assert_eq!(
        shown,
        [
            "cuda:0 Some(\"NVIDIA H200\")",
            "driver Allocated 8 24 Some(48)",
            "pool 0 Reserved 32 0 None",
            "handles Handles 2 1 Some(3)",
            "cuda:2 None",
            "driver Allocated 0 0 Some(4)",
            "cuda:4 None",
            "handles Handles 0 0 Some(5)",
            "host None",
            "driver Allocated 16 0 None",
        ]
    );
}

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
fn what_a_log_has_read_is_drawn_on_its_curve() {
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
    let shown = timeline::of_check(&check.input).expect("something happened");
    assert_eq!(shown.lines, ["src/app.rs:20", "src/app.rs:10"]);
    let curve = &shown.runs[0].curves[0];
    let drawn = curve.allocations.iter();
    let drawn: Vec<_> = drawn.map(|it| (it.0, it.1, it.2, it.3)).collect();
    assert_eq!(drawn, [(0, 64, 0, 2), (1, 32, 1, 0), (0, 64, 2, 0)]);
    assert_eq!(curve.lost, 7);
    assert!(shown.runs[0].curves[1].allocations.is_empty(), "a reserve");
}

#[test]
fn of_many_rounds_the_first_and_the_last_are_kept_with_their_largest_allocations() {
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
                points: (0..70).map(|at| Point(at + 1, at, at)).collect(),
                allocations: Vec::new(),
                lost: 0,
            }];
        });
    }
    let shown = timeline::of_check(&check.input).expect("something happened");
    assert_eq!((shown.runs.len(), shown.left_out), (32, 8));
    let first = |run: usize| shown.runs[run].curves[0].allocations[0].1 / 1000;
    assert_eq!((first(7), first(8), first(31)), (7, 16, 39));
    let curve = &shown.runs[0].curves[0];
    assert_eq!((curve.allocations.len(), curve.lost), (256, 44));
    assert_eq!(
        curve.allocations[0].1, 44,
        "in their order, without the smallest"
    );
    assert_eq!((curve.points.len(), curve.points[0]), (19, Point(1, 0, 3)));
    assert_eq!(curve.points.last(), Some(&Point(70, 69, 69)));
    assert_eq!(shown.runs[0].purpose, RunPurpose::Round);
    // All runs of a check without rounds are shown.
    check.input.facts.rounds = 1;
    let shown = timeline::of_check(&check.input).expect("something happened");
    assert_eq!((shown.runs.len(), shown.left_out), (40, 0));
    assert_eq!(shown.runs[0].purpose, RunPurpose::Judged);
    assert_eq!(shown.runs[1].purpose, RunPurpose::Confirming);
    assert_eq!(shown.runs[0].curves[0].points.len(), 70);
}

#[test]
fn a_timeline_has_the_curves_of_what_was_used_and_reserved() {
    use crate::judge::Usage;
    use crate::ledger::{Curve, Sample, UsageKey};
    let curve = |layer, start, values: &[(u64, u64)]| Curve {
        of: UsageKey {
            layer,
            place: gpu(),
        },
        start,
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
        LayerUsage {
            peak: Some(130),
            ..LayerUsage::new(LayerName::Layer(Layer::DRIVER), gpu())
        },
    ];
    run.end.handles = vec![(gpu(), Counted { live: 1, peak: 3 })];
    let after_the_body = Usage {
        layers: vec![usage(pool(), 0, 64)],
        ..Usage::default()
    };
    let curves = vec![
        curve(None, 0, &[(0, 1), (1, 2)]),
        curve(Some(cache), 10, &[(1, 5), (2, 7)]),
        curve(Some(Layer::DRIVER), 0, &[(0, 64), (1, 128)]),
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
            // Nobody counted its peak: that of the curve.
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
fn of_a_few_runs_every_logged_allocation_and_every_point_is_kept() {
    let mut check = rounds(3);
    for points in [32, 33, 1] {
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
                points: (0..points).map(|at| Point(at + 1, at, at)).collect(),
                allocations: Vec::new(),
                lost: 0,
            }];
        });
    }
    let shown = timeline::of_check(&check.input).expect("something happened");
    let curve = |run: usize| &shown.runs[run].curves[0];
    assert_eq!((curve(0).allocations.len(), curve(0).lost), (300, 0));
    assert_eq!((curve(0).points.len(), curve(1).points.len()), (32, 17));
}

#[test]
fn a_device_that_was_read_only_in_the_second_run_is_shown_of_that_one() {
    use crate::judge::{ContextLimits, DeviceUsage};
    use crate::ledger::event::ContextUid;
    let device = |used, contexts, code| DeviceUsage {
        place: gpu(),
        context: ContextUid(1),
        used,
        limits: ContextLimits::default(),
        elsewhere: 0,
        contexts,
        code,
    };
    let mut check = check();
    for at in 0..2 {
        check.run(|run| {
            run.input.end.layers = vec![usage(LayerName::Layer(Layer::DRIVER), 8, 0)];
            run.input.end.whole_devices = vec![device(100 << 20, 3, 2)];
            if at == 1 {
                run.input.baseline.layers = vec![usage(LayerName::Layer(Layer::DRIVER), 8, 0)];
                run.input.baseline.whole_devices = vec![device(10 << 20, 1, 2)];
            }
        });
    }
    let whole = |check: &Body| device_tables(&check.input).remove(0).whole;
    let shown = whole(&check).expect("the second run has read it twice");
    assert!(shown.second_run);
    assert_eq!((shown.parts.len(), shown.unexplained), (0, 90 << 20));
    assert_eq!(shown.hints, ["2 contexts more on this device"]);
    // Other processes may have taken what is not explained.
    let others = ["6 (one)", "7 (two)", "8 (three)", "9 (four)"].map(str::to_owned);
    let second = &mut check.input.runs[1];
    second.baseline.whole_devices = vec![device(100 << 20, 3, 1)];
    let hints_beside = |check: &mut Body, count: usize| {
        check.input.names.neighbours = others[..count].iter().cloned().collect();
        whole(check).expect("it was read twice").hints.join("; ")
    };
    for (count, hint) in [
        (0, "1 module more loaded"),
        (1, "1 module more loaded; process 6 (one) also uses CUDA"),
        (
            3,
            "1 module more loaded; 3 other processes use CUDA: 6 (one), 7 (two), 8 (three)",
        ),
        (
            4,
            "1 module more loaded; 4 other processes use CUDA: 6 (one), 7 (two), 8 (three), …",
        ),
    ] {
        assert_eq!(hints_beside(&mut check, count), hint);
    }
    // With rounds, the first and the last one count.
    check.input.facts.rounds = 2;
    assert_eq!(whole(&check), None);
}
