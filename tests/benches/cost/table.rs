//! The tables, in Markdown: what was measured, and the ratios that have a budget.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program's output"
)]

use crate::samples::{Samples, Spread};

/// One run.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) device: String,
    /// Of the longest stack.
    pub(crate) frames: String,
    /// Live ones beside [`Self::many`].
    pub(crate) records: u64,
    /// Nanoseconds a pair.
    pub(crate) pool: Samples,
    /// Nanoseconds a pair.
    pub(crate) event: Samples,
    /// Milliseconds.
    pub(crate) program: Samples,
    /// Milliseconds.
    pub(crate) process: Samples,
    /// Microseconds a scope, no records beside it.
    pub(crate) few: Samples,
    /// Microseconds a scope.
    pub(crate) many: Samples,
}

pub(crate) fn print(results: &Results) {
    println!(
        "{}; medians, middle half of the blocks in brackets",
        results.device
    );
    println!();
    println!("| what | plain | empty callback | ours, no stacks | ours |");
    println!("| --- | --: | --: | --: | --: |");
    row("pool pair, ns", &results.pool);
    row("event pair, ns", &results.event);
    row("program's loop, ms", &results.program);
    row("program's process, ms", &results.process);
    let (few, many) = (results.few.spreads()[0], results.many.spreads()[0]);
    println!("| scope, µs | | | | {} |", cell(few));
    println!(
        "| scope beside {} records, µs | | | | {} |",
        results.records,
        cell(many)
    );
    println!();
    println!("| ratio | is | budget |");
    println!("| --- | --: | --: |");
    for (name, samples) in [("pool", &results.pool), ("event", &results.event)] {
        let [plain, empty, without, ours] = medians(samples);
        println!(
            "| {name} pair, no stacks: (ours − plain) / (empty − plain) | {:.2} | ≤ 1.3 |",
            (without - plain) / (empty - plain)
        );
        println!(
            "| {name} pair, a stack of {} frames on top, ns | {:+.0} | ≤ +400 |",
            results.frames,
            ours - without
        );
    }
    for (name, samples, budget) in [
        ("loop", &results.program, "1.35"),
        ("whole process", &results.process, "1.15"),
    ] {
        let [plain, _, _, ours] = medians(samples);
        println!(
            "| program, {name}: ours / plain | {:.2} | ≤ {budget} |",
            ours / plain
        );
    }
    println!(
        "| begin + end of a clean scope beside {} records, µs | {:.1} | ≤ 30 |",
        results.records, many.median
    );
}

pub(crate) fn complain(why: &str) {
    eprintln!("error: {why}");
}

fn row(name: &str, samples: &Samples) {
    let cells: Vec<_> = samples.spreads().into_iter().map(cell).collect();
    println!("| {name} | {} |", cells.join(" | "));
}

fn cell(spread: Spread) -> String {
    let Spread {
        median,
        lower,
        upper,
    } = spread;
    let digits = if median < 100.0 { 2 } else { 0 };
    format!("{median:.digits$} [{lower:.digits$}–{upper:.digits$}]")
}

fn medians(samples: &Samples) -> [f64; 4] {
    let medians: Vec<_> = samples
        .spreads()
        .iter()
        .map(|spread| spread.median)
        .collect();
    medians.try_into().expect("a figure for each variant")
}
