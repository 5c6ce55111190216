//! `isolate`: a test runs in its own process, and is reported as if it had run in this one.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_check::{Check, OnLeak, gpu_leak_check};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::{self, Child, Run};
use rstest::rstest;

use super::{give_back, take};

fn of(test: &str) -> Run {
    Run::of(&format!("isolation::isolate::{test}"))
}

fn run(test: &str) -> Checked {
    checked::finish(of(test))
}

static MARK: AtomicBool = AtomicBool::new(false);

#[gpu_leak_check(isolate)]
#[ignore = "run by another test"]
#[test]
#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the parent reads it"
)]
fn looks_for_the_mark() {
    give_back(take(8));
    println!("marked: {}", MARK.load(Ordering::Relaxed));
    eprint!("no end of line");
    print!("no end of line");
}

#[test]
#[ignore = "run in a process of its own"]
fn marks_this_process() {
    MARK.store(true, Ordering::Relaxed);
    looks_for_the_mark();
}

#[test]
fn the_body_runs_elsewhere_and_its_output_is_shown_here() {
    let checked = run("marks_this_process");
    checked.assert_clean();
    assert_eq!(checked.reports.len(), 1, "{}", checked.output());
    let child = &checked.child;
    assert!(
        child.stdout.contains("marked: false\nno end of line"),
        "{child:#?}"
    );
    assert!(child.stderr.contains("no end of line"), "{child:#?}");
    assert_eq!(
        child.stdout.matches("running 1 test").count(),
        1,
        "{child:#?}"
    );
    assert!(!child.stdout.contains("gpu-leak-check"), "{child:#?}");
    let summary = "gpu-leak-check: 1 checked: 1 clean";
    assert_eq!(child.stderr.matches(summary).count(), 1, "{child:#?}");
}

#[test]
fn an_isolated_test_stays_in_its_process_under_nextest() {
    let child = of("marks_this_process").env("NEXTEST", "1").run();
    assert!(child.stdout.contains("marked: true"), "{child:#?}");
}

#[test]
fn an_isolated_test_in_a_child_of_nextest_s_test_gets_a_process() {
    let child = of("marks_this_process")
        .env("NEXTEST", "1")
        .env("NEXTEST_TEST_NAME", "starts_this_program")
        .run();
    assert!(child.stdout.contains("marked: false"), "{child:#?}");
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn is_checked_itself() {
    MARK.store(true, Ordering::Relaxed);
    looks_for_the_mark();
}

#[test]
fn an_isolated_test_inside_another_check_stays_in_its_process() {
    let child = of("is_checked_itself").run();
    assert!(child.stdout.contains("marked: true"), "{child:#?}");
}

#[gpu_leak_check(isolate)]
#[ignore = "leaks on purpose"]
#[test]
fn leaks() {
    take(64);
}

#[test]
fn a_leak_fails_the_test_with_the_report_once() {
    let checked = run("leaks");
    assert!(!checked.child.status.success(), "{}", checked.output());
    assert_eq!(
        checked.report().status,
        CheckStatus::Found(FindingKind::Leaked),
        "{}",
        checked.output()
    );
    let reported = &checked.child.stderr;
    assert_eq!(reported.matches("leaked: 64 B").count(), 1, "{reported}");
    assert!(
        reported.contains("thread 'isolation::isolate::leaks' panicked at"),
        "{reported}"
    );
    assert!(reported.contains("1 checked: 1 leaked"), "{reported}");
}

#[gpu_leak_check(isolate)]
#[ignore = "fails on purpose"]
#[test]
fn returns_an_error() -> Result<(), String> {
    Err("the body's own error".to_owned())
}

#[gpu_leak_check(isolate)]
#[ignore = "fails on purpose"]
#[test]
#[should_panic(expected = "something else")]
fn panics_otherwise() {
    panic!("this");
}

#[test]
fn an_error_and_a_wrong_panic_fail_with_their_own_messages() {
    for (test, words) in [
        ("returns_an_error", "the body's own error"),
        ("panics_otherwise", "panic did not contain expected string"),
    ] {
        let checked = run(test);
        assert!(!checked.child.status.success(), "{}", checked.output());
        assert!(checked.child.stderr.contains(words), "{}", checked.output());
    }
}

#[gpu_leak_check(isolate)]
#[test]
#[should_panic(expected = "as it should")]
fn panics_as_it_should() {
    panic!("as it should");
}

#[gpu_leak_check(isolate)]
#[rstest]
#[case(1)]
#[case::larger(2)]
fn cases(#[case] number: u32) {
    assert!(number > 0);
}

#[gpu_leak_check(isolate)]
#[ignore = "crashes on purpose"]
#[test]
fn aborts() {
    std::process::abort();
}

#[gpu_leak_check(isolate)]
#[ignore = "crashes on purpose"]
#[test]
fn exits() {
    std::process::exit(0);
}

#[gpu_leak_check(isolate)]
#[ignore = "crashes on purpose"]
#[test]
fn is_killed() {
    let pid = std::process::id().to_string();
    let killed = Command::new("kill").args(["-9", &pid]).status();
    unreachable!("{killed:?}");
}

#[test]
fn a_process_that_ends_inside_the_test_fails_it_by_name_and_says_how() {
    for (test, how) in [
        ("aborts", "signal: 6 (SIGABRT)"),
        ("exits", "exit status: 0"),
        ("is_killed", "signal: 9 (SIGKILL)"),
    ] {
        let checked = run(test);
        assert!(!checked.child.status.success(), "{}", checked.output());
        let name = format!("isolation::isolate::{test}");
        assert_eq!(checked.aborted, [&*name], "{}", checked.output());
        let reported = &checked.child.stderr;
        assert!(
            reported.contains(&format!("thread '{name}' panicked at")),
            "{reported}"
        );
        assert!(
            reported.contains(&format!("the process ended inside the test ({how}")),
            "{reported}"
        );
        assert!(reported.contains("1 aborted"), "{reported}");
    }
}

#[test]
fn tests_whose_processes_ended_are_counted_once_each() {
    let both = of("aborts").arg("isolation::isolate::exits");
    let checked = checked::finish(both);
    let reported = &checked.child.stderr;
    assert!(reported.contains("2 checked: 2 aborted"), "{reported}");
    let names = "aborted: isolation::isolate::aborts, isolation::isolate::exits";
    assert!(reported.contains(names), "{reported}");
}

#[gpu_leak_check(isolate)]
#[ignore = "run by another test"]
#[test]
#[expect(unsafe_code, reason = "prints as a library in C does")]
fn prints_from_c() {
    // SAFETY: the text ends with a zero byte.
    unsafe { libc::puts(c"printed by C".as_ptr()) };
}

#[test]
fn what_c_code_prints_is_shown() {
    let child = of("prints_from_c").run();
    assert!(child.stdout.contains("printed by C\n"), "{child:#?}");
}

#[gpu_leak_check(isolate)]
#[ignore = "run by another test"]
#[test]
#[expect(unsafe_code, reason = "the standard library keeps its output open")]
fn closes_its_output() {
    // SAFETY: the descriptor is used only to print.
    unsafe { libc::close(1) };
}

#[test]
fn a_test_may_close_its_output() {
    let child = of("closes_its_output").run();
    assert!(child.status.success(), "{child:#?}");
}

#[gpu_leak_check(isolate)]
#[ignore = "crashes on purpose"]
#[test]
#[expect(unsafe_code, reason = "registers an exit handler")]
fn crashes_at_its_end() {
    extern "C" fn crash() {
        std::process::abort();
    }
    // SAFETY: the handler is a plain function of this program that never returns.
    unsafe { libc::atexit(crash) };
}

#[test]
fn a_process_that_crashes_after_the_test_fails_it() {
    let checked = run("crashes_at_its_end");
    let reported = &checked.child.stderr;
    assert!(!checked.child.status.success(), "{}", checked.output());
    let why = "the test passed, but its own process then ended with signal: 6 (SIGABRT)";
    assert!(reported.contains(why), "{reported}");
}

#[gpu_leak_check(isolate)]
#[ignore = "run by another test"]
#[test]
fn frees_after_a_verdict() {
    let mut left = Vec::new();
    let step = Check::new("step").confirm(false).on_leak(OnLeak::Warn);
    step.run(|| left.push(take(64)));
    left.into_iter().for_each(give_back);
}

#[test]
fn a_late_free_is_in_the_only_summary() {
    let checked = run("frees_after_a_verdict");
    let reported = &checked.child.stderr;
    assert!(checked.child.status.success(), "{}", checked.output());
    assert_eq!(
        reported.matches("gpu-leak-check: ").count(),
        1,
        "{reported}"
    );
    let (_, summary) = reported
        .split_once("gpu-leak-check: 2 checked")
        .expect("a summary");
    let late = "the program freed 1 resource of the leak (64 B)";
    assert!(summary.contains(late), "{reported}");
    assert_eq!(checked.late.len(), 1, "{}", checked.output());
}

#[gpu_leak_check(isolate)]
#[ignore = "run by another test"]
#[test]
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn starts_another_checked_program() {
    let program = std::env::current_exe().expect("this program");
    let mut other = Command::new(program);
    let ran = other.args([
        "isolation::isolate::looks_for_the_mark",
        "--exact",
        "--ignored",
    ]);
    let ran = ran.arg("--nocapture").output().expect("a child process");
    let (reported, status) = (String::from_utf8_lossy(&ran.stdout), ran.status);
    println!("it ended with {status} and printed {reported}");
    assert!(status.success(), "{ran:#?}");
}

#[test]
fn another_program_that_the_test_starts_isolates_its_own_tests() {
    let child = of("starts_another_checked_program").run();
    assert!(child.status.success(), "{child:#?}");
    assert!(child.stdout.contains("marked: false"), "{child:#?}");
    // The other program isolates its own tests again, because the token that it inherits is valid
    // only for its parent process.
    assert_eq!(
        child.stdout.matches("running 1 test").count(),
        2,
        "{child:#?}"
    );
}

#[test]
#[ignore = "run in a process of its own"]
fn isolates_a_test_after_its_program_was_removed() {
    if let Some(program) = std::env::var_os("PROGRAM_TO_REMOVE") {
        std::fs::remove_file(program).expect("the program is there");
    }
    looks_for_the_mark();
}

#[cfg(target_os = "linux")]
#[test]
fn a_program_that_is_rebuilt_while_it_runs_still_isolates_its_tests() {
    let program = std::env::current_exe().expect("this program");
    let link = program.with_file_name(format!("isolates-{}", std::process::id()));
    std::fs::hard_link(&program, &link).expect("the link is created");
    let mut other = Command::new(&link);
    child::clean(&mut other);
    let test = "isolation::isolate::isolates_a_test_after_its_program_was_removed";
    let ran = other
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env("PROGRAM_TO_REMOVE", &link)
        .output()
        .expect("a child process");
    let printed = String::from_utf8_lossy(&ran.stdout);
    assert!(printed.contains("marked: false"), "{ran:#?}");
}

#[gpu_leak_check(isolate)]
#[ignore = "leaves a process behind"]
#[test]
fn leaves_a_process() {
    leave_a_process();
}

#[gpu_leak_check(isolate)]
#[ignore = "leaves a process behind and crashes on purpose"]
#[test]
fn leaves_a_process_and_crashes() {
    leave_a_process();
    std::process::abort();
}

#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn leave_a_process() {
    let left = Command::new("sleep").arg("300").spawn();
    println!("left: {}", left.expect("a process").id());
}

/// Ends the process that the test has left behind. Fails unless that process is still running.
fn end_what_it_left(child: &Child) {
    let mut lines = child.stdout.lines();
    let left = lines.find_map(|line| line.split_once("left: ").map(|(_, id)| id));
    let killed = Command::new("kill").arg(left.expect("a number")).status();
    assert!(
        killed.expect("`kill` runs").success(),
        "it was not waited for"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_the_test_leaves_behind_delays_nothing() {
    let child = of("leaves_a_process").run();
    assert!(child.status.success(), "{child:#?}");
    end_what_it_left(&child);
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_a_crashed_test_leaves_behind_delays_nothing() {
    let checked = run("leaves_a_process_and_crashes");
    assert_eq!(
        checked.aborted,
        ["isolation::isolate::leaves_a_process_and_crashes"],
        "{}",
        checked.output()
    );
    end_what_it_left(&checked.child);
}

#[gpu_leak_check(isolate)]
#[ignore = "hangs on purpose"]
#[test]
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn hangs() {
    println!("process {}", std::process::id());
    loop {
        std::thread::park();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn killing_the_runner_kills_the_isolated_test() {
    let program = std::env::current_exe().expect("this program");
    let mut runner = Command::new(program)
        .args([
            "isolation::isolate::hangs",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env_remove("NEXTEST")
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child process");
    let lines = BufReader::new(runner.stdout.take().expect("a pipe")).lines();
    let mut pids = lines.filter_map(|line| {
        let line = line.expect("text");
        let (_, pid) = line.split_once("process ")?;
        Some(pid.trim().to_owned())
    });
    let pid = pids.next().expect("the test's own process");
    runner.kill().expect("a live process");
    runner.wait().expect("a child");
    let status = format!("/proc/{pid}/stat");
    // A zombie has ended, and the system will reap it.
    while std::fs::read_to_string(&status).is_ok_and(|stat| !stat.contains(") Z ")) {
        std::thread::yield_now();
    }
}
