//! Tests of how a report shows peaks and graphs, by line, layer and run.

use super::body::{check, frame, gpu, reading, site};
use crate::judge::{graph_memory, peaks};
use crate::ledger::{GraphUsage, InTurn, MeterReading, Place, StackId};
use crate::report::{Share, When};

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
        // The second call path to a line is added to the first, no matter which came earlier.
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
fn graph_memory_is_shown_for_the_first_run_that_has_some() {
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
