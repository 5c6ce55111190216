//! The tables, in Markdown: the measured times, and the ratios that have a budget.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the program prints its results"
)]

use crate::samples::{Samples, Spread};
use crate::threads::THREADS;
use crate::worker::PAUSE;

/// The results of one run.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) device: String,
    /// The number of frames of the longest stack.
    pub(crate) frames: String,
    /// Nanoseconds per pair of calls that allocate from the pool and free.
    pub(crate) pool: Samples,
    /// Nanoseconds per pair of calls that create and destroy an event.
    pub(crate) event: Samples,
    /// Like `pool`, but on sixteen threads at once.
    pub(crate) of_threads: Samples,
    /// Like `of_threads`, but without a tool: first without a pause, then with a pause before each
    /// call.
    pub(crate) paused: Samples,
    /// The milliseconds that a first check adds to a body that does nothing.
    pub(crate) first_check: Samples,
    /// Milliseconds of the program's loop, in long-running processes.
    pub(crate) program: Samples,
    /// Milliseconds of separate processes that run the program. The last variant runs it under
    /// compute-sanitizer, if that is installed.
    pub(crate) program_alone: Samples,
    /// Milliseconds of the program's loop in these separate processes.
    pub(crate) process: Samples,
    /// Microseconds per scope, for each number of other live records.
    pub(crate) scopes: Vec<(u64, Samples)>,
    /// Milliseconds of the first report of a process.
    pub(crate) first_report: Samples,
    /// Milliseconds per report, for each number of findings.
    pub(crate) reports: Vec<(u64, Samples)>,
    /// The size of this program in MiB, including its line tables.
    pub(crate) binary_mib: f64,
    /// Nanoseconds per pair, for each number of threads.
    pub(crate) threads: Samples,
}

pub(crate) fn print(results: &Results) {
    println!(
        "{}; medians, with the interquartile range of the blocks in brackets",
        results.device
    );
    println!();
    println!(
        "| what | plain | empty callback | ours, no stacks | ours | compute-sanitizer |\n\
         | --- | --: | --: | --: | --: | --: |"
    );
    row("pool pair, ns", &results.pool);
    row("event pair, ns", &results.event);
    row("pool pair on each of 16 threads, ns", &results.of_threads);
    row("program's loop, ms", &results.program);
    row(
        "its loop in a process of its own, ms",
        &results.program_alone,
    );
    row("its whole process, ms", &results.process);
    println!();
    println!("| ours, as it grows | |\n| --- | --: |");
    for (records, samples) in &results.scopes {
        println!(
            "| scope with {records} live records, µs | {} |",
            only(samples)
        );
    }
    println!(
        "| first report of a process, ms | {} |",
        only(&results.first_report)
    );
    for (findings, samples) in &results.reports {
        println!(
            "| later report of {findings} findings, ms | {} |",
            only(samples)
        );
    }
    for (threads, spread) in THREADS.into_iter().zip(results.threads.spreads()) {
        println!(
            "| pair on each of {threads} threads, ledger alone, ns | {} |",
            cell(spread)
        );
    }
    println!();
    println!("| ratio | is | budget |\n| --- | --: | --: |");
    for (name, samples) in [("pool", &results.pool), ("event", &results.event)] {
        let [plain, empty, without, ours] = medians(samples);
        println!(
            "| {name} pair, no stacks: (ours − plain) / (empty − plain) | {:.2} | ≤ 0.6 |",
            (without - plain) / (empty - plain)
        );
        println!(
            "| {name} pair, a stack of {} frames on top, ns | {:+.0} | ≤ +350 |",
            results.frames,
            ours - without
        );
    }
    for (name, samples, budget) in [
        ("loop", &results.program, "1.02"),
        ("whole process", &results.process, "1.03"),
        ("16 threads, pool pairs", &results.of_threads, "1.10"),
    ] {
        let [plain, _, _, ours] = medians(samples);
        println!(
            "| program, {name}: ours / plain | {:.2} | ≤ {budget} |",
            ours / plain
        );
    }
    let [none, paused] = [0, 1].map(|index| results.paused.spreads()[index].median);
    println!(
        "| 16 threads, pool pairs: no tool, a pause of {} ns before each call / no pause | {:.2} | |",
        PAUSE.as_nanos(),
        paused / none
    );
    for (name, samples) in [
        ("loop", &results.program_alone),
        ("whole process", &results.process),
    ] {
        let [plain, ..] = medians(samples);
        if let Some(sanitizer) = samples.spreads().get(4) {
            let ratio = sanitizer.median / plain;
            println!("| program, {name}: compute-sanitizer / plain | {ratio:.2} | |");
        }
    }
    println!(
        "| first check of a process, beyond its body, ms | {:.2} | ≤ 2 |",
        results.first_check.spreads()[0].median
    );
    if let Some((records, samples)) = results.scopes.last() {
        let scope = samples.spreads()[0].median;
        println!(
            "| begin + end of a clean scope with {records} live records, µs | {scope:.1} | ≤ 15 |"
        );
    }
    println!(
        "| first report, binary of {:.0} MiB, ms | {:.1} | ≤ 60 |",
        results.binary_mib,
        results.first_report.spreads()[0].median
    );
    println!(
        "| later report of one finding, ms | {:.2} | ≤ 1 |",
        results.reports[0].1.spreads()[0].median
    );
    let threads = results.threads.spreads();
    println!(
        "| pair on each of {} threads / on one, ledger alone | {:.2} | ≤ 6 |",
        THREADS[threads.len() - 1],
        threads[threads.len() - 1].median / threads[0].median
    );
}

pub(crate) fn complain(why: &str) {
    eprintln!("error: {why}");
}

fn row(name: &str, samples: &Samples) {
    let cells: Vec<_> = samples.spreads().into_iter().map(cell).collect();
    println!("| {name} | {} |", cells.join(" | "));
}

fn only(samples: &Samples) -> String {
    cell(samples.spreads()[0])
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
    let spreads = samples.spreads();
    std::array::from_fn(|variant| spreads[variant].median)
}
