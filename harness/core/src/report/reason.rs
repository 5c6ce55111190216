//! Why a check has no result: a stable code for programs, and sentences for people. The sentences
//! are in `judge/status.rs`, `judge/sums.rs` and, in the harness, mostly in `check/blind.rs`;
//! CONTRIBUTING.md lists the other files.

use serde::{Deserialize, Serialize};

named! {
    /// All values of [`Reason::code`](crate::report::Reason::code). `cargo gpu-leak explain`
    /// explains each.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    #[non_exhaustive]
    pub enum Code {
        /// There is no driver or no device.
        NoGpu = "no-gpu",
        /// No call was intercepted, and the process uses a graphics API that is not watched.
        Backend = "backend",
        /// The driver was initialised before its calls could be intercepted.
        Unheard = "unheard",
        /// The program called a variant of a watched function that this release does not know, or a
        /// function that more drivers or layers provide than this release can distinguish.
        UnheardFunction = "unheard-function",
        /// A library was bound directly to the driver, bypassing the harness.
        UnheardLibrary = "unheard-library",
        /// The harness failed while it processed a call.
        HarnessFailed = "harness-failed",
        /// A context was broken before the check began.
        Poisoned = "poisoned",
        /// A caching allocator was used that only a probe could read.
        NoProbe = "no-probe",
        /// A sum that only a probe can read rose while another check ran, or while another test, or
        /// a thread that an earlier test left, could run.
        Shared = "shared",
        /// The body could not be run a second time, so its findings could not be confirmed.
        NotRepeatable = "not-repeatable",
        /// A freed address was live at two places, and the free did not name the place.
        AmbiguousFree = "ambiguous-free",
        /// The test left something other than what its option `expect` says.
        Expectation = "expectation",
        /// The options of the test, the configuration file or a variable are wrong.
        Settings = "settings",
        /// The check was abandoned before it was complete.
        Unfinished = "unfinished",
        /// The process ended inside the check.
        ProcessEnded = "process-ended",
        /// Checks are switched off.
        Off = "off",
        /// A code that a later release wrote to a file. The reason's sentences explain it.
        #[serde(other)]
        Unknown = "unknown",
    }
}

/// Why a check has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Reason {
    /// A stable code, such as `no-gpu`, `poisoned` or `no-probe`. `cargo gpu-leak explain` explains
    /// each of them.
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    pub code: Code,
    /// One sentence that describes the problem.
    pub what: String,
    /// One sentence that says what to do about it.
    pub remedy: String,
}

impl Reason {
    /// Creates a reason with this code.
    #[must_use]
    pub fn new(code: Code, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            code,
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn a_code_is_written_by_its_name_and_a_later_one_is_unknown() {
        for code in Code::ALL {
            let word = serde_json::to_string(code).unwrap();
            assert_eq!(word, format!("\"{}\"", code.name()));
            assert_eq!(serde_json::from_str::<Code>(&word).unwrap(), *code);
        }
        let later = serde_json::from_str::<Code>("\"of-a-later-release\"").unwrap();
        assert_eq!(later, Code::Unknown);
    }
}
