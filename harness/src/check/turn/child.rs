//! Passes a token to a process that [`isolate`] starts for one test. The token tells the process
//! that it was started for that test.
//!
//! The parent passes the token in an environment variable. Processes that the test itself starts
//! inherit this variable, and they may be other checked programs. So the token is valid only for a
//! child of the process whose id it contains.
//!
//! [`isolate`]: crate::check::isolate

use std::env;
use std::process::Command;
use std::sync::OnceLock;

/// The environment variable that contains the token. It is not meant for users.
const ISOLATED: &str = "__GPU_LEAK_CHECK_ISOLATED";
/// The options that follow the test's name on libtest's command line.
const OPTIONS: [&str; 3] = ["--include-ignored", "--nocapture", "--test-threads=1"];

/// Creates a token for a child of this process. Each `number` results in a different token.
pub(crate) fn new_word(number: u32) -> String {
    format!("{}-{number}", std::process::id())
}

/// Makes `command`, which starts this program again, run only `test`, and passes the token `word`
/// to it.
pub(crate) fn tell(command: &mut Command, test: &str, word: &str) {
    command
        .args(["--exact", test])
        .args(OPTIONS)
        .env(ISOLATED, word);
}

/// Returns the token that was passed to this process, if it is valid.
pub(crate) fn word() -> Option<&'static str> {
    static WORD: OnceLock<Option<String>> = OnceLock::new();
    let word = WORD.get_or_init(|| {
        let word = env::var(ISOLATED).ok()?;
        is_meant(parent(&word)?).then_some(word)
    });
    word.as_deref()
}

/// Returns the id of the process that created this token.
pub(crate) fn parent(word: &str) -> Option<u32> {
    word.split('-').next()?.parse().ok()
}

/// Whether a token that `parent` created is meant for this process.
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
    exact == "--exact" && options == OPTIONS && !lives(parent)
}

/// On other systems, such a process is not detected.
#[cfg(not(target_os = "linux"))]
fn is_left_behind(_: u32) -> bool {
    false
}

/// Whether the process with this id exists and has not ended.
#[cfg(target_os = "linux")]
fn lives(process: u32) -> bool {
    // A process that has ended remains a zombie until its parent waits for it.
    let state = std::fs::read_to_string(format!("/proc/{process}/stat"));
    state.is_ok_and(|state| !state.contains(") Z "))
}

#[cfg(test)]
mod tests {
    use super::{new_word, parent};

    #[test]
    fn a_word_names_the_process_that_made_it() {
        assert_eq!(parent(&new_word(3)), Some(std::process::id()));
        assert_ne!(new_word(3), new_word(4));
        assert_eq!(parent("another's"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_ended_does_not_live_even_if_nobody_waited_for_it() {
        use std::process::{Command, Stdio};

        assert!(super::lives(std::process::id()));
        let mut command = Command::new("cat");
        let mut child = command.stdin(Stdio::piped()).spawn().expect("a process");
        assert!(super::lives(child.id()));
        // The child ends when its input is closed.
        drop(child.stdin.take());
        while super::lives(child.id()) {
            std::thread::yield_now();
        }
        child.wait().expect("a child");
        assert!(!super::lives(child.id()));
    }
}
