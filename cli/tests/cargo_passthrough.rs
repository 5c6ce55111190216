//! Tests of `cargo gpu-leak test`, `nextest`, `run` and `bench`. A script takes the place of cargo.
//! It records its arguments and runs one of the planted tests.
#![cfg(unix)]

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use gpu_leak_check::report::check_report::{CheckStatus, Outcome, Report};
use gpu_leak_check::report::run_file::{Header, Record, SCHEMA};

use crate::support::{CliOutput, call, cargo_that_runs, command};

/// Returns the command with a cargo that runs the planted `test` and exits with `code`.
fn with_cargo(directory: &Path, test: &str, code: u8) -> Command {
    with_cargo_that(directory, test, &format!("exit {code}"))
}

/// Returns the command with a cargo that runs the planted `test` and then these lines of a shell
/// script.
fn with_cargo_that(directory: &Path, test: &str, then: &str) -> Command {
    let this = env::current_exe().expect("this program");
    let lines = format!(
        "printf '%s\\n' \"$@\" > '{}'\n\
         if [ -n '{test}' ]; then '{}' --exact --ignored 'planted::{test}' >/dev/null 2>&1; fi\n\
         {then}",
        directory.join("given").display(),
        this.display(),
    );
    let mut command = command();
    command
        .env("CARGO", cargo_that_runs(directory, &lines))
        .env("GPU_LEAK_CHECK_OUTPUT", directory.join("runs"));
    command
}

#[test]
fn cargo_gets_its_arguments_unchanged_and_determines_the_exit_code() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = with_cargo(directory.path(), "keeps_a_tensor", 101);
    let words = ["test", "--deny=expired", "-p", "optim", "--", "--nocapture"];
    let CliOutput { code, stderr, .. } = call(command.args(words));
    assert_eq!(code, Some(101), "{stderr}");
    let given = fs::read_to_string(directory.path().join("given")).expect("arguments");
    assert_eq!(given, "test\n-p\noptim\n--\n--nocapture\n");
    assert!(stderr.contains("1 checked: 1 leaked"), "{stderr}");
}

#[test]
fn each_call_summarises_only_its_own_run() {
    let directory = tempfile::tempdir().expect("a directory");
    call(with_cargo(directory.path(), "keeps_a_tensor", 101).arg("test"));
    let second = call(with_cargo(directory.path(), "gives_back", 0).arg("nextest"));
    assert_eq!(second.code, Some(0), "{second:?}");
    assert!(second.stderr.contains("1 checked: 1 clean"), "{second:?}");
}

#[test]
fn outputs_are_written_in_addition_to_the_text() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("leaks.xml");
    let output = format!("junit={}", out.display());
    let reported = call(
        with_cargo(directory.path(), "keeps_a_tensor", 101).args(["run", "--report", &output]),
    );
    assert!(reported.stderr.contains("1 leaked"), "{reported:?}");
    let junit = fs::read_to_string(out).expect("a file");
    assert!(junit.contains("type=\"leaked\""), "{junit}");
}

#[test]
fn an_output_that_cannot_be_written_affects_neither_the_others_nor_cargos_exit_code() {
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

/// A run that checks nothing must not look like a run without leaks.
#[test]
fn a_successful_cargo_run_without_any_check_is_not_a_success() {
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
        for words in [&["test"][..], &["test", "--strict"]] {
            let asked = reported_of("", words, variable);
            assert_eq!(asked.code, Some(0), "{asked:?}");
            assert!(!asked.stderr.contains("denied"), "{asked:?}");
        }
    }
    if fs::exists("/dev/nvidiactl").is_ok_and(|there| there) {
        return;
    }
    let unmeasured = reported_of("sees_nothing", &["test"], plain);
    assert_eq!(unmeasured.code, Some(3), "{unmeasured:?}");
    let why = "error: nothing was checked";
    assert!(unmeasured.stderr.contains(why), "{unmeasured:?}");
}

/// cargo does not notice the failure of a check in a child process of a test.
#[test]
fn a_failed_check_without_a_result_is_not_a_success_even_if_nothing_may_be_checked() {
    let directory = tempfile::tempdir().expect("a directory");
    let header = Header {
        schema: SCHEMA,
        ..Header::default()
    };
    for (outcome, expected) in [(Outcome::Pass, 0), (Outcome::Fail, 3)] {
        let report = Report {
            test: "child".to_owned(),
            status: CheckStatus::NotMeasured,
            outcome: Some(outcome),
            ..Report::default()
        };
        let records = [
            serde_json::to_string(&Record::Header(Box::new(header.clone()))),
            serde_json::to_string(&Record::Verdict(&report)),
        ];
        let lines = records.map(|line| line.expect("JSON") + "\n").concat();
        let file = directory.path().join("child.jsonl");
        fs::write(&file, lines).expect("a file");
        let run = "\"$GPU_LEAK_CHECK_OUTPUT/$GPU_LEAK_CHECK_RUN\"";
        let then = format!("mkdir -p {run} && cp '{}' {run}; exit 0", file.display());
        let mut command = with_cargo_that(directory.path(), "", &then);
        command.env("GPU_LEAK_CHECK_WITHOUT_GPU", "skip");
        let ended = call(command.arg("test"));
        assert_eq!(ended.code, Some(expected), "{ended:?}");
    }
}

#[test]
fn a_report_about_no_check_is_not_green() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("leaks.xml");
    let output = format!("--report=junit={}", out.display());
    for (mode, errors) in [("auto", 1), ("off", 0)] {
        let mut command = with_cargo(directory.path(), "", 0);
        call(command.args(["test", &output]).env("GPU_LEAK_CHECK", mode));
        let junit = fs::read_to_string(&out).expect("a file");
        assert_eq!(junit.matches("<error ").count(), errors, "{junit}");
    }
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
        assert!(ended.stderr.contains(problem), "{ended:?}");
    }
}

/// The failure is recorded in the run's marker. The marker's name is short, so it exists even in a
/// directory whose path is too long for the run file of a program with a long name.
#[test]
fn a_process_that_could_not_create_its_file_is_not_forgotten() {
    let directory = tempfile::tempdir().expect("a directory");
    let this = env::current_exe().expect("this program");
    let long = directory.path().join("n".repeat(100));
    fs::copy(this, &long).expect("a copy");
    let mut runs = directory.path().to_owned();
    while let missing @ 1.. = 4000_usize.saturating_sub(runs.as_os_str().len()) {
        runs.push("d".repeat(missing.min(200)));
    }
    let then = format!(
        "'{}' --exact --ignored planted::keeps_a_tensor",
        long.display()
    );
    let then = format!("{then} >/dev/null 2>&1\nexit 0");
    let mut command = with_cargo_that(directory.path(), "gives_back", &then);
    let ended = call(command.arg("test").env("GPU_LEAK_CHECK_OUTPUT", runs));
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.stderr.contains("1 checked: 1 clean"), "{ended:?}");
    let problem = "a process could not create its file in";
    assert!(ended.stderr.contains(problem), "{ended:?}");
}

/// No process with a check is running when the other runs begin.
#[test]
fn other_runs_do_not_remove_a_run_whose_command_is_running() {
    let directory = tempfile::tempdir().expect("a directory");
    let this = env::current_exe().expect("this program");
    let then = format!(
        "for run in $(seq 12); do\n\
         GPU_LEAK_CHECK_RUN=$run '{}' --exact --ignored planted::gives_back >/dev/null 2>&1\n\
         done\n\
         exit 0",
        this.display()
    );
    let ended = call(with_cargo_that(directory.path(), "keeps_a_tensor", &then).arg("test"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("1 checked: 1 leaked"), "{ended:?}");
    let runs = fs::read_dir(directory.path().join("runs")).expect("a directory");
    assert_eq!(runs.count(), 11, "the newest ten, and the one in progress");
}

#[test]
fn a_results_directory_that_cannot_be_created_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    // Not even root can create a directory in a file.
    let taken = directory.path().join("taken");
    fs::write(&taken, "").expect("a file");
    let run = |without_gpu: &str| {
        let mut command = with_cargo(directory.path(), "gives_back", 0);
        command.env("GPU_LEAK_CHECK_OUTPUT", &taken);
        call(
            command
                .arg("test")
                .env("GPU_LEAK_CHECK_WITHOUT_GPU", without_gpu),
        )
    };
    for without_gpu in ["run", "skip"] {
        let ended = run(without_gpu);
        assert_eq!(ended.code, Some(3), "{ended:?}");
        assert!(!ended.stderr.contains("Add the attribute"), "{ended:?}");
        let problem = format!("no process could write its file to {}", taken.display());
        assert!(ended.stderr.contains(&problem), "{ended:?}");
        assert!(ended.stderr.contains("GPU_LEAK_CHECK_OUTPUT"), "{ended:?}");
    }
}

#[test]
fn a_test_that_ends_its_process_fails_even_if_cargo_succeeds() {
    let directory = tempfile::tempdir().expect("a directory");
    let reported = call(with_cargo(directory.path(), "ends_the_process", 0).arg("test"));
    assert_eq!(reported.code, Some(1), "{reported:?}");
    assert!(reported.stderr.contains("1 aborted"), "{reported:?}");
}

#[test]
fn cargo_gets_the_signal_that_ends_the_command_and_its_run_is_summarised() {
    let directory = tempfile::tempdir().expect("a directory");
    let then = format!(
        "trap 'exit 143' TERM\n\
         : > '{}'\n\
         for step in $(seq 600); do sleep 0.05; done\n\
         exit 1",
        directory.path().join("waits").display()
    );
    let mut command = with_cargo_that(directory.path(), "keeps_a_tensor", &then);
    command.arg("run").stderr(Stdio::piped());
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
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("1 checked: 1 leaked"), "{stderr}");
}

#[test]
fn a_leak_that_cargo_does_not_notice_fails_the_command() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = |test| call(with_cargo(directory.path(), test, 0).arg("test"));
    let leaked = run("keeps_a_tensor");
    assert_eq!(leaked.code, Some(1), "{leaked:?}");
    // A failure that the test caught is not a failure of the test.
    let caught = run("catches_a_block_that_fails");
    assert_eq!(caught.code, Some(0), "{caught:?}");
    assert!(caught.stderr.contains("1 clean, 1 leaked"), "{caught:?}");
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
        unchecked.stderr.contains("nothing checked; 1 unchecked"),
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

/// The tests may need their runner, for example to get privileges.
#[test]
fn a_runner_of_the_users_own_that_is_not_used_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let configuration = directory.path().join(".cargo/config.toml");
    fs::create_dir(directory.path().join(".cargo")).expect("a directory");
    let manifest = directory.path().join("Cargo.toml");
    fs::write(
        manifest,
        "[package]\nname = \"gpu\"\n[lib]\npath = \"lib.rs\"\n",
    )
    .expect("a file");
    let with = |target: &str, runner: &str, variable: Option<&str>| {
        let text = format!("[target.{target}]\nrunner = {runner}\n");
        fs::write(&configuration, text).expect("a file");
        let mut command = with_cargo(directory.path(), "", 0);
        command.envs(variable.map(|name| (name, "sudo -E")));
        call(
            command
                .args(["test", "--every-test"])
                .current_dir(directory.path()),
        )
    };
    let shown = configuration.display();
    let target = env!("GPU_LEAK_TARGET");
    let variable = target.to_uppercase().replace('-', "_");
    let variable = format!("CARGO_TARGET_{variable}_RUNNER");
    let array = "[\"sudo\", \"-E\"]";
    for (target, name, place) in [
        (target, None, shown.to_string()),
        ("'cfg(unix)'", None, shown.to_string()),
        (target, Some(&*variable), variable.clone()),
    ] {
        let ended = with(target, array, name);
        let note = format!("note: the runner in {place} is not used");
        assert!(ended.stderr.contains(&note), "{ended:?}");
    }
    let refused = with(target, "\"sudo -E\"", None);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let why = format!("cargo cannot replace the runner in {shown}");
    assert!(refused.stderr.contains(&why), "{refused:?}");
    let unrelated = with("'other-target'", array, None);
    assert!(!unrelated.stderr.contains("the runner in"), "{unrelated:?}");
}

/// Otherwise, tests without the attribute would pass without being checked.
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

/// Runs are often named after branches. One run must not replace the other.
#[test]
fn runs_of_similar_names_are_different_runs() {
    let directory = tempfile::tempdir().expect("a directory");
    let runs = directory.path().join("runs");
    let long = "n".repeat(300);
    for (one, other) in [
        ("fix/pool", "fix_pool"),
        ("\u{6771}\u{4eac}", "\u{5927}\u{962a}"),
        (&*long, &*format!("{long}n")),
    ] {
        for (name, test) in [(one, "gives_back"), (other, "keeps_a_tensor")] {
            let mut command = with_cargo(directory.path(), test, 0);
            call(command.args(["test", "--name", name]));
        }
        let diff = |old: &str, new: &str| {
            let mut diff = command();
            call(
                diff.args(["diff", old, new])
                    .env("GPU_LEAK_CHECK_OUTPUT", &runs),
            )
        };
        let new = diff(one, other);
        assert_eq!(new.code, Some(1), "{new:?}");
        assert!(new.stdout.contains("new: 1"), "{new:?}");
        let same = diff(one, one);
        assert_eq!(same.code, Some(2), "{same:?}");
        assert!(same.stderr.contains("are the same run"), "{same:?}");
        let mut report = command();
        report.args(["report", "--deny=new", "--against", other, other]);
        let same = call(report.env("GPU_LEAK_CHECK_OUTPUT", &runs));
        assert_eq!(same.code, Some(2), "{same:?}");
    }
}

/// Otherwise, the whole suite would run first, and its exit code would be lost.
#[test]
fn an_older_run_that_does_not_exist_is_refused_before_cargo_starts() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = |words: &[&str]| {
        let mut command = with_cargo(directory.path(), "keeps_a_tensor", 101);
        call(command.args(["test", "--name", "nightly"]).args(words))
    };
    let has_started = || directory.path().join("given").exists();
    for words in [&["--deny=new"][..], &["--deny=new", "--against", "nosuch"]] {
        let refused = run(words);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(!has_started(), "{refused:?}");
    }
    let compiled = run(&["--deny=new", "--no-run"]);
    assert_eq!(compiled.code, Some(101), "{compiled:?}");
    // The older run may have the name of the new one, which replaces it.
    let known = run(&["--deny=new"]);
    assert_eq!(known.code, Some(101), "{known:?}");
    assert!(!known.stderr.contains("denied: new"), "{known:?}");
    let mut command = with_cargo(directory.path(), "keeps_two_tensors", 0);
    let words = ["test", "--name=nightly", "--deny=new", "--against=nightly"];
    let new = call(command.args(words));
    assert!(new.stderr.contains("denied: new: leaked"), "{new:?}");
}

#[test]
fn a_named_run_stays_until_a_new_one_of_its_name_has_begun() {
    let directory = tempfile::tempdir().expect("a directory");
    let runs = directory.path().join("runs");
    let run = |test: &str, words: &[&str]| {
        let mut command = with_cargo(directory.path(), test, 101);
        call(command.args(["test", "--name", "main"]).args(words))
    };
    let files = || fs::read_dir(runs.join("main")).map_or(0, Iterator::count);
    run("keeps_a_tensor", &[]);
    let marked = files();
    assert_eq!(marked, 2, "a marker and a run file");
    // This cargo runs no test, so there is no new run.
    run("", &[]);
    assert_eq!(files(), marked);
    let mut report = command();
    report.args(["report", "main"]);
    let report = call(report.env("GPU_LEAK_CHECK_OUTPUT", &runs));
    assert!(report.stdout.contains("1 leaked"), "{report:?}");
    // The user's own file is neither removed nor mixed with the run.
    let own = runs.join("main/notes.txt");
    fs::write(&own, "mine").expect("a file");
    let refused = run("gives_back", &[]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert_eq!(files(), marked + 1);
    fs::remove_file(own).expect("a file");
    run("gives_back", &[]);
    assert_eq!(files(), marked);
    let runs = fs::read_dir(&runs).expect("a directory").count();
    assert_eq!(runs, 1, "the earlier run is removed");
}

#[test]
fn a_call_that_only_compiles_or_lists_tests_is_not_an_error() {
    let directory = tempfile::tempdir().expect("a directory");
    for words in [
        &["test", "--no-run", "--strict"][..],
        &["test", "--", "--list"],
        &["nextest", "list"],
    ] {
        let ended = call(with_cargo(directory.path(), "", 0).args(words));
        assert_eq!(ended.code, Some(0), "{words:?}: {ended:?}");
        assert!(!ended.stderr.contains("no check ran"), "{ended:?}");
    }
}

#[test]
fn the_manifest_that_cargo_gets_names_the_workspace() {
    let directory = tempfile::tempdir().expect("a directory");
    let package = directory.path().join("gpu");
    fs::create_dir_all(package.join("src")).expect("a directory");
    let manifest = package.join("Cargo.toml");
    fs::write(&manifest, "[package]\nname = \"gpu\"\nedition = \"2024\"\n").expect("a file");
    fs::write(package.join("src/lib.rs"), "").expect("a file");
    fs::write(
        package.join("gpu-leak-check.toml"),
        "[run]\nstrict = maybe\n",
    )
    .expect("a file");
    let absolute = manifest.to_str().expect("text");
    for (here, manifest) in [
        (directory.path(), absolute),
        (&package, "Cargo.toml"),
        (&package.join("src"), "../Cargo.toml"),
    ] {
        let mut command = with_cargo(directory.path(), "gives_back", 0);
        let ended = call(
            command
                .args(["test", "--manifest-path", manifest])
                .current_dir(here)
                .env_remove("GPU_LEAK_CHECK_OUTPUT"),
        );
        assert!(ended.stderr.contains("gpu-leak-check.toml:2"), "{ended:?}");
        assert!(
            !ended.stderr.contains("cannot load the cargo workspace"),
            "{ended:?}"
        );
    }
}

#[test]
fn an_unknown_run_is_reported_with_the_existing_runs() {
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
