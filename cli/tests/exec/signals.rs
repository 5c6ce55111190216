//! Signals reach the program as they would without the command.
#![expect(unsafe_code, reason = "starts commands that ignore signals")]

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::{CliOutput, call, command};

/// Runs the shell's `program` under a command that ignores `signals`.
fn ignoring(signals: &'static [i32], program: &str) -> CliOutput {
    let runs = tempfile::tempdir().expect("a directory");
    let mut command = command();
    command.args(["exec", "--", "sh", "-c", program]);
    command.env("GPU_LEAK_CHECK_OUTPUT", runs.path());
    let ignore = move || {
        for signal in signals {
            // SAFETY: this only makes the process ignore a signal.
            unsafe { libc::signal(*signal, libc::SIG_IGN) };
        }
        Ok(())
    };
    // SAFETY: the function makes only system calls that are safe after a fork.
    unsafe { command.pre_exec(ignore) };
    call(&mut command)
}

#[test]
fn a_signal_that_is_ignored_stays_ignored_in_the_program() {
    let program = "kill -HUP $$; kill -INT $$; exit 5";
    let ran = ignoring(&[libc::SIGHUP, libc::SIGINT], program);
    assert_eq!(ran.code, Some(5), "{ran:?}");
}

#[test]
fn a_command_that_is_started_with_sigchld_ignored_has_its_program_s_exit_code() {
    let ran = ignoring(&[libc::SIGCHLD], "exit 5");
    assert_eq!(ran.code, Some(5), "{ran:?}");
}

/// Starts the command with a program of the shell, and waits until the program has created the
/// file `$MARK`.
fn started(directory: &Path, words: &[&str], program: &str) -> Child {
    let mark = directory.join("mark");
    let mut command = command();
    command
        .arg("exec")
        .args(words)
        .args(["--", "sh", "-c", program]);
    command
        .env("MARK", &mark)
        .env("GPU_LEAK_CHECK_OUTPUT", directory);
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the command runs");
    while !mark.exists() {
        let ended = child.try_wait().expect("a child");
        assert!(ended.is_none(), "{ended:?}");
        thread::sleep(Duration::from_millis(10));
    }
    child
}

fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status();
    assert!(sent.expect("`kill` runs").success());
}

#[test]
fn an_interrupt_that_only_the_command_gets_is_forwarded() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = "trap 'exit 7' INT; : > \"$MARK\"; for i in $(seq 600); do sleep 0.05; done";
    let mut child = started(directory.path(), &[], program);
    send("-INT", &child);
    assert_eq!(child.wait().expect("a child").code(), Some(7));
}

/// Writing to a pipe that nobody reads blocks.
#[test]
fn a_signal_after_the_end_of_the_program_ends_the_command() {
    let directory = tempfile::tempdir().expect("a directory");
    let pipe = directory.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("`mkfifo` runs").success());
    let report = format!("csv={}", pipe.display());
    let mut child = started(directory.path(), &["--report", &report], ": > \"$MARK\"");
    let mut ended: Option<ExitStatus> = None;
    for _ in 0..200 {
        send("-TERM", &child);
        thread::sleep(Duration::from_millis(50));
        ended = child.try_wait().expect("a child");
        if ended.is_some() {
            break;
        }
    }
    if ended.is_none() {
        child.kill().expect("a child");
    }
    assert_eq!(ended.and_then(|it| it.signal()), Some(15));
}
