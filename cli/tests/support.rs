//! Runs this program with the [`planted`](super::planted) tests, which real checks judge on the
//! embedded device. This module also runs the built command.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[path = "../../tests/support/published.rs"]
#[expect(
    unreachable_pub,
    reason = "other crates that include this file need it to be public"
)]
pub(crate) mod published;

/// Runs the planted tests `tests`, and returns the directory of the run, which is in `base`.
pub(crate) fn checked(base: &Path, run: &str, tests: &[&str]) -> PathBuf {
    checked_with(base, run, tests, None)
}

/// Runs the planted tests `tests`, possibly with a configuration file, and returns the directory of
/// the run, which is in `base`.
pub(crate) fn checked_with(
    base: &Path,
    run: &str,
    tests: &[&str],
    config: Option<&Path>,
) -> PathBuf {
    checked_in(base, run, tests, config, &[])
}

/// Runs the planted tests `tests`, possibly with a configuration file and with additional
/// environment variables, and returns the directory of the run, which is in `base`.
pub(crate) fn checked_in(
    base: &Path,
    run: &str,
    tests: &[&str],
    config: Option<&Path>,
    environment: &[(&str, &str)],
) -> PathBuf {
    let tests = tests.iter().map(|test| format!("planted::{test}"));
    let output = clean(Command::new(env::current_exe().expect("this program")))
        .args(["--exact", "--ignored", "--test-threads=1"])
        .args(tests)
        .env("GPU_LEAK_CHECK_OUTPUT", base)
        .env("GPU_LEAK_CHECK_RUN", run)
        .envs(environment.iter().copied())
        .envs(config.map(|path| ("GPU_LEAK_CHECK_CONFIG", path)))
        .output()
        .expect("this program runs");
    let directory = base.join(run);
    assert!(
        directory.is_dir(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    published::assert_published(&file_of(&directory));
    directory
}

/// Returns the command for a process that runs the planted `test`, so that callers can set its
/// standard input and output.
pub(crate) fn checking(base: &Path, run: &str, test: &str) -> Command {
    let mut command = clean(Command::new(env::current_exe().expect("this program")));
    command
        .args(["--exact", "--ignored", "--nocapture"])
        .arg(format!("planted::{test}"))
        .env("GPU_LEAK_CHECK_OUTPUT", base)
        .env("GPU_LEAK_CHECK_RUN", run);
    command
}

/// Writes a script in place of cargo. `cargo metadata` runs the real cargo, and everything else
/// runs these lines of the shell.
#[cfg(unix)]
pub(crate) fn cargo_that_runs(directory: &Path, lines: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let script = directory.join("cargo");
    let real = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let text = format!(
        "#!/bin/sh\n\
         if [ \"$1\" = metadata ]; then exec '{real}' \"$@\"; fi\n\
         {lines}\n"
    );
    fs::write(&script, text).expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("executable");
    script
}

/// Returns the only file of the run in `directory`.
pub(crate) fn file_of(directory: &Path) -> PathBuf {
    let mut entries = fs::read_dir(directory).expect("a directory").flatten();
    let file = entries.find(|entry| entry.path().extension().is_some_and(|end| end == "jsonl"));
    file.expect("a file").path()
}

/// The exit code and the output of the built command.
#[derive(Debug)]
pub(crate) struct CliOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Returns the built command, without variables that the runner of these tests may have set.
pub(crate) fn command() -> Command {
    let mut command = clean(Command::new(env!("CARGO_BIN_EXE_cargo-gpu-leak")));
    command.arg("gpu-leak");
    // The command must not write to the user's own cache.
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    #[cfg(unix)]
    reset_signals(&mut command);
    command
}

/// Makes the command react to signals that are ignored if these tests run in the background or
/// without a terminal.
#[cfg(unix)]
#[expect(unsafe_code, reason = "changes signals before a program starts")]
fn reset_signals(command: &mut Command) {
    use std::os::unix::process::CommandExt;

    let reset = || {
        for signal in [libc::SIGHUP, libc::SIGINT] {
            // SAFETY: this only restores the default effect of a signal.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the function makes only system calls that are safe after a fork.
    unsafe { command.pre_exec(reset) };
}

/// Runs the built command with `arguments`.
pub(crate) fn gpu_leak(arguments: impl IntoIterator<Item: AsRef<std::ffi::OsStr>>) -> CliOutput {
    call(command().args(arguments))
}

pub(crate) fn call(command: &mut Command) -> CliOutput {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("the command runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    CliOutput {
        code: status.code(),
        stdout: text(stdout),
        stderr: text(stderr),
    }
}

/// Removes the variables that the runner of these tests may have set, and gives the search for
/// holders enough time.
pub(crate) fn clean(mut command: Command) -> Command {
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        let prefixes = ["NEXTEST", "GPU_LEAK_CHECK", "CI_", "GITHUB_"];
        if name == "CI" || prefixes.iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(&*name);
        }
    }
    // On a busy machine, the default time would not always suffice.
    command.env("GPU_LEAK_CHECK_HELD_BY", "600s");
    command
}
