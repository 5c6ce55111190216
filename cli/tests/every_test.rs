//! Tests the runner of `cargo gpu-leak test --every-test` on this program. The planted tests
//! without the attribute call the driver.
#![cfg(target_os = "linux")]
#![expect(
    unsafe_code,
    reason = "the planted tests call the driver, or change their environment"
)]

use std::env;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use gpu_leak_check::{Check, gpu_leak_check};
use gpu_leak_hooked::{Arena, Buffer, lookup_table};
use gpu_leak_tests::fake::Fake;

use crate::support::{CliOutput, call, clean};

/// Allocates this number of bytes through the driver, and frees them if `gives_back`.
fn take(bytes: usize, gives_back: bool) {
    use cudarc::driver::{result, sys};
    result::init().expect("a driver");
    let device = result::device::get(0).expect("a device");
    // SAFETY: the device is valid, and its context exists until the process ends.
    unsafe {
        let context = result::primary_ctx::retain(device).expect("a context");
        result::ctx::set_current(context).expect("current");
        let address: sys::CUdeviceptr = result::malloc_sync(bytes).expect("memory");
        if gives_back {
            result::free_sync(address).expect("a free");
        }
    }
}

#[ignore = "planted"]
#[test]
fn leaks_unchecked() {
    take(4096, false);
}

#[ignore = "planted"]
#[test]
fn frees_unchecked() {
    take(4096, true);
}

#[ignore = "planted"]
#[test]
fn leaves_a_process() {
    use std::io::Write;
    let daemon = Command::new("sh").args(["-c", "sleep 30 &"]).status();
    assert!(daemon.expect("a process").success());
    let mut stderr = std::io::stderr();
    stderr.write_all(b"its last words").expect("written");
    panic!("it fails, so that its output is shown");
}

#[ignore = "planted"]
#[test]
fn fails_by_itself() {
    panic!("its own words");
}

#[ignore = "planted"]
#[test]
fn leaks_what_an_allocator_reports() {
    Buffer::new(64).leak();
}

#[ignore = "planted"]
#[test]
fn gives_back_what_an_allocator_reports() {
    drop(Buffer::new(64));
}

#[ignore = "planted"]
#[test]
fn keeps_what_the_code_allows() {
    lookup_table(64);
}

#[ignore = "planted"]
#[test]
fn keeps_what_the_code_allows_in_a_block() {
    Check::new("step").run(|| lookup_table(64));
}

#[ignore = "planted"]
#[test]
fn keeps_what_its_block_allows() {
    let step = Check::new("step").allow("fn:*keeps_what_its_block*", "the table is shared");
    step.run(|| Buffer::new(64).leak());
}

#[ignore = "planted"]
#[test]
fn leaks_after_what_the_code_allows() {
    lookup_table(64);
    Buffer::new(32).leak();
}

#[ignore = "planted"]
#[test]
fn hands_over_what_an_allocator_reports() {
    let _ = Buffer::new(64).into_raw();
}

#[ignore = "planted"]
#[test]
fn keeps_a_static() {
    static TABLE: OnceLock<Buffer> = OnceLock::new();
    TABLE.get_or_init(|| Buffer::new(64));
}

/// The allocator keeps the address of each live block, as in a list of the blocks that it handed
/// out.
#[ignore = "planted"]
#[test]
fn forgets_what_the_table_of_its_allocator_has() {
    static LIVE: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let address = gpu_leak_hooked::forgotten(64);
    LIVE.lock().expect("no test panics with it").push(address);
}

/// The arena's own static contains the first address of the arena.
#[ignore = "planted"]
#[test]
fn forgets_the_first_block_of_an_arena() {
    let arena = Arena::shared();
    assert!(arena.has(arena.take(64)));
}

#[ignore = "planted"]
#[test]
fn keeps_the_first_block_of_an_arena_in_a_static() {
    static TABLE: OnceLock<u64> = OnceLock::new();
    TABLE.get_or_init(|| Arena::shared().take(64));
}

#[ignore = "planted"]
#[test]
fn leaks_after_it_has_cleared_its_environment() {
    for (name, _) in env::vars_os() {
        // SAFETY: no other thread of this process uses the environment meanwhile.
        unsafe { env::remove_var(name) };
    }
    Buffer::new(64).leak();
}

#[ignore = "planted"]
#[test]
fn allocates_nothing() {}

#[gpu_leak_check]
#[ignore = "planted"]
#[test]
fn leaks_under_the_attribute() {
    take(512, false);
}

/// Starts the runner on this program as cargo would.
fn runner(words: &[&str]) -> CliOutput {
    runner_at(env!("CARGO_BIN_EXE_cargo-gpu-leak").as_ref(), words)
}

fn runner_at(command: &Path, words: &[&str]) -> CliOutput {
    let this = env::current_exe().expect("this program");
    runner_by(command, &this, words, |_| {})
}

/// Starts the runner on this program as cargo would. `prepare` may change the command first.
fn runner_with(words: &[&str], prepare: impl FnOnce(&mut Command)) -> CliOutput {
    runner_of(&env::current_exe().expect("this program"), words, prepare)
}

/// Starts the runner on another test program. `prepare` may change the command first.
fn runner_of(program: &Path, words: &[&str], prepare: impl FnOnce(&mut Command)) -> CliOutput {
    let command = Path::new(env!("CARGO_BIN_EXE_cargo-gpu-leak"));
    runner_by(command, program, words, prepare)
}

fn runner_by(
    command: &Path,
    program: &Path,
    words: &[&str],
    prepare: impl FnOnce(&mut Command),
) -> CliOutput {
    let directory = tempfile::tempdir().expect("a directory");
    // cargo calls a runner without the argument `gpu-leak`.
    let mut runner = clean(Command::new(command));
    let fake = Fake::new();
    runner
        .envs(fake.env())
        .env("GPU_LEAK_CHECK_OUTPUT", directory.path())
        .env("GPU_LEAK_CHECK_RUN", "every")
        .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .arg("every-test-runner")
        .arg(program)
        .args(words);
    prepare(&mut runner);
    call(&mut runner)
}

#[test]
fn a_test_without_the_attribute_fails_if_its_process_leaks() {
    let reported = runner(&["every_test::leaks_unchecked", "--ignored"]);
    assert_eq!(reported.code, Some(101), "{reported:?}");
    let line =
        "test every_test::leaks_unchecked ... FAILED: gpu leak: 1 allocation, 4.00 KiB on cuda:0";
    assert!(reported.stdout.contains(line), "{reported:?}");
    assert!(
        reported.stdout.contains("0 passed; 1 failed; 0 ignored"),
        "{reported:?}"
    );
    assert!(
        reported
            .stdout
            .contains("running 1 test in its own process\n"),
        "{reported:?}"
    );
    let again = "again: cargo gpu-leak test --every-test -p cargo-gpu-leak --test main -- --exact \
                 every_test::leaks_unchecked --include-ignored\n";
    assert!(reported.stdout.contains(again), "{reported:?}");
}

/// A process is judged once, at its end, so there are no rounds that could show growth.
#[test]
fn rounds_of_a_run_hide_no_leak_of_a_test_without_the_attribute() {
    let reported = runner_with(&["every_test::leaks_unchecked", "--ignored"], |runner| {
        runner.env("GPU_LEAK_CHECK_ROUNDS", "5");
    });
    assert_eq!(reported.code, Some(101), "{reported:?}");
    let leak = "FAILED: gpu leak: 1 allocation, 4.00 KiB on cuda:0";
    assert!(reported.stdout.contains(leak), "{reported:?}");
}

/// Only the program's own copy of the harness receives the reports of its allocators.
#[test]
fn allocators_that_report_are_heard_in_tests_without_the_attribute() {
    let reported = runner(&["an_allocator_reports", "--ignored"]);
    assert_eq!(reported.code, Some(101), "{reported:?}");
    let line = "test every_test::leaks_what_an_allocator_reports ... FAILED: gpu leak: 1 allocation, 64 B on hooked:0";
    assert!(reported.stdout.contains(line), "{reported:?}");
    let line = "test every_test::gives_back_what_an_allocator_reports ... ok\n";
    assert!(reported.stdout.contains(line), "{reported:?}");
    let line = "test every_test::hands_over_what_an_allocator_reports ... ok\n";
    assert!(reported.stdout.contains(line), "{reported:?}");
    assert!(
        reported.stdout.contains("2 passed; 1 failed"),
        "{reported:?}"
    );
}

#[test]
fn a_test_without_its_environment_is_watched() {
    let reported = runner(&["cleared_its_environment", "--ignored"]);
    assert_eq!(reported.code, Some(101), "{reported:?}");
    let leak = "FAILED: gpu leak: 1 allocation, 64 B on hooked:0";
    assert!(reported.stdout.contains(leak), "{reported:?}");
}

#[test]
fn allowed_memory_and_memory_in_a_static_fail_nothing() {
    let reported = runner(&["every_test::keeps_", "--ignored"]);
    assert_eq!(reported.code, Some(0), "{reported:?}");
    for test in [
        "keeps_what_the_code_allows",
        "keeps_what_the_code_allows_in_a_block",
        "keeps_what_its_block_allows",
    ] {
        let line = format!("test every_test::{test} ... ok, allowed\n");
        assert!(reported.stdout.contains(&line), "{reported:?}");
    }
    let line = "test every_test::keeps_a_static ... ok, first-use\n";
    assert!(reported.stdout.contains(line), "{reported:?}");
    assert!(
        !reported.stdout.contains("second run did not"),
        "{reported:?}"
    );
}

#[test]
fn a_leak_after_allowed_memory_is_found() {
    let reported = runner(&["every_test::leaks_after_what_the_code_allows", "--ignored"]);
    assert_eq!(reported.code, Some(101), "{reported:?}");
    let leak = "FAILED: gpu leak: 1 allocation, 32 B on hooked:0";
    assert!(reported.stdout.contains(leak), "{reported:?}");
}

#[test]
fn memory_that_only_its_allocator_s_table_leads_to_is_a_leak() {
    let reported = runner(&["every_test::forgets_what_the_table", "--ignored"]);
    assert_eq!(reported.code, Some(101), "{reported:?}");
    assert!(
        reported.stdout.contains("1 allocation, 64 B on hooked:0"),
        "{reported:?}"
    );
}

#[test]
fn the_static_of_an_arena_does_not_hold_forgotten_memory() {
    let reported = runner(&["first_block_of_an_arena", "--ignored"]);
    assert_eq!(reported.code, Some(101), "{reported:?}");
    let forgotten = "test every_test::forgets_the_first_block_of_an_arena ... FAILED: gpu leak: 1 allocation, 64 B";
    assert!(reported.stdout.contains(forgotten), "{reported:?}");
    let kept = "test every_test::keeps_the_first_block_of_an_arena_in_a_static ... ok, first-use\n";
    assert!(reported.stdout.contains(kept), "{reported:?}");
    let mut holders = reported
        .stdout
        .lines()
        .filter(|line| line.contains("held by"));
    assert!(
        holders.all(|it| it.contains("held by    unknown: ")),
        "{reported:?}"
    );
}

#[test]
fn a_test_that_allocates_nothing_passes_where_a_gpu_is_required() {
    let reported = runner_with(&["every_test::allocates_nothing", "--ignored"], |runner| {
        runner.env("GPU_LEAK_CHECK", "require");
    });
    assert_eq!(reported.code, Some(0), "{reported:?}");
    assert!(
        reported.stdout.contains("allocates_nothing ... ok\n"),
        "{reported:?}"
    );
}

/// The program does not link the harness, so nothing receives the reports of its allocators.
#[test]
fn a_program_whose_allocators_report_to_nobody_is_not_measured() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("deaf.rs");
    let program = directory.path().join("deaf-0123456789abcdef");
    let text = "#[used]\n\
        #[unsafe(link_section = \".note.gpu-leak-hooks\")]\n\
        static NOTE: [u32; 5] = [8, 0, 1, 0, 0];\n\
        #[test]\n\
        fn passes() {}\n";
    fs::write(&source, text).expect("a source");
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compiler = Command::new(compiler);
    compiler
        .args(["--test", "--edition=2024", "-o"])
        .arg(&program)
        .arg(&source);
    assert!(compiler.status().expect("a compiler").success());
    let run = |mode: &str| {
        runner_of(&program, &[], |runner| {
            runner.env("GPU_LEAK_CHECK", mode);
        })
    };
    let lax = run("auto");
    assert_eq!(lax.code, Some(0), "{lax:?}");
    assert!(lax.stderr.contains("deaf is not measured"), "{lax:?}");
    assert!(lax.stderr.contains("`use gpu_leak_check as _;`"), "{lax:?}");
    assert_eq!(run("require").code, Some(101));
}

/// The command is installed once, whereas the programs that it watches are built after every
/// change.
#[test]
fn sources_newer_than_the_command_are_not_called_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    let old = directory.path().join("cargo-gpu-leak");
    fs::copy(env!("CARGO_BIN_EXE_cargo-gpu-leak"), &old).expect("a copy");
    let file = File::options().append(true).open(&old).expect("the copy");
    file.set_modified(SystemTime::UNIX_EPOCH).expect("its time");
    drop(file);
    let reported = runner_at(&old, &["every_test::leaks_unchecked", "--ignored"]);
    assert_eq!(reported.code, Some(101), "{reported:?}");
    assert!(reported.stdout.contains("allocated here"), "{reported:?}");
    assert!(!reported.stdout.contains("changed after"), "{reported:?}");
}

#[test]
fn a_process_that_a_test_leaves_is_not_waited_for() {
    let start = Instant::now();
    let reported = runner(&["every_test::leaves_a_process", "--ignored"]);
    assert!(start.elapsed() < Duration::from_secs(20), "{reported:?}");
    assert_eq!(reported.code, Some(101), "{reported:?}");
    assert!(reported.stdout.contains("its last words"), "{reported:?}");
}

#[test]
fn a_test_that_frees_passes_and_a_failing_one_keeps_its_message() {
    let reported = runner(&[
        "every_test::frees_unchecked",
        "every_test::fails_by_itself",
        "--ignored",
    ]);
    assert_eq!(reported.code, Some(101), "{reported:?}");
    assert!(
        reported
            .stdout
            .contains("test every_test::frees_unchecked ... ok\n"),
        "{reported:?}"
    );
    assert!(
        reported
            .stdout
            .contains("test every_test::fails_by_itself ... FAILED\n"),
        "{reported:?}"
    );
    assert!(reported.stdout.contains("its own words"), "{reported:?}");
    assert!(
        reported.stdout.contains("1 passed; 1 failed; 0 ignored"),
        "{reported:?}"
    );
}

#[expect(clippy::print_stdout, reason = "prints what libtest captures")]
#[ignore = "planted"]
#[test]
fn prints_a_line() {
    println!("words of a test that passes");
}

#[test]
fn the_user_s_output_options_reach_each_test() {
    let words = "words of a test that passes";
    let run = |more: &[&str]| {
        let reported = runner(&[&["every_test::prints_a_line", "--ignored"], more].concat());
        assert_eq!(reported.code, Some(0), "{reported:?}");
        assert!(
            reported.stdout.contains("1 passed; 0 failed"),
            "{reported:?}"
        );
        reported.stdout
    };
    assert!(!run(&[]).contains(words));
    assert!(run(&["--nocapture"]).contains(words));
    assert!(run(&["--show-output"]).contains(words));
    // The runner requests the list of tests in a format of its own, which a `--format` argument
    // must not override.
    assert!(!run(&["--format", "pretty"]).contains(words));
}

#[test]
fn ignored_tests_stay_ignored() {
    let reported = runner(&["every_test::leaks_unchecked"]);
    assert_eq!(reported.code, Some(0), "{reported:?}");
    assert!(
        reported
            .stdout
            .contains("test every_test::leaks_unchecked ... ignored"),
        "{reported:?}"
    );
    assert!(
        reported.stdout.contains("0 passed; 0 failed; 1 ignored"),
        "{reported:?}"
    );
}

#[gpu_leak_check(on_leak = "warn")]
#[ignore = "planted"]
#[test]
fn leaks_and_only_warns() {
    take(512, false);
}

#[test]
fn a_leak_that_the_attribute_only_warns_of_fails_nothing() {
    let reported = runner(&["every_test::leaks_and_only_warns", "--ignored"]);
    assert_eq!(reported.code, Some(0), "{reported:?}");
}

#[test]
fn a_test_with_the_attribute_checks_itself() {
    let reported = runner(&["every_test::leaks_under_the_attribute", "--ignored"]);
    assert_eq!(reported.code, Some(101), "{reported:?}");
    // The check that the attribute makes reports a confirmed leak.
    assert!(
        reported
            .stdout
            .contains("gpu leak: 1 allocation, 512 B on cuda:0"),
        "{reported:?}"
    );
    assert_eq!(
        reported.stdout.matches("confirmed").count(),
        1,
        "{reported:?}"
    );
    assert!(!reported.stdout.contains("already watches"), "{reported:?}");
}

#[test]
fn a_program_that_lists_no_tests_runs_as_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = directory.path().join("main");
    for list in [
        "echo \"training $*\"",
        "",
        "if [ \"$1\" = --list ]; then echo 'fft: benchmark'; exit; fi",
    ] {
        let text =
            format!("#!/bin/sh\n{list}\nif [ $# != 0 ]; then exit; fi\necho trained\nexit 4\n");
        fs::write(&script, text).expect("a script");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&script, mode).expect("executable");
        let reported = call(
            Command::new(env!("CARGO_BIN_EXE_cargo-gpu-leak"))
                .arg("every-test-runner")
                .arg(&script),
        );
        assert_eq!(reported.code, Some(4), "{reported:?}");
        assert!(reported.stdout.ends_with("trained\n"), "{reported:?}");
        assert!(reported.stderr.contains("is not watched"), "{reported:?}");
    }
}

#[test]
fn tests_are_listed_on_request_without_a_note() {
    let listed = runner(&["every_test::allocates_nothing", "--list"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let list = "every_test::allocates_nothing: test\n";
    assert!(listed.stdout.contains(list), "{listed:?}");
    assert_eq!(listed.stderr, "");
}

/// rustdoc compiles the documentation tests of an edition-2024 crate into one program, which starts
/// a process for each of them.
#[test]
fn documentation_tests_stay_in_processes_of_their_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("documented.rs");
    let text =
        "//! ```\n//! std::process::exit(0);\n//! ```\n//!\n//! ```\n//! panic!();\n//! ```\n";
    fs::write(&source, text).expect("a source");
    let documentation = env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into());
    let tested = call(
        clean(Command::new(documentation))
            .args(["--test", "--edition=2024"])
            .args(["--test-runtool", env!("CARGO_BIN_EXE_cargo-gpu-leak")])
            .args(["--test-runtool-arg", "every-test-runner"])
            .arg(&source),
    );
    assert_eq!(tested.code, Some(101), "{tested:?}");
    assert!(tested.stdout.contains("1 passed; 1 failed"), "{tested:?}");
}
