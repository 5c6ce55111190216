//! Random programs, checked by the real harness and by a model of its rules.
//!
//! A program is a test whose body combines checks, scopes, threads and allocations at random. The
//! model knows what leaks, and therefore what each check must report. `PROGRAMS=1000000` sets the
//! number of programs, and `SEED=7` the first seed. A program whose reports differ from the model
//! is shrunk and printed.
//!
//! This is a separate target because its probes affect the whole process, and because nothing else
//! may run alongside it: each of its processes must know that it runs alone.

mod allocators;
mod model;
mod program;
mod run;
mod shrink;
mod sites;
mod trace;

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use gpu_leak_tests::child;

/// The number of programs in an ordinary run of the tests.
const PROGRAMS: u64 = 10_000;
/// The maximum number of programs that one process runs. It is limited because the harness
/// remembers each leak until the process ends.
const IN_ONE_PROCESS: u64 = 5_000;
/// The maximum number of failing programs that one process prints.
const PRINTED: usize = 3;
/// The first seed.
const SEED: u64 = 0x6c65_616b;

fn number(variable: &str, default: u64) -> u64 {
    let number = env::var(variable).ok();
    number.map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn random_compositions_of_checks_agree_with_the_model() {
    let (programs, seed) = (number("PROGRAMS", PROGRAMS), number("SEED", SEED));
    let processes = programs.div_ceil(IN_ONE_PROCESS);
    let failures = std::sync::Mutex::new(Vec::new());
    let next = std::sync::atomic::AtomicU64::new(0);
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let process = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if process >= processes {
                        return;
                    }
                    let first = process * IN_ONE_PROCESS;
                    let count = IN_ONE_PROCESS.min(programs - first);
                    let failed = run_process(seed + first, count);
                    failures.lock().expect("no panic").extend(failed);
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    assert!(
        failures.is_empty(),
        "of {programs} programs from seed {seed} on:\n{}",
        failures.join("\n")
    );
}

/// Runs this number of programs in a separate process, and returns its output if one of them
/// failed.
///
/// The command line does not select the test by its exact name, because in a process that runs a
/// single test, everything belongs to that test.
fn run_process(seed: u64, count: u64) -> Option<String> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(env::current_exe().expect("the path of this program"));
    child::clean(&mut command);
    let output = command
        .args([
            "runs_programs",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("GPU_LEAK_CHECK_OUTPUT", directory.path())
        .env("GPU_LEAK_CHECK_SETTLE", "0ms")
        .env("GPU_LEAK_CHECK_HELD_BY", "0s")
        .env("COMPOSITION_DIRECTORY", directory.path())
        .env("PROGRAMS", count.to_string())
        .env("SEED", seed.to_string())
        // Discards the printed reports of all leaks.
        .stderr(Stdio::null())
        .output()
        .expect("a process");
    let reported = String::from_utf8_lossy(&output.stdout).into_owned();
    (!output.status.success()).then_some(reported)
}

#[test]
#[ignore = "run in processes of its own"]
#[expect(clippy::print_stdout, reason = "the parent reads what failed")]
fn runs_programs() {
    let directory = env::var_os("COMPOSITION_DIRECTORY").expect("a directory for reports");
    let directory = Path::new(&directory);
    let (programs, first) = (number("PROGRAMS", PROGRAMS), number("SEED", SEED));
    // Thousands of programs panic on purpose. Their messages are not needed.
    std::panic::set_hook(Box::new(|_| {}));
    let wrong = |program: &program::Program| model::violations(&run::run(program, directory));
    let mut failed = 0;
    for seed in first..first + programs {
        let program = program::generate(seed);
        let first = wrong(&program);
        if first.is_empty() {
            continue;
        }
        failed += 1;
        if failed <= PRINTED {
            let small = shrink::shrink(program, |program| !wrong(program).is_empty());
            let reported = match &wrong(&small)[..] {
                // The program did not fail again, so its result does not depend on the program
                // alone.
                [] => format!(
                    "it did not fail again; the first failure:\n  {}",
                    first.join("\n  ")
                ),
                reported => reported.join("\n  "),
            };
            println!("\nseed {seed}, shrunk:\n{small}\n  {reported}");
        }
    }
    println!("{failed} of {programs} programs failed");
    assert_eq!(failed, 0);
}
