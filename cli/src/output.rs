//! What the command writes where it was called.

use std::fmt::Display;
use std::io::{self, Write};

use gpu_leak_check::report::escape;

/// Lines on the standard error. They may name files and tests: what a terminal would act on is
/// spelled out, and what GitHub's log would take for a command is set off.
pub(crate) fn say(lines: impl Display) {
    for line in lines.to_string().split('\n') {
        let start = line.trim_start();
        let is_command = start.starts_with("::") || start.starts_with("##[");
        let mark = if is_command { "| " } else { "" };
        // Err: nobody listens.
        let _ = writeln!(io::stderr(), "{mark}{}", escape::sentence(line));
    }
}

/// Writes to the standard output.
pub(crate) fn print(text: &str) {
    print_bytes(text.as_bytes());
}

/// As [`print()`], of what need not be text. A reader that has enough, as `head` has, is no mistake.
pub(crate) fn print_bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    // Err: nobody listens.
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}
