//! Defines the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::exit::Exit;
use crate::render::Format;

/// The hidden subcommand through which cargo runs test programs for `--every-test`.
pub(crate) const RUNNER: &str = "every-test-runner";

/// Summarises the findings of gpu-leak-check.
#[derive(Debug, Parser)]
#[command(
    name = "cargo gpu-leak",
    bin_name = "cargo gpu-leak",
    version,
    about = "Summarises what gpu-leak-check found",
    after_help = "Exit codes: 0 clean, 1 findings, 2 wrong usage or configuration, 3 nothing was checked"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs `cargo test` and summarises its checks
    #[command(override_usage = "cargo gpu-leak test [OPTIONS] [CARGO'S ARGUMENTS]")]
    Test(TestOptions),
    /// The runner through which cargo starts test programs for `--every-test`
    #[command(name = RUNNER, hide = true)]
    EveryTest(EveryTest),
    /// Runs `cargo nextest` and summarises its checks
    #[command(override_usage = "cargo gpu-leak nextest [OPTIONS] [NEXTEST'S ARGUMENTS]")]
    Nextest(Passthrough),
    /// Runs `cargo run` and summarises its checks
    #[command(override_usage = "cargo gpu-leak run [OPTIONS] [CARGO'S ARGUMENTS]")]
    Run(Passthrough),
    /// Runs `cargo bench` and summarises its checks
    #[command(override_usage = "cargo gpu-leak bench [OPTIONS] [CARGO'S ARGUMENTS]")]
    Bench(Passthrough),
    Exec(Exec),
    Report(Report),
    Diff(Diff),
    Allow(Allow),
    Explain(Explain),
    Doctor(Doctor),
    Completions(Completions),
}

const PASSTHROUGH_HELP: &str = "\
The command's own options can appear anywhere before `--`; with `run`, they must precede cargo's arguments.
The exit code is cargo's, except that 0 becomes 1 if the process of a test ended before the test did or
a denied condition applies, and 3 if nothing was checked.

Examples:
  cargo gpu-leak test -p optim -- --nocapture
  cargo gpu-leak nextest --report junit=leaks.xml --report markdown=leaks.md run --no-fail-fast
  cargo gpu-leak test --strict --release
  cargo gpu-leak test --no-fail-fast     otherwise cargo stops after the first failing program";

/// The command's own options, and cargo's arguments.
#[derive(Args, Debug)]
#[command(after_help = PASSTHROUGH_HELP)]
pub(crate) struct Passthrough {
    /// Also writes the report in this format to this file; may be given several times
    #[arg(long = "report", value_name = "FORMAT=FILE", value_parser = Output::parse)]
    pub(crate) outputs: Vec<Output>,

    /// A name for the run, for use with `report`, `diff` and `allow` [default:
    /// `GPU_LEAK_CHECK_RUN`, or a new name]; the run replaces an earlier run of
    /// this name
    #[arg(long, value_name = "RUN")]
    pub(crate) name: Option<String>,

    /// Reports what was live at each peak, line by line, and which allocations could share one
    /// buffer
    #[arg(long)]
    pub(crate) peaks: bool,

    #[command(flatten)]
    pub(crate) judging: Judging,

    /// Cargo's arguments
    #[arg(last = true, hide = true)]
    pub(crate) cargo: Vec<OsString>,
}

/// The options of `test`.
#[derive(Args, Debug)]
#[command(after_help = PASSTHROUGH_HELP)]
pub(crate) struct TestOptions {
    /// Also checks tests without the attribute: each runs in its own process, JOBS at a time, and
    /// fails if the process ends with GPU memory or objects still held. `every_test = true` under
    /// `[check]` in gpu-leak-check.toml means the same
    #[arg(
        long,
        value_name = "JOBS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1"
    )]
    pub(crate) every_test: Option<usize>,

    #[command(flatten)]
    pub(crate) passthrough: Passthrough,
}

/// A test program and its arguments.
#[derive(Args, Debug)]
pub(crate) struct EveryTest {
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) program: Vec<OsString>,
}

/// The format of a report, and the file to which the report is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) format: Format,
    pub(crate) file: PathBuf,
}

impl Output {
    fn parse(text: &str) -> Result<Self, String> {
        let (format, file) = text
            .split_once('=')
            .filter(|(_, file)| !file.is_empty())
            .ok_or("expected a format and a file, such as junit=leaks.xml")?;
        Ok(Self {
            format: Format::from_str(format, false).map_err(|_| unknown_format(format))?,
            file: file.into(),
        })
    }
}

fn unknown_format(word: &str) -> String {
    let formats = Format::value_variants().iter();
    let names =
        formats.filter_map(|format| Some(format.to_possible_value()?.get_name().to_owned()));
    let names: Vec<_> = names.collect();
    format!(
        "{word} is not a format; the formats are {}",
        names.join(", ")
    )
}

/// Runs an unmodified program in any language and reports the GPU memory and objects that it leaks
///
/// A library that intercepts the calls to CUDA and Vulkan is preloaded into the program. Nothing is
/// recompiled, and a program that uses neither is not affected.
#[derive(Args, Debug)]
#[command(
    override_usage = "cargo gpu-leak exec [OPTIONS] -- PROGRAM [ARGUMENTS]",
    after_help = "\
The exit code is the program's, except that 0 becomes 1 (or --error-exitcode) if the program leaks, \
and 3 if nothing could be measured. Memory that a library or a caching allocator is known to keep is \
listed but is not a failure.

Examples:
  cargo gpu-leak exec -- ./simulate --steps 100
  cargo gpu-leak exec --every 2 -- python3 train.py     also reports what grows while it runs
  cargo gpu-leak exec --report html=leaks.html -- ./serve & kill -USR1 $!    a snapshot now"
)]
pub(crate) struct Exec {
    /// Takes a snapshot at this interval. Call sites that grew in each of the last five snapshots
    /// are reported; if the program is killed, the last snapshot is reported
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) every: Option<Duration>,

    /// Switches off the caching allocators of PyTorch and JAX, so that each tensor is an allocation
    /// with its own line; this is slower, and PyTorch cannot capture graphs
    #[arg(long)]
    pub(crate) exact: bool,

    /// Reports what was live at each peak, line by line, and which allocations could share one
    /// buffer
    #[arg(long)]
    pub(crate) peaks: bool,

    /// The exit code for findings if the program's own is 0
    #[arg(long, value_name = "CODE", default_value_t = 1)]
    pub(crate) error_exitcode: u8,

    /// Also writes the report in this format to this file; may be given several times
    #[arg(long = "report", value_name = "FORMAT=FILE", value_parser = Output::parse)]
    pub(crate) outputs: Vec<Output>,

    /// A name for the run, as in `cargo gpu-leak test`
    #[arg(long, value_name = "RUN")]
    pub(crate) name: Option<String>,

    /// The signal that requests a snapshot from the program; this command forwards it
    #[arg(long, value_enum, default_value_t = SnapshotSignal::Usr1)]
    pub(crate) signal: SnapshotSignal,

    /// Does not watch the child processes of the program
    #[arg(long)]
    pub(crate) no_children: bool,

    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    pub(crate) program: Vec<OsString>,
}

/// A signal that requests a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SnapshotSignal {
    Usr1,
    Usr2,
    /// No signal
    None,
}

impl SnapshotSignal {
    /// Returns the signal's number.
    pub(crate) const fn number(self) -> Option<i32> {
        match self {
            #[cfg(unix)]
            Self::Usr1 => Some(signal_hook::consts::SIGUSR1),
            #[cfg(unix)]
            Self::Usr2 => Some(signal_hook::consts::SIGUSR2),
            _ => None,
        }
    }
}

/// Parses an interval. The minimum is a tenth of a second, since each snapshot resolves source
/// lines.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds >= 0.1);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| "expected a number of seconds, at least 0.1".to_owned())
}

/// Compares two runs by the fingerprints of their findings
#[derive(Args, Debug)]
#[command(after_help = "\
Exit code: 1 if something is new or has grown.

Example:
  cargo gpu-leak test --name main      on the main branch
  cargo gpu-leak test --name branch    on your branch
  cargo gpu-leak diff main branch")]
pub(crate) struct Diff {
    /// The older run: its name or its directory
    pub(crate) old: PathBuf,
    /// The newer run
    pub(crate) new: PathBuf,
}

/// Prints entries for gpu-leak-check.toml that allow the leaks of a run
///
/// With these entries, a test suite with known leaks fails only on new ones. An entry is for a
/// function that leaks, and lists the tests in which it leaves the same amount. This amount is the
/// limit of the entry; anything above it still fails.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cargo gpu-leak allow                          entries for the newest run
  cargo gpu-leak allow --from nightly --write --reason \"known leak, issue 12\"

The run should include all tests: `cargo gpu-leak test --no-fail-fast`.")]
pub(crate) struct Allow {
    /// The run, by name or directory [default: the newest]
    #[arg(long, value_name = "RUN")]
    pub(crate) from: Vec<PathBuf>,

    /// Writes the entries to the configuration file of this workspace, and shows what changes
    #[arg(long)]
    pub(crate) write: bool,

    /// Why these leaks may stay for now; written into each new entry
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

/// Explains a term in a report: a kind of finding, a status, the code of a reason, a label or
/// a column
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cargo gpu-leak explain retained
  cargo gpu-leak explain held by
  cargo gpu-leak explain          lists everything that can be explained")]
pub(crate) struct Explain {
    /// For example `leaked`, `held by` or `CUDA_ERROR_INVALID_VALUE`
    #[arg(value_name = "TERM")]
    pub(crate) words: Vec<String>,
}

/// Reports whether checks can see this machine's CUDA GPUs, and what to do if they cannot
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes: 0 a CUDA GPU is visible, 2 wrong configuration, 3 no CUDA GPU is visible. With \
--self-test: 0 every planted leak was found, 1 a leak was missed or the self-test ended early, \
2 wrong configuration, 3 neither CUDA nor Vulkan could be tried

Example:
  cargo gpu-leak doctor --self-test")]
pub(crate) struct Doctor {
    /// Also creates leaks of sixteen kinds, through an allocator that reports its blocks and
    /// through CUDA and Vulkan where they are installed, and shows which ones are found
    #[arg(long)]
    pub(crate) self_test: bool,

    /// Plants the leaks of the self-test in this process
    #[arg(long, hide = true)]
    pub(crate) plant: bool,
}

/// Prints completions for a shell
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  cargo gpu-leak completions bash > ~/.local/share/bash-completion/completions/cargo-gpu-leak")]
pub(crate) struct Completions {
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Summarises one run, or several merged into one
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cargo gpu-leak report                                   the newest run of this workspace
  cargo gpu-leak report shard-1 shard-2                   two shards as one run
  cargo gpu-leak report --format junit --out leaks.xml    for a CI system
  cargo gpu-leak report --format markdown >> \"$GITHUB_STEP_SUMMARY\"
  cargo gpu-leak report --format snapshot --out memory.pickle gpu-4711.jsonl
  cargo gpu-leak report --strict --deny expired,new")]
pub(crate) struct Report {
    /// The name or the directory of a run, a directory that contains a single run, or individual
    /// files, including recordings. Several are merged [default: the newest run]
    #[arg(value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,

    /// The format of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,

    /// The file to write the report to [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) judging: Judging,
}

/// Options that decide when the command fails.
#[derive(Args, Clone, Debug)]
pub(crate) struct Judging {
    /// Also fails on each of these; may be given several times
    #[arg(long, value_enum, value_name = "CONDITION", value_delimiter = ',')]
    pub(crate) deny: Vec<Deny>,

    /// Denies unmeasured, unchecked, unmatched and aborted. `strict = true` under `[run]` in
    /// gpu-leak-check.toml means the same
    #[arg(long)]
    pub(crate) strict: bool,

    /// The older run for `--deny new` [default: the newest run before this one]
    #[arg(long, value_name = "RUN")]
    pub(crate) against: Option<PathBuf>,

    /// The exit code for findings and denied conditions
    #[arg(long, value_name = "CODE", default_value_t = 1)]
    pub(crate) error_exitcode: u8,
}

impl Judging {
    /// Returns the exit code that stands for `exit`.
    pub(crate) fn code(&self, exit: Exit) -> u8 {
        match exit {
            Exit::Findings => self.error_exitcode,
            other => other.code(),
        }
    }
}

/// A condition that `--deny` turns into a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Deny {
    /// Checks without a result (exit code 3)
    Unmeasured,
    /// Tests that used a GPU or reported an allocation without being checked
    Unchecked,
    /// Entries of the configuration file and budgets that have no effect
    Unmatched,
    /// Checks that did not end
    Aborted,
    /// Findings of any kind that are new since an older run
    New,
    /// Findings allowed by an entry that has expired
    Expired,
    /// Resources that a test creates once and keeps
    FirstUse,
    /// Findings that `on_leak` only warns about
    Warned,
}
