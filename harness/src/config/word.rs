//! Settings with a fixed set of words, the same in variables and in the file.

use std::time::Duration;

use crate::options::OnLeak;

/// A setting with a word for each value.
pub(crate) trait Word: Copy + 'static {
    /// Every word and its value.
    const WORDS: &'static [(&'static str, Self)];

    /// Returns the value of `text`.
    ///
    /// # Errors
    ///
    /// The list of valid words.
    fn read(text: &str) -> Result<Self, String> {
        let found = Self::WORDS.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<_> = Self::WORDS.iter().map(|(word, _)| *word).collect();
            words.join(", ")
        })
    }
}

/// What happens if a check cannot measure: `GPU_LEAK_CHECK`, `mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A driver that is in use but cannot be traced fails the check if `CI` is set, and is noted
    /// otherwise.
    Auto,
    /// A check that cannot measure fails, even without a driver.
    Require,
    /// Bodies run; nothing is judged.
    Off,
}

impl Word for Mode {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("require", Self::Require),
        ("off", Self::Off),
    ];
}

/// What `first-use` findings do: `GPU_LEAK_CHECK_FIRST_USE`, `first_use`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstUse {
    /// They are reported.
    Warn,
    /// They fail the test.
    Fail,
}

impl Word for FirstUse {
    const WORDS: &'static [(&'static str, Self)] = &[("warn", Self::Warn), ("fail", Self::Fail)];
}

/// Whether what libraries are known to keep for the process is allowed:
/// `GPU_LEAK_CHECK_KEPT_FOR_THE_PROCESS`, `kept_for_the_process`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptForTheProcess {
    /// The shipped list applies to whole programs.
    Allow,
    /// It does not.
    Fail,
}

impl Word for KeptForTheProcess {
    const WORDS: &'static [(&'static str, Self)] = &[("allow", Self::Allow), ("fail", Self::Fail)];
}

impl Word for OnLeak {
    const WORDS: &'static [(&'static str, Self)] = &[("fail", Self::Fail), ("warn", Self::Warn)];
}

/// What a checked test does on a machine without a GPU: `GPU_LEAK_CHECK_WITHOUT_GPU`,
/// `without_gpu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithoutGpu {
    /// Its body runs, and sources other than the driver are judged.
    Run,
    /// Its body does not run, and the test passes as not measured.
    Skip,
}

impl Word for WithoutGpu {
    const WORDS: &'static [(&'static str, Self)] = &[("run", Self::Run), ("skip", Self::Skip)];
}

/// Parses a duration as the attribute writes it: `250ms`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    gpu_leak_check_options::units::milliseconds(text).map(Duration::from_millis)
}
