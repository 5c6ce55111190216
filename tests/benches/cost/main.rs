//! The cost of the harness on this machine's GPU: `cargo bench -p gpu-leak-tests --bench cost`.
//!
//! Every variant runs in its own process, so that none inherits another's callbacks. The processes
//! wait for orders and run one block each in turn on the same processor, so that a change of clock
//! speed or temperature, or other load, affects all of them equally. Only the ratios within one run
//! are meaningful; absolute times drift.
//!
//! `-- --fake` runs on the stand-in for the driver. It shows that the benchmark works, but its
//! figures are meaningless.

mod calls;
mod empty;
mod orders;
mod pair;
mod processor;
mod samples;
mod table;
mod threads;
mod worker;

use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use gpu_leak_tests::fake::Fake;
use gpu_leak_tests::gpu;

use crate::orders::{Order, Variant};
use crate::samples::Samples;
use crate::worker::Worker;

/// The number of counted blocks of each variant.
const BLOCKS: usize = 30;
/// The number of blocks of each variant before the first one that counts.
const WARM_UP: usize = 4;
/// The number of pairs of calls in a block. A block takes some milliseconds.
const PAIRS: u64 = 2000;
/// The number of scopes in a block.
const SCOPES: u64 = 50;
/// The numbers of other live records with which a scope is measured.
const RECORDS: [u64; 5] = [0, 1_000, 10_000, 100_000, 1_000_000];
/// The numbers of findings with which a report is measured.
const FINDINGS: [u64; 3] = [1, 10, 100];
/// The number of processes that measure their first report. Each of them must create a context.
const FIRST_REPORTS: usize = 30;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().collect();
    let outcome = match arguments.get(1).map(String::as_str) {
        Some("--worker") => worker::serve(&arguments[2]),
        Some("--program") => worker::run_program(&arguments[2]),
        _ => measure(arguments.iter().any(|argument| argument == "--fake")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            table::complain(&why);
            ExitCode::FAILURE
        }
    }
}

fn measure(on_fake: bool) -> Result<(), String> {
    if !on_fake && !gpu::is_present() {
        return Err("no usable CUDA device was found".to_owned());
    }
    let fake = on_fake.then(Fake::new);
    let environment = fake.as_ref().map(Fake::env).unwrap_or_default();
    let mut workers = Variant::ALL
        .iter()
        .map(|variant| Worker::start(*variant, &environment))
        .collect::<Result<Vec<_>, _>>()?;
    let device = workers[0].ask(Order::Device)?;

    // This comes first, because the other measurements pin themselves to one processor, and threads
    // inherit the pinning.
    let of_threads = interleaved_anywhere(&mut workers, Order::ThreadPairs(PAIRS))?;
    let paused = paused(&mut workers[0])?;
    let pool = interleaved(&mut workers, Order::PoolPairs(PAIRS))?;
    let event = interleaved(&mut workers, Order::EventPairs(PAIRS))?;
    let program = interleaved(&mut workers, Order::Program)?;
    let ours = workers.pop().ok_or("no worker")?;
    drop(workers);
    let mut ours = [ours];
    let frames = ours[0].ask(Order::LongestStack)?;
    let mut scopes = Vec::new();
    let mut filled = 0;
    for records in RECORDS {
        ours[0].ask(Order::Fill(records - filled))?;
        filled = records;
        scopes.push(interleaved(&mut ours, Order::Scopes(SCOPES))?);
    }
    drop(ours);
    let (first, later) = reports(&environment)?;
    let mut first_check = Samples::new(1);
    for _ in 0..FIRST_REPORTS {
        let mut worker = Worker::start(Variant::Ours, &environment)?;
        first_check.add(0, worker.time(Order::FirstCheck)?);
    }
    let (process, program_alone) = whole_processes(&environment)?;

    table::print(&table::Results {
        device,
        frames,
        pool: pool.map_each(|ns| ns / PAIRS as f64),
        event: event.map_each(|ns| ns / PAIRS as f64),
        of_threads: of_threads.map_each(|ns| ns / PAIRS as f64),
        paused: paused.map_each(|ns| ns / PAIRS as f64),
        first_check: first_check.map_each(|ns| ns / 1e6),
        program: program.map_each(|ns| ns / 1e6),
        program_alone: program_alone.map_each(|ns| ns / 1e6),
        process: process.map_each(|ns| ns / 1e6),
        scopes: RECORDS
            .into_iter()
            .zip(scopes)
            .map(|(records, samples)| (records, samples.map_each(|ns| ns / SCOPES as f64 / 1e3)))
            .collect(),
        first_report: first.map_each(|ns| ns / 1e6),
        reports: FINDINGS
            .into_iter()
            .zip(later)
            .map(|(findings, samples)| (findings, samples.map_each(|ns| ns / 1e6)))
            .collect(),
        binary_mib: std::fs::metadata(worker::this_program()?)
            .map_or(0.0, |file| file.len() as f64 / f64::from(1 << 20)),
        threads: threads::measure(BLOCKS),
    });
    Ok(())
}

/// Measures the first report of fresh processes, and the later reports of one process by their
/// number of findings. None of these reports waits for in-flight frees.
fn reports(environment: &[(String, OsString)]) -> Result<(Samples, Vec<Samples>), String> {
    let mut environment = environment.to_vec();
    environment.push(("GPU_LEAK_CHECK_SETTLE".to_owned(), "0ms".into()));
    let mut first = Samples::new(1);
    for _ in 0..FIRST_REPORTS {
        let mut worker = Worker::start(Variant::Ours, &environment)?;
        first.add(0, worker.time(Order::Report(1))?);
    }
    let mut worker = [Worker::start(Variant::Ours, &environment)?];
    let later = FINDINGS
        .into_iter()
        .map(|findings| interleaved(&mut worker, Order::Report(findings)))
        .collect::<Result<_, _>>()?;
    Ok((first, later))
}

/// Measures the pairs of calls of sixteen threads without a tool, first without and then with a
/// short pause before each call.
fn paused(plain: &mut Worker) -> Result<Samples, String> {
    let mut samples = Samples::new(2);
    for block in 0..WARM_UP + BLOCKS {
        for (index, order) in [Order::ThreadPairs(PAIRS), Order::PausedThreadPairs(PAIRS)]
            .into_iter()
            .enumerate()
        {
            let nanoseconds = plain.time(order)?;
            if block >= WARM_UP {
                samples.add(index, nanoseconds);
            }
        }
    }
    Ok(samples)
}

/// Gives the same order to each worker in turn, block by block. All workers run a block on the same
/// processor.
fn interleaved(workers: &mut [Worker], order: Order) -> Result<Samples, String> {
    in_turn(workers, order, &processor::usable())
}

/// Like [`interleaved`], but without pinning, because the threads need all processors.
fn interleaved_anywhere(workers: &mut [Worker], order: Order) -> Result<Samples, String> {
    in_turn(workers, order, &[])
}

fn in_turn(workers: &mut [Worker], order: Order, processors: &[u64]) -> Result<Samples, String> {
    let mut samples = Samples::new(workers.len());
    for block in 0..WARM_UP + BLOCKS {
        for (variant, worker) in workers.iter_mut().enumerate() {
            if let Some(number) = processors.get(block % processors.len().max(1)) {
                worker.ask(Order::Processor(*number))?;
            }
            let nanoseconds = worker.time(order)?;
            if block >= WARM_UP {
                samples.add(variant, nanoseconds);
            }
        }
    }
    Ok(samples)
}

/// Measures processes that run the program, and the program's loop in each of them: for each
/// variant, and then for the plain variant under compute-sanitizer, if that is installed.
fn whole_processes(environment: &[(String, OsString)]) -> Result<(Samples, Samples), String> {
    let program = worker::this_program()?;
    let mut commands: Vec<_> = Variant::ALL
        .iter()
        .map(|variant| {
            let mut command = Command::new(&program);
            command.args(["--program", variant.name()]);
            command
        })
        .collect();
    if has_sanitizer() {
        let mut command = Command::new(SANITIZER);
        command.args(["--tool", "memcheck", "--leak-check", "full"]);
        command.arg(&program).args(["--program", "plain"]);
        commands.push(command);
    }
    let mut whole = Samples::new(commands.len());
    let mut loops = Samples::new(commands.len());
    for block in 0..WARM_UP + BLOCKS {
        for (index, command) in commands.iter_mut().enumerate() {
            command.envs(environment.iter().cloned());
            command.stdin(Stdio::null()).stderr(Stdio::null());
            let start = Instant::now();
            let output = command.output().map_err(|error| error.to_string())?;
            let nanoseconds = start.elapsed().as_nanos() as f64;
            let reported = String::from_utf8_lossy(&output.stdout);
            // Skips the output of compute-sanitizer, which writes to the same pipe.
            let inside = reported.lines().find_map(|line| line.parse().ok());
            let Some(inside) = inside.filter(|_| output.status.success()) else {
                return Err(format!(
                    "{command:?} ended with {}: {reported}",
                    output.status
                ));
            };
            if block >= WARM_UP {
                whole.add(index, nanoseconds);
                loops.add(index, inside);
            }
        }
    }
    Ok((whole, loops))
}

const SANITIZER: &str = "compute-sanitizer";

fn has_sanitizer() -> bool {
    let mut command = Command::new(SANITIZER);
    command.arg("--version").stdout(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
