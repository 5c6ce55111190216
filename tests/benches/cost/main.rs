//! What the harness costs on this machine's GPU: `cargo bench -p gpu-leak-tests --bench cost`.
//!
//! Every variant is a process of its own, so that none inherits another's callbacks. The processes
//! wait for orders and work in turn, a block each, so that a change of clocks or of temperature
//! meets all of them alike. What counts are the ratios of one run; absolute times drift.
//!
//! `-- --fake` runs on the stand-ins for the driver: it shows that the benchmark works, and its
//! figures mean nothing.

mod calls;
mod empty;
mod orders;
mod samples;
mod table;
mod worker;

use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use gpu_leak_tests::fake::Fake;
use gpu_leak_tests::gpu;

use crate::orders::{Order, Variant};
use crate::samples::Samples;
use crate::worker::Worker;

/// Counted blocks of each variant.
const BLOCKS: usize = 40;
/// Blocks before the first one that counts.
const WARM_UP: usize = 4;
/// Pairs of calls in a block: some milliseconds.
const PAIRS: u64 = 2000;
/// Scopes in a block.
const SCOPES: u64 = 50;
/// Live records beside the scopes.
const RECORDS: u64 = 1_000_000;

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
        return Err("no CUDA device can be used here".to_owned());
    }
    let fake = on_fake.then(Fake::new);
    let environment = fake.as_ref().map(Fake::env).unwrap_or_default();
    let mut workers = Variant::ALL
        .iter()
        .map(|variant| Worker::start(*variant, &environment))
        .collect::<Result<Vec<_>, _>>()?;
    let device = workers[0].ask(Order::Device)?;

    let pool = interleaved(&mut workers, Order::PoolPairs(PAIRS))?;
    let event = interleaved(&mut workers, Order::EventPairs(PAIRS))?;
    let program = interleaved(&mut workers, Order::Program)?;
    let ours = workers.pop().ok_or("no worker")?;
    let mut ours = [ours];
    let frames = ours[0].ask(Order::LongestStack)?;
    let few = interleaved(&mut ours, Order::Scopes(SCOPES))?;
    ours[0].ask(Order::Fill(RECORDS))?;
    let many = interleaved(&mut ours, Order::Scopes(SCOPES))?;
    drop((workers, ours));
    let process = whole_processes(&environment)?;

    table::print(&table::Results {
        device,
        frames,
        records: RECORDS,
        pool: pool.map_each(|ns| ns / PAIRS as f64),
        event: event.map_each(|ns| ns / PAIRS as f64),
        program: program.map_each(|ns| ns / 1e6),
        process: process.map_each(|ns| ns / 1e6),
        few: few.map_each(|ns| ns / SCOPES as f64 / 1e3),
        many: many.map_each(|ns| ns / SCOPES as f64 / 1e3),
    });
    Ok(())
}

/// Gives the same order to each worker in turn, block after block.
fn interleaved(workers: &mut [Worker], order: Order) -> Result<Samples, String> {
    let mut samples = Samples::new(workers.len());
    for block in 0..WARM_UP + BLOCKS {
        for (variant, worker) in workers.iter_mut().enumerate() {
            let nanoseconds = worker.time(order)?;
            if block >= WARM_UP {
                samples.add(variant, nanoseconds);
            }
        }
    }
    Ok(samples)
}

/// The program as a process, from its start to its exit.
fn whole_processes(environment: &[(String, OsString)]) -> Result<Samples, String> {
    let mut samples = Samples::new(Variant::ALL.len());
    for block in 0..WARM_UP + BLOCKS {
        for (index, variant) in Variant::ALL.iter().enumerate() {
            let mut command = Command::new(worker::this_program()?);
            command
                .args(["--program", variant.name()])
                .envs(environment.iter().cloned())
                .stdin(Stdio::null());
            let start = Instant::now();
            let status = command.status().map_err(|error| error.to_string())?;
            let nanoseconds = start.elapsed().as_nanos() as f64;
            if !status.success() {
                return Err(format!(
                    "the program as `{}` ended with {status}",
                    variant.name()
                ));
            }
            if block >= WARM_UP {
                samples.add(index, nanoseconds);
            }
        }
    }
    Ok(samples)
}
