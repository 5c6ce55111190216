//! Text that the command prints, and how it is laid out.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use gpu_leak_check::report::escape;
use gpu_leak_check::units::quantity;
use terminal_size::{Width, terminal_size_of};
use textwrap::{Options, WordSeparator, WordSplitter};

/// The width of text that is not written to a terminal.
pub(crate) const WIDTH: usize = 100;
/// The minimum width to which text is wrapped. Narrower lines would contain only indentation.
const MIN_WIDTH: usize = 40;

/// Prints lines to standard error. They may contain names of files and tests, so control characters
/// are escaped, and workflow commands are [`marked`].
pub(crate) fn say(lines: impl Display) {
    for line in lines.to_string().split('\n') {
        // An error means that standard error is closed, so there is nowhere to report it.
        let _ = writeln!(io::stderr(), "{}", marked(&escape::sentence(line)));
    }
}

/// Marks a line that GitHub's log would interpret as a workflow command.
pub(crate) fn marked(line: &str) -> String {
    let is_command = line.trim_start().starts_with("::");
    format!("{}{line}", if is_command { "| " } else { "" })
}

/// Prints to standard output.
pub(crate) fn print(text: &str) {
    // An error means that nobody can read the text.
    let _ = Stream::Output.write(text.as_bytes());
}

/// A stream that this process was started with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    Output,
    Error,
}

impl Stream {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Output => "standard output",
            Self::Error => "standard error",
        }
    }

    pub(crate) fn is_terminal(self) -> bool {
        match self {
            Self::Output => io::stdout().is_terminal(),
            Self::Error => io::stderr().is_terminal(),
        }
    }

    /// Returns the width of the terminal, or [`WIDTH`] if the stream is not a terminal.
    pub(crate) fn width(self) -> usize {
        let size = match self {
            Self::Output => terminal_size_of(io::stdout()),
            Self::Error => terminal_size_of(io::stderr()),
        };
        let columns = size.map(|(Width(columns), _)| usize::from(columns));
        columns.unwrap_or(WIDTH).max(MIN_WIDTH)
    }

    /// Writes `bytes`, which need not be text. A reader that closes the pipe early, as `head` does,
    /// is not an error.
    pub(crate) fn write(self, bytes: &[u8]) -> io::Result<()> {
        let mut stream: Box<dyn Write> = match self {
            Self::Output => Box::new(io::stdout().lock()),
            Self::Error => Box::new(io::stderr().lock()),
        };
        match stream.write_all(bytes).and_then(|()| stream.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }
}

/// Wraps `text` to `width` columns: the first line is indented by `first` columns, the others by
/// `rest`. A longer word, such as a path, stays whole, so that it can be copied and opened.
/// Workflow commands are [`marked`].
pub(crate) fn wrapped(text: &str, first: usize, rest: usize, width: usize) -> Vec<String> {
    let (first, rest) = (" ".repeat(first), " ".repeat(rest));
    let options = Options::new(width)
        .initial_indent(&first)
        .subsequent_indent(&rest)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation);
    let lines = textwrap::wrap(text, options);
    lines.iter().map(|line| marked(line)).collect()
}

/// Returns, for example, `train::a, train::b and 3 more tests`. At most `most` of `tests` are
/// listed.
pub(crate) fn test_names(tests: &[&str], most: usize) -> String {
    let shown = tests.iter().take(most).map(|test| escape::name(test));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if let more @ 1.. = tests.len().saturating_sub(most) {
        text += &format!(" and {}", quantity(more as u64, "more test"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn a_path_is_never_broken() {
        let path = "target/examples/a/long/directory/program.cu:113";
        let text = format!("at main ({path}) through take");
        let lines = wrapped(&text, 0, 2, 20);
        assert_eq!(lines, ["at main", &format!("  ({path})"), "  through take"]);
    }
}
