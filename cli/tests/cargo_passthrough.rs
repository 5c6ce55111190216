//! Tests of `cargo gpu-leak test`, `nextest`, `run` and `bench`. A script takes the place of cargo.
//! It records its arguments and runs one of the planted tests.
#![cfg(unix)]

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::{CliOutput, call, command};

/// Returns the command with a cargo that runs the planted `test` and exits with `code`.
fn with_cargo(directory: &Path, test: &str, code: u8) -> Command {
    with_cargo_that(directory, test, &format!("exit {code}"))
}

/// Returns the command with a cargo that runs the planted `test` and then these lines of a shell
/// script.
fn with_cargo_that(directory: &Path, test: &str, then: &str) -> Command {
    let script = directory.join("cargo");
    let real = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let this = env::current_exe().expect("this program");
    let text = format!(
        "#!/bin/sh\n\
         if [ \"$1\" = metadata ]; then exec '{real}' \"$@\"; fi\n\
         printf '%s\\n' \"$@\" > '{}'\n\
         if [ -n '{test}' ]; then '{}' --exact --ignored 'planted::{test}' >/dev/null 2>&1; fi\n\
         {then}\n",
        directory.join("given").display(),
        this.display(),
    );
    fs::write(&script, text).expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("executable");
    let mut command = command();
    command
        .env("CARGO", script)
        .env("GPU_LEAK_CHECK_OUTPUT", directory.join("runs"));
    command
}

#[test]
fn cargo_gets_its_arguments_untouched_and_gives_its_exit_code() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = with_cargo(directory.path(), "keeps_a_tensor", 101);
    let words = ["test", "--deny=expired", "-p", "optim", "--", "--nocapture"];
    let CliOutput { code, stdout, .. } = call(command.args(words));
    assert_eq!(code, Some(101), "{stdout}");
    let given = fs::read_to_string(directory.path().join("given")).expect("arguments");
    assert_eq!(given, "test\n-p\noptim\n--\n--nocapture\n");
    assert!(stdout.contains("1 checked: 1 leaked"), "{stdout}");
}

#[test]
fn each_call_sums_up_its_own_run_only() {
    let directory = tempfile::tempdir().expect("a directory");
    call(with_cargo(directory.path(), "keeps_a_tensor", 101).arg("test"));
    let second = call(with_cargo(directory.path(), "gives_back", 0).arg("nextest"));
    assert_eq!(second.code, Some(0), "{second:?}");
    assert!(second.stdout.contains("1 checked: 1 clean"), "{second:?}");
}

#[test]
fn outputs_are_written_beside_the_text() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("leaks.xml");
    let output = format!("junit={}", out.display());
    let reported = call(
        with_cargo(directory.path(), "keeps_a_tensor", 101).args(["run", "--report", &output]),
    );
    assert!(reported.stdout.contains("1 leaked"), "{reported:?}");
    let junit = fs::read_to_string(out).expect("a file");
    assert!(junit.contains("type=\"leaked\""), "{junit}");
}

#[test]
fn an_output_that_cannot_be_written_costs_neither_the_others_nor_cargos_exit_code() {
    let directory = tempfile::tempdir().expect("a directory");
    let nowhere = directory.path().join("no/such/leaks.xml");
    let second = directory.path().join("leaks.md");
    for (cargos, expected) in [(101, 101), (0, 2)] {
        let mut command = with_cargo(directory.path(), "keeps_a_tensor", cargos);
        command.args(["test", "--report"]);
        command
            .arg(format!("junit={}", nowhere.display()))
            .arg("--report");
        let ended = call(command.arg(format!("markdown={}", second.display())));
        assert_eq!(ended.code, Some(expected), "{ended:?}");
        let error = format!("error: cannot write {}", nowhere.display());
        assert!(ended.stderr.contains(&error), "{ended:?}");
        fs::remove_file(&second).expect("the second report");
    }
}

/// A run that checks nothing must not look like one without leaks.
#[test]
fn a_success_of_cargo_without_any_check_is_no_success() {
    let directory = tempfile::tempdir().expect("a directory");
    let reported_of = |test: &str, words: &[&str], variable: (&str, &str)| {
        let mut command = with_cargo(directory.path(), test, 0);
        call(command.args(words).env(variable.0, variable.1))
    };
    let plain = ("GPU_LEAK_CHECK", "auto");
    let silent = reported_of("", &["bench"], plain);
    assert_eq!(silent.code, Some(3), "{silent:?}");
    assert!(silent.stderr.contains("no check ran"), "{silent:?}");
    assert!(silent.stderr.contains("gpu-leak exec"), "{silent:?}");
    for words in [
        &["bench", "--deny=unmeasured"][..],
        &["bench", "--strict"],
        &["test"],
        &["nextest", "run"],
    ] {
        assert_eq!(reported_of("", words, plain).code, Some(3), "{words:?}");
    }
    // A user who has passed `--every-test` must not be advised to pass it.
    let every = reported_of("", &["test", "--every-test"], plain);
    assert_eq!(every.code, Some(3), "{every:?}");
    assert!(every.stderr.contains("Check the filters"), "{every:?}");
    assert!(!every.stderr.contains("--every-test"), "{every:?}");
    // The settings request that nothing is checked.
    for variable in [
        ("GPU_LEAK_CHECK", "off"),
        ("GPU_LEAK_CHECK_WITHOUT_GPU", "skip"),
    ] {
        let asked = reported_of("", &["test"], variable);
        assert_eq!(asked.code, Some(0), "{asked:?}");
    }
    if fs::exists("/dev/nvidiactl").is_ok_and(|there| there) {
        return;
    }
    let unmeasured = reported_of("sees_nothing", &["test"], plain);
    assert_eq!(unmeasured.code, Some(3), "{unmeasured:?}");
    let why = "error: nothing was checked";
    assert!(unmeasured.stderr.contains(why), "{unmeasured:?}");
}

#[test]
fn cargos_exit_code_is_kept_if_nothing_was_checked() {
    let directory = tempfile::tempdir().expect("a directory");
    let reported = call(with_cargo(directory.path(), "", 101).arg("test"));
    assert_eq!(reported.code, Some(101), "{reported:?}");
}

#[test]
fn cargos_exit_code_is_kept_if_no_process_could_write_its_file() {
    let directory = tempfile::tempdir().expect("a directory");
    for (cargos, expected) in [(7, 7), (0, 3)] {
        let then =
            format!("mkdir -p \"$GPU_LEAK_CHECK_OUTPUT/$GPU_LEAK_CHECK_RUN\"; exit {cargos}");
        let ended = call(with_cargo_that(directory.path(), "", &then).arg("test"));
        assert_eq!(ended.code, Some(expected), "{ended:?}");
        let problem = "no process could write its file to ";
        assert!(ended.stdout.contains(problem), "{ended:?}");
    }
}

#[test]
fn a_test_that_ends_its_process_fails_even_if_cargo_succeeds() {
    let directory = tempfile::tempdir().expect("a directory");
    let reported = call(with_cargo(directory.path(), "ends_the_process", 0).arg("test"));
    assert_eq!(reported.code, Some(1), "{reported:?}");
    assert!(reported.stdout.contains("1 aborted"), "{reported:?}");
}

#[test]
fn cargo_gets_the_signal_that_ends_the_command_and_its_run_is_summed_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let then = format!(
        "trap 'exit 143' TERM\n\
         : > '{}'\n\
         for step in $(seq 600); do sleep 0.05; done\n\
         exit 1",
        directory.path().join("waits").display()
    );
    let mut command = with_cargo_that(directory.path(), "keeps_a_tensor", &then);
    command.arg("run").stdout(Stdio::piped());
    let mut command = command.spawn().expect("the command runs");
    while !directory.path().join("waits").exists() {
        let ended = command.try_wait().expect("a child");
        assert!(ended.is_none(), "{ended:?}");
        thread::sleep(Duration::from_millis(10));
    }
    let pid = command.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(sent.expect("`kill` runs").success());
    let output = command.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("1 checked: 1 leaked"), "{stdout}");
}

#[test]
fn a_leak_fails_the_command_although_cargo_knows_nothing_of_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = |test| call(with_cargo(directory.path(), test, 0).arg("test"));
    let leaked = run("keeps_a_tensor");
    assert_eq!(leaked.code, Some(1), "{leaked:?}");
    // A failure that the test caught is not one of the test.
    let caught = run("catches_a_block_that_fails");
    assert_eq!(caught.code, Some(0), "{caught:?}");
    assert!(caught.stdout.contains("1 clean, 1 leaked"), "{caught:?}");
}

#[test]
fn the_file_can_make_every_run_strict() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("gpu-leak-check.toml");
    fs::write(&config, "[run]\nstrict = true\n").expect("a file");
    let run = |test: &str| {
        let mut command = with_cargo(directory.path(), test, 0);
        call(command.arg("test").env("GPU_LEAK_CHECK_CONFIG", &config))
    };
    assert_eq!(run("gives_back").code, Some(0));
    assert_eq!(run("").code, Some(3), "no check ran");
    let unchecked = run("allocates_beside_a_check");
    assert_eq!(unchecked.code, Some(1), "{unchecked:?}");
    assert!(
        unchecked
            .stderr
            .contains("denied: unchecked: planted::allocates_beside_a_check of "),
        "{unchecked:?}"
    );
    assert!(
        unchecked.stdout.contains("nothing checked; 1 unchecked"),
        "{unchecked:?}"
    );
}

/// `every_test` in the file has the same effect as the option.
#[test]
fn the_file_can_watch_every_test() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("gpu-leak-check.toml");
    fs::write(&config, "[check]\nevery_test = true\n").expect("a file");
    let mut command = with_cargo(directory.path(), "", 0);
    call(command.arg("test").env("GPU_LEAK_CHECK_CONFIG", &config));
    let given = fs::read_to_string(directory.path().join("given")).expect("arguments");
    assert!(given.contains("runner=["), "{given}");
}

/// Otherwise, tests without the attribute would pass unnoticed.
#[test]
fn nextest_refuses_what_it_cannot_watch() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("gpu-leak-check.toml");
    fs::write(&config, "[check]\nevery_test = true\n").expect("a file");
    let mut command = with_cargo(directory.path(), "gives_back", 0);
    command.args(["nextest", "run"]);
    let reported = call(command.env("GPU_LEAK_CHECK_CONFIG", &config));
    assert_eq!(reported.code, Some(2), "{reported:?}");
    let why = "`every_test = true` needs `cargo gpu-leak test`";
    assert!(reported.stderr.contains(why), "{reported:?}");
    assert!(
        !directory.path().join("given").exists(),
        "cargo was started"
    );
}

#[test]
fn a_named_run_is_found_by_its_name_and_begins_anew() {
    let directory = tempfile::tempdir().expect("a directory");
    let runs = directory.path().join("runs");
    let run = |name: &str, test: &str, code| {
        let mut command = with_cargo(directory.path(), test, code);
        call(command.args(["test", "--name", name]))
    };
    run("main", "keeps_two_tensors", 101);
    run("main", "keeps_a_tensor", 101);
    run("branch", "keeps_two_tensors", 101);
    let mut diff = command();
    diff.args(["diff", "main", "branch"]);
    let diff = call(diff.env("GPU_LEAK_CHECK_OUTPUT", &runs));
    assert_eq!(diff.code, Some(1), "{diff:?}");
    assert!(diff.stdout.contains("new: 2"), "{diff:?}");
    assert!(diff.stdout.contains("not measured again: 1"), "{diff:?}");
    // Directories of these names that contain no run do not hide the runs.
    for name in ["main", "branch"] {
        fs::create_dir(directory.path().join(name)).expect("a directory");
    }
    let mut diff = command();
    diff.args(["diff", "main", "branch"]);
    let diff = call(
        diff.current_dir(directory.path())
            .env("GPU_LEAK_CHECK_OUTPUT", &runs),
    );
    assert_eq!(diff.code, Some(1), "{diff:?}");
    let mut named = with_cargo(directory.path(), "gives_back", 0);
    call(named.arg("test").env("GPU_LEAK_CHECK_RUN", "third"));
    assert!(runs.join("third").is_dir());
}

#[test]
fn an_unknown_run_is_named_with_the_runs_that_there_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let runs = directory.path().join("runs");
    let unknown = |words: &[&str]| {
        let mut command = command();
        let reported = call(command.args(words).env("GPU_LEAK_CHECK_OUTPUT", &runs));
        assert_eq!(reported.code, Some(2), "{reported:?}");
        assert!(reported.stderr.contains("--name main"), "{reported:?}");
        let searched = format!("there is no run called main in {}", runs.display());
        assert!(reported.stderr.contains(&searched), "{reported:?}");
        reported.stderr
    };
    let none = unknown(&["diff", "main", "branch"]);
    assert!(none.contains("there is no run there"), "{none}");
    for name in ["a", "b", "c", "d", "e", "f"] {
        call(with_cargo(directory.path(), "gives_back", 0).args(["test", "--name", name]));
    }
    for words in [
        &["diff", "main", "branch"][..],
        &["diff", "a", "main"],
        &["report", "main"],
        &["allow", "--from", "main"],
    ] {
        let there = unknown(words);
        let named = "the runs there are f, e, d, c, b and 1 more";
        assert!(there.contains(named), "{there}");
    }
}

#[test]
fn a_suite_without_the_attribute_gets_a_hint() {
    let directory = tempfile::tempdir().expect("a directory");
    let reported = call(with_cargo(directory.path(), "", 0).arg("test"));
    assert!(
        reported.stderr.contains("#[gpu_leak_check]"),
        "{reported:?}"
    );
    assert!(reported.stderr.contains("--every-test"), "{reported:?}");
}

#[test]
fn an_own_option_may_follow_cargos_arguments() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("leaks.xml");
    let output = format!("--report=junit={}", out.display());
    let words = ["test", "--no-fail-fast", &output];
    let reported = call(with_cargo(directory.path(), "gives_back", 0).args(words));
    assert_eq!(reported.code, Some(0), "{reported:?}");
    assert!(out.is_file());
    let given = fs::read_to_string(directory.path().join("given")).expect("arguments");
    assert_eq!(given, "test\n--no-fail-fast\n");
}

#[test]
fn an_unknown_format_is_refused_with_a_list_of_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let reported =
        call(with_cargo(directory.path(), "", 0).args(["test", "--report", "hmtl=a.html"]));
    assert_eq!(reported.code, Some(2), "{reported:?}");
    assert!(
        reported
            .stderr
            .contains("hmtl is not a format; the formats are text,"),
        "{reported:?}"
    );
}
