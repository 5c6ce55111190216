//! Random programs of driver calls. After each call, the ledger contains exactly what is live in
//! the stand-in for the driver, with the same number of bytes and on the same device.
//!
//! Many calls fail, because a program also uses what it has destroyed, and the stand-in gives each
//! handle and address out again as soon as it is free. There are two devices, and primary, created
//! and green contexts.
//!
//! The following is not compared:
//!
//! - the number of graphs in programs with captures. During a capture, the stand-in already has the
//!   graph and the ledger does not, and the end of an abandoned graph cannot be observed;
//! - the number of contexts, because primary contexts have no record;
//! - the bytes of arrays and of imported memory, which the stand-in counts in another way.
//!
//! If there is a GPU, programs that make only calls which a real driver defines also run on it. Its
//! driver accepts the same calls as the stand-in, and the ledger contains the same.
//!
//! `steps` says what the programs do not do. `RANDOM_PROGRAMS=1000` runs more programs, and
//! `RANDOM_PROGRAM=17` only the one with this number. A program that fails runs again with fewer
//! and fewer steps, and the test prints the calls of the shortest one that still fails.

#![expect(clippy::print_stderr, reason = "the parent reads a program's calls")]

mod steps;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::env::var;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use gpu_leak_check::ledger::{self, Kind, Place};
use gpu_leak_tests::child::Run;
use gpu_leak_tests::fake::Fake;
use gpu_leak_tests::gpu;
use gpu_leak_tests::random::Random;

use self::steps::Program;
use super::calls::at;
use super::{Driver, KINDS, with_driver};

/// The number of programs, and of steps of each.
const PROGRAMS: u64 = 14;
const STEPS: u64 = 1500;
const DEFINED_STEPS: u64 = 300;

/// The variables that select a program and, in a child process, its steps.
const PROGRAM: &str = "RANDOM_PROGRAM";
const CHOSEN: &str = "RANDOM_PROGRAM_STEPS";
const GPU_TEST: &str = "heard::random::a_gpu_accepts_the_calls_that_the_stand_in_accepts";
const TEST: &str = "heard::random::after_each_call_the_ledger_has_what_the_driver_has";

/// Runs these steps of a program, until the ledger and the driver differ.
fn run(driver: &Driver<'_>, number: u64, steps: impl Iterator<Item = u64>) {
    driver.call("cuInit", &[0]);
    let has_captures = number % 2 == 1;
    let imported: (Kind, &[&str]) = (Kind::Imported, &["ipc", "pool-import", "external-buffer"]);
    let kinds = KINDS.iter().copied().chain([imported]);
    let kinds: Vec<_> = kinds
        .filter(|(kind, _)| *kind != Kind::GraphHandle || !has_captures)
        .collect();
    let (mut program, mut newest) = (Program::new(driver, has_captures, false), 0);
    for step in steps {
        // A step makes the same choices, whichever steps were before it.
        program.step(Random(number << 32 | step));
        let differs = driver.difference(&kinds);
        if let Some(difference) = differs.or_else(|| misplaced(driver, &mut newest)) {
            eprintln!("\n> {difference}");
            panic!("after step {step}");
        }
    }
}

/// Returns a resource on another device than the ledger says. Only resources that are newer than
/// `newest` are compared.
fn misplaced(driver: &Driver<'_>, newest: &mut u64) -> Option<String> {
    let new = ledger::live().select(|record| record.sequence > *newest);
    *newest = new.iter().map(|it| it.sequence).fold(*newest, u64::max);
    new.iter().find_map(|record| {
        let (key, device) = (record.made.key.value(), Cell::new(0_u32));
        let error = match record.made.kind {
            Kind::Stream => driver.try_call("cuStreamGetDevice", &[key, at(&device)]),
            Kind::Linear | Kind::Managed | Kind::StreamOrdered | Kind::Graph => {
                // `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`
                driver.try_call("cuPointerGetAttribute", &[at(&device), 9, key])
            }
            _ => return None,
        };
        let (place, is_at) = (record.made.place, Place::cuda(device.get() as usize));
        let differ = error != 0 || place != is_at;
        differ.then(|| format!("{key:x}: on {place}, not {is_at} (the driver's result: {error})"))
    })
}

/// Runs some steps of a program in a child process. Returns its calls if it fails.
fn failure(fake: &Fake, number: u64, steps: &[u64]) -> Option<String> {
    let steps: Vec<_> = steps.iter().map(u64::to_string).collect();
    let child = fake.run(TEST).env(PROGRAM, number.to_string());
    let child = child.env(CHOSEN, steps.join(",")).run();
    let calls = child.stderr.lines().filter(|line| line.starts_with("> "));
    (!child.status.success()).then(|| calls.collect::<Vec<_>>().join("\n"))
}

/// Runs a program. If it fails, leaves out steps as long as it still fails, and returns its calls.
fn shortest_failure(fake: &Fake, number: u64) -> Option<String> {
    let mut steps: Vec<u64> = (0..STEPS).collect();
    let mut calls = failure(fake, number, &steps)?;
    let mut count = steps.len() / 2;
    while count > 0 {
        let (mut start, before) = (0, steps.len());
        while start < steps.len() {
            let end = steps.len().min(start + count);
            let fewer = [&steps[..start], &steps[end..]].concat();
            match failure(fake, number, &fewer) {
                Some(fails) => (steps, calls) = (fewer, fails),
                None => start = end,
            }
        }
        if steps.len() == before {
            count /= 2;
        }
    }
    Some(format!(
        "program {number} fails:\n{calls}\nrepeat it with {PROGRAM}={number} cargo test -p \
         gpu-leak-tests --test main {TEST}"
    ))
}

#[test]
fn after_each_call_the_ledger_has_what_the_driver_has() {
    let fake = Fake::new().devices(2);
    if var(CHOSEN).is_ok() {
        let body = with_driver(&fake, |driver| {
            let (number, steps) = (var(PROGRAM).expect("set"), var(CHOSEN).expect("set"));
            let steps = steps.split(',').filter_map(|step| step.parse().ok());
            run(driver, number.parse().expect("a number"), steps);
        });
        return fake.here(|control| body(control));
    }
    for_each_program(|number| shortest_failure(&fake, number));
}

/// Fails with what `failure` returns for the programs that were selected.
fn for_each_program(failure: impl Fn(u64) -> Option<String> + Sync) {
    let variable = |name| var(name).map(|it| it.parse::<u64>().expect("a number"));
    let numbers = match (variable(PROGRAM), variable("RANDOM_PROGRAMS")) {
        (Ok(number), _) => number..number + 1,
        (_, count) => 0..count.unwrap_or(PROGRAMS),
    };
    let next = AtomicU64::new(numbers.start);
    let failures = || {
        let number = || Some(next.fetch_add(1, Ordering::Relaxed));
        let mine = std::iter::from_fn(number).take_while(|number| *number < numbers.end);
        mine.filter_map(&failure).take(1).collect::<Vec<_>>()
    };
    let failures: Vec<String> = thread::scope(|scope| {
        let threads = [scope.spawn(failures), scope.spawn(failures)];
        let failures = threads.map(|thread| thread.join().expect("a result"));
        failures.into_iter().flatten().collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Runs a program that makes only defined calls, on the driver of this process. Prints each call with
/// its result and, after each step, the numbers and bytes of what the ledger contains.
fn trace(number: u64) {
    // SAFETY: the driver may be loaded, and it is not closed.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
    let driver = Driver {
        library,
        control: None,
        called: RefCell::default(),
    };
    assert_eq!(driver.try_call("cuInit", &[0]), 0);
    let (mut program, mut newest) = (Program::new(&driver, number % 2 == 1, true), 0);
    program.enter_primary();
    for step in 0..DEFINED_STEPS {
        program.step(Random(number << 32 | step));
        let mut live = BTreeMap::new();
        for record in ledger::live().select(|_| true) {
            let (count, bytes) = live
                .entry(format!("{:?}", record.made.kind))
                .or_insert((0, 0));
            *count += 1;
            *bytes += record.made.bytes;
        }
        eprintln!("\n> after step {step}: {live:?}");
        assert_eq!(misplaced(&driver, &mut newest), None, "after step {step}");
    }
}

/// Returns the lines of a program's trace, and the same without handles, addresses and codes of
/// errors.
fn traced(run: Run, number: u64) -> (Vec<String>, Vec<String>) {
    let child = run.env(PROGRAM, number.to_string()).env(CHOSEN, "").run();
    let lines = child.stderr.lines().filter(|line| line.starts_with("> "));
    let mut lines: Vec<_> = lines.map(str::to_owned).collect();
    lines.push(child.status.to_string());
    let compared = lines.iter().map(|line| match line.split_once(['[', ']']) {
        Some((call, rest)) => format!("{call}: {}", rest.contains("] = 0")),
        None => line.clone(),
    });
    (compared.collect(), lines)
}

#[test]
fn a_gpu_accepts_the_calls_that_the_stand_in_accepts() {
    if let (Ok(number), Ok(_)) = (var(PROGRAM), var(CHOSEN)) {
        return trace(number.parse().expect("a number"));
    }
    if !gpu::is_present() {
        return;
    }
    let fake = Fake::new().devices(gpu::count().min(2));
    for_each_program(|number| {
        let (expected, _) = traced(fake.run(GPU_TEST), number);
        let (found, lines) = traced(Run::of(GPU_TEST), number);
        let both = expected.iter().zip(&found);
        let same = both
            .take_while(|(expected, found)| expected == found)
            .count();
        (expected != found).then(|| {
            format!(
                "program {number}, where the stand-in has {:?}:\n{}",
                expected.get(same),
                lines[..=same].join("\n")
            )
        })
    });
}
