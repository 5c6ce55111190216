//! How a process that was started for one test of [`isolate`] is told so, and knows it.
//!
//! Its parent hands it a word in a variable. Whatever the test itself starts inherits that variable,
//! other checked programs among it: the word counts for a child of the process that is named in it,
//! and for no other.
//!
//! [`isolate`]: crate::check::isolate

use std::env;
use std::process::Command;
use std::sync::OnceLock;

/// Holds the word. Not one of the variables that users set.
const ISOLATED: &str = "__GPU_LEAK_CHECK_ISOLATED";
/// What libtest is told behind the test's name.
const OPTIONS: [&str; 3] = ["--include-ignored", "--nocapture", "--test-threads=1"];

/// A word for a child of this process; each `number` makes another one.
pub(crate) fn new_word(number: u32) -> String {
    format!("{}-{number}", std::process::id())
}

/// Has `command`, which starts this program again, run `test` alone, as a child that was given
/// `word`.
pub(crate) fn tell(command: &mut Command, test: &str, word: &str) {
    command
        .args(["--exact", test])
        .args(OPTIONS)
        .env(ISOLATED, word);
}

/// The word that this process was given.
pub(crate) fn word() -> Option<&'static str> {
    static WORD: OnceLock<Option<String>> = OnceLock::new();
    let word = WORD.get_or_init(|| {
        let word = env::var(ISOLATED).ok()?;
        is_meant(parent(&word)?).then_some(word)
    });
    word.as_deref()
}

/// The number of the process that made this word.
pub(crate) fn parent(word: &str) -> Option<u32> {
    word.split('-').next()?.parse().ok()
}

/// Whether a word of `parent` is meant for this process.
fn is_meant(parent: u32) -> bool {
    #[cfg(unix)]
    let is_child = std::os::unix::process::parent_id() == parent;
    #[cfg(not(unix))]
    let is_child = true;
    is_child || is_left_behind(parent)
}

/// Whether this was a child of `parent`, which ended before it could be asked for.
#[cfg(target_os = "linux")]
fn is_left_behind(parent: u32) -> bool {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let [exact, _, options @ ..] = &arguments[..] else {
        return false;
    };
    exact == "--exact" && options == OPTIONS && !lives(parent)
}

/// Elsewhere such a process is left alone.
#[cfg(not(target_os = "linux"))]
fn is_left_behind(_: u32) -> bool {
    false
}

/// Whether the process of this number is there and has not ended.
#[cfg(target_os = "linux")]
fn lives(process: u32) -> bool {
    // One that has ended stays as a zombie until it is asked after.
    let told = std::fs::read_to_string(format!("/proc/{process}/stat"));
    told.is_ok_and(|told| !told.contains(") Z "))
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
    fn a_process_that_has_ended_does_not_live_though_nobody_asked_after_it() {
        use std::process::{Command, Stdio};

        assert!(super::lives(std::process::id()));
        let mut command = Command::new("cat");
        let mut child = command.stdin(Stdio::piped()).spawn().expect("a process");
        assert!(super::lives(child.id()));
        // It ends with its input.
        drop(child.stdin.take());
        while super::lives(child.id()) {
            std::thread::yield_now();
        }
        child.wait().expect("a child");
        assert!(!super::lives(child.id()));
    }
}
