//! A test that fails by a report of its own.

use super::model::{Finding, Report, Verdict};
use super::rendering::Rendering;
use super::{headline, text};

impl Report {
    /// Fails the test if something was left. What could not be measured fails nothing here: see
    /// [`Report::verdict`].
    ///
    /// # Panics
    ///
    /// With the whole report, when it has a finding other than first use.
    #[track_caller]
    pub fn assert_clean(&self) {
        let is_told_only =
            |finding: &Finding| matches!(finding.verdict, Verdict::FirstUse | Verdict::Allowed);
        assert!(
            self.findings.iter().all(is_told_only),
            "{}\n\n{}",
            headline(self),
            text::to_string(self, &Rendering::for_stderr())
        );
    }
}
