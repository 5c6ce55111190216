//! Passes a permit to each process that [`isolate`] starts for one test. The permit tells the
//! process that it was started for that test.
//!
//! The parent passes the permit in an environment variable. Processes that the test itself starts
//! inherit this variable, and they may be other checked programs. So the permit is valid only for a
//! child of the process whose ID it contains.
//!
//! [`isolate`]: crate::check::isolate

use std::env;
use std::process::Command;
use std::sync::OnceLock;

/// The environment variable that contains the permit. It is not meant for users.
const ISOLATED: &str = "__GPU_LEAK_CHECK_ISOLATED";
/// The options that follow the test's name on libtest's command line.
const OPTIONS: [&str; 3] = ["--include-ignored", "--nocapture", "--test-threads=1"];

/// Creates a permit for a child of this process. Each `number` results in a different permit.
pub(crate) fn new_permit(number: u32) -> String {
    format!("{}-{number}", std::process::id())
}

/// Makes `command`, which starts this program again, run only `test`, and passes this
/// permit to it.
pub(crate) fn pass(command: &mut Command, test: &str, permit: &str) {
    command
        .args(["--exact", test])
        .args(OPTIONS)
        .env(ISOLATED, permit);
}

/// Returns the permit that was passed to this process, if it is valid.
pub(crate) fn permit() -> Option<&'static str> {
    static PERMIT: OnceLock<Option<String>> = OnceLock::new();
    let permit = PERMIT.get_or_init(|| {
        let permit = env::var(ISOLATED).ok()?;
        is_meant(parent(&permit)?).then_some(permit)
    });
    permit.as_deref()
}

/// Returns the ID of the process that created this permit.
pub(crate) fn parent(permit: &str) -> Option<u32> {
    permit.split('-').next()?.parse().ok()
}

/// Whether a permit that `parent` created is meant for this process.
fn is_meant(parent: u32) -> bool {
    #[cfg(unix)]
    let is_child = std::os::unix::process::parent_id() == parent;
    #[cfg(not(unix))]
    let is_child = true;
    is_child || is_left_behind(parent)
}

/// Whether this process was a child of `parent`, but the parent ended too early to be recognised.
#[cfg(target_os = "linux")]
fn is_left_behind(parent: u32) -> bool {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let [exact, _, options @ ..] = &arguments[..] else {
        return false;
    };
    exact == "--exact" && options == OPTIONS && !is_alive(parent)
}

/// On other systems, such a process is not detected.
#[cfg(not(target_os = "linux"))]
fn is_left_behind(_: u32) -> bool {
    false
}

/// Whether the process with this ID exists and has not ended.
#[cfg(target_os = "linux")]
fn is_alive(process: u32) -> bool {
    // A process that has ended remains a zombie until its parent waits for it.
    let state = std::fs::read(format!("/proc/{process}/stat"));
    state.is_ok_and(|state| !String::from_utf8_lossy(&state).contains(") Z "))
}

#[cfg(test)]
mod tests {
    use super::{new_permit, parent};

    #[test]
    fn a_permit_names_the_process_that_created_it() {
        assert_eq!(parent(&new_permit(3)), Some(std::process::id()));
        assert_ne!(new_permit(3), new_permit(4));
        assert_eq!(parent("another's"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_ended_is_not_alive_even_if_nobody_waited_for_it() {
        use std::process::{Command, Stdio};

        assert!(super::is_alive(std::process::id()));
        // The kernel truncates the name of the process inside a character.
        let directory = tempfile::tempdir().expect("the directory is created");
        let program = directory.path().join("tests_of_my_größe");
        std::os::unix::fs::symlink("/bin/cat", &program).expect("the link is created");
        let mut command = Command::new(program);
        let mut child = command
            .stdin(Stdio::piped())
            .spawn()
            .expect("the process starts");
        assert!(super::is_alive(child.id()));
        // The child ends when its input is closed.
        drop(child.stdin.take());
        while super::is_alive(child.id()) {
            std::thread::yield_now();
        }
        child.wait().expect("the child has ended");
        assert!(!super::is_alive(child.id()));
    }
}
