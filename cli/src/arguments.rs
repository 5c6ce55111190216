//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Sums up what gpu-leak-check found.
#[derive(Debug, Parser)]
#[command(
    name = "cargo gpu-leak",
    bin_name = "cargo gpu-leak",
    version,
    about = "Sums up what gpu-leak-check found",
    after_help = "Exit codes: 0 clean, 1 findings, 2 wrong usage or configuration, 3 nothing could be measured"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Report(Report),
}

/// Sums up a run, or several as one
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cargo gpu-leak report                                   the newest run of this workspace
  cargo gpu-leak report shard-1 shard-2                   two shards as one run
  cargo gpu-leak report --format junit --out leaks.xml    for a CI system
  cargo gpu-leak report --format markdown >> \"$GITHUB_STEP_SUMMARY\"
  cargo gpu-leak report --deny expired --require-measured")]
pub(crate) struct Report {
    /// The folder of a run, or single files; several are merged [default: the newest run]
    #[arg(value_name = "FOLDER")]
    pub(crate) runs: Vec<PathBuf>,

    /// What to write
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,

    /// Where to write it [default: the standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) judging: Judging,
}

/// What else is a finding.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Judging {
    /// Also fail on: allowances that expired; findings of any verdict that an older run has not;
    /// allowances in the configuration file that allowed nothing
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    pub(crate) deny: Vec<Deny>,

    /// The older run for `--deny new` [default: the run before]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) against: Option<PathBuf>,

    /// Also fail, with exit code 3, if any check could not measure
    #[arg(long)]
    pub(crate) require_measured: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// XML as CI systems read it
    Junit,
    /// For a pull request or a step's summary; at most 1 MiB
    Markdown,
    /// GitHub's annotations: at most 10 errors and 10 warnings
    Github,
    /// A row a finding
    Csv,
    /// Folded stacks: input of flame graphs, weighed by bytes
    Folded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Deny {
    Expired,
    New,
    Unused,
}

/// The command line without the word by which cargo called this program.
pub(crate) fn without_cargos_word(
    words: impl Iterator<Item = OsString>,
) -> impl Iterator<Item = OsString> {
    words
        .enumerate()
        .filter(|(at, word)| !(*at == 1 && word == "gpu-leak"))
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::{Arguments, without_cargos_word};

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn cargos_own_word_is_no_argument() {
        let words = |words: &[&str]| -> Vec<_> {
            without_cargos_word(words.iter().map(Into::into)).collect()
        };
        assert_eq!(
            words(&["cargo-gpu-leak", "gpu-leak", "report"]),
            ["cargo-gpu-leak", "report"]
        );
        assert_eq!(
            words(&["cargo-gpu-leak", "report", "gpu-leak"]),
            ["cargo-gpu-leak", "report", "gpu-leak"]
        );
    }
}
