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
//! - the bytes of arrays and of imported memory, which the stand-in counts differently.
//!
//! If there is a GPU, programs that make only calls which a real driver defines also run on it. The
//! GPU's driver must accept the same calls as the stand-in, and after each step, the ledger must
//! contain the same number of resources and bytes of each kind as on the stand-in.
//!
//! The module `steps` says what the programs do not do. `RANDOM_PROGRAMS=1000` runs more programs,
//! and `RANDOM_PROGRAM=17` only the one with this number. A program that fails runs again with
//! fewer and fewer steps, and the test prints the calls of the shortest one that still fails.

#![expect(clippy::print_stderr, reason = "the parent reads a program's calls")]

mod steps;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::thread;

use gpu_leak_check::ledger::{self, Kind, Place};
use gpu_leak_tests::child::Run;
use gpu_leak_tests::fake::Fake;
use gpu_leak_tests::gpu;
use gpu_leak_tests::random::{self, Programs, Random, calls_of_failure};

use self::steps::Program;
use super::calls::{Calls as _, at};
use super::{Driver, compared, with_driver};

const TEST: &str = "heard::random::after_each_call_the_ledger_has_what_the_driver_has";
const GPU_TEST: &str = "heard::random::a_gpu_accepts_the_calls_that_the_stand_in_accepts";
const THREADS_TEST: &str =
    "heard::random::after_programs_on_several_threads_the_ledger_has_what_the_driver_has";

/// Runs these steps of a program, until the ledger and the driver differ.
fn run(driver: &Driver<'_>, number: u64, steps: &[u64]) {
    driver.call("cuInit", &[0]);
    let has_captures = number % 2 == 1;
    let is_compared = |kind: &Kind| *kind != Kind::GraphHandle || !has_captures;
    let kinds = || compared().chain([Kind::Imported]).filter(is_compared);
    let (mut program, mut newest) = (Program::new(driver, has_captures, false), 0);
    for &step in steps {
        // A step makes the same choices, whichever steps were before it.
        program.step(Random(number << 32 | step));
        let differs = driver.difference(kinds());
        assert_none(differs.or_else(|| misplaced(driver, &mut newest)), step);
    }
}

/// Fails after a step or a round if there is a difference, which is printed like a call.
fn assert_none(difference: Option<String>, after: u64) {
    if let Some(difference) = difference {
        eprintln!("\n> {difference}");
        panic!("after {after}");
    }
}

/// Describes a resource that is on another device than the ledger says, if there is one. Only
/// resources that are newer than `newest` are compared.
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

#[test]
fn after_each_call_the_ledger_has_what_the_driver_has() {
    let fake = Fake::new().devices(2);
    if Programs::chosen().is_some() {
        let body = with_driver(&fake, |driver| {
            let (number, steps) = Programs::chosen().expect("it is chosen");
            run(driver, number, &steps);
        });
        return fake.here(|control| body(control));
    }
    let programs = Programs {
        count: 14,
        steps: 1500,
        test: &format!("gpu-leak-tests --test main {TEST}"),
    };
    programs.assert_pass(|number, steps| calls_of_failure(fake.run(TEST), number, steps));
}

/// Returns a [`Driver`] without the stand-in's `Control`, for use on another thread or by a program
/// that does not need it.
fn driver_at(library: *mut c_void) -> Driver<'static> {
    Driver {
        library,
        control: None,
        called: RefCell::default(),
    }
}

/// Runs four programs at once, again and again. Each uses only objects of its own.
fn run_together(driver: &Driver<'_>, number: u64) {
    driver.call("cuInit", &[0]);
    for device in [0, 1] {
        driver.make("cuDevicePrimaryCtxRetain", &[device]);
    }
    let library = driver.library.expose_provenance();
    for round in 0..20 {
        thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    let driver = driver_at(ptr::with_exposed_provenance_mut(library));
                    let mut program = Program::new(&driver, false, true);
                    program.shares_process = true;
                    program.enter_primary();
                    for step in 0..100 {
                        program.step(Random((number << 16 | round << 8 | thread) << 32 | step));
                    }
                });
            }
        });
        assert_none(driver.difference(compared()), round);
    }
}

#[test]
fn after_programs_on_several_threads_the_ledger_has_what_the_driver_has() {
    let fake = Fake::new().devices(2);
    if Programs::chosen().is_some() {
        let body = with_driver(&fake, |driver| {
            run_together(driver, Programs::chosen().expect("it is chosen").0);
        });
        return fake.here(|control| body(control));
    }
    let programs = Programs {
        count: 6,
        steps: 0,
        test: &format!("gpu-leak-tests --test main {THREADS_TEST}"),
    };
    programs.assert_pass(|number, steps| calls_of_failure(fake.run(THREADS_TEST), number, steps));
}

/// Runs steps that make only defined calls, on the driver of this process. Prints each call with
/// its result and, after each step, the number and bytes of the ledger's resources of each kind.
fn trace(number: u64, steps: &[u64]) {
    // SAFETY: loading the driver has no preconditions, and the handle is never closed.
    let driver = driver_at(unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) });
    assert_eq!(driver.try_call("cuInit", &[0]), 0);
    let (mut program, mut newest) = (Program::new(&driver, number % 2 == 1, true), 0);
    program.enter_primary();
    for &step in steps {
        program.step(Random(number << 32 | step));
        let mut live = BTreeMap::new();
        for record in ledger::live().select(|_| true) {
            let kind = format!("{:?}", record.made.kind);
            let (count, bytes) = live.entry(kind).or_insert((0, 0));
            *count += 1;
            *bytes += record.made.bytes;
        }
        eprintln!("\n> after step {step}: {live:?}");
        assert_none(misplaced(&driver, &mut newest), step);
    }
}

/// Returns the name of a printed call and whether the call succeeded, or the line unchanged if it
/// is not a call. Arguments, results and error codes are left out, because they may differ.
fn outcome(call: &str) -> String {
    match call.split_once(['[', ']']) {
        Some((name, rest)) => format!("{name}: {}", rest.contains("] = 0")),
        None => call.to_owned(),
    }
}

#[test]
fn a_gpu_accepts_the_calls_that_the_stand_in_accepts() {
    if let Some((number, steps)) = Programs::chosen() {
        return trace(number, &steps);
    }
    if !gpu::is_present() {
        return;
    }
    let fake = Fake::new().devices(gpu::count().min(2));
    let programs = Programs {
        count: 14,
        steps: 300,
        test: &format!("gpu-leak-tests --test main {GPU_TEST}"),
    };
    programs.assert_pass(|number, steps| {
        let (_, expected) = random::run(fake.run(GPU_TEST), number, steps);
        let (succeeds, found) = random::run(Run::of(GPU_TEST), number, steps);
        let both = expected.iter().zip(&found);
        let same = both.take_while(|(expected, found)| outcome(expected) == outcome(found));
        let same = same.count();
        let differ = !succeeds || same < expected.len().max(found.len());
        differ.then(|| {
            let calls = found[..found.len().min(same + 1)].join("\n");
            format!("{calls}\n> the stand-in: {:?}", expected.get(same))
        })
    });
}
