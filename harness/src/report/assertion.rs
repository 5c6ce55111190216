//! A test that fails by a report of its own.

use super::model::{Finding, Report};
use super::rendering::Rendering;
use super::{headline, text};

impl Report {
    /// Fails the test if something was left. What could not be measured fails nothing here: see
    /// [`Report::status`].
    ///
    /// # Panics
    ///
    /// With the whole report, when it has a finding of a kind that [fails](super::model::FindingKind::is_failure).
    #[track_caller]
    pub fn assert_clean(&self) {
        let is_told_only = |finding: &Finding| !finding.kind.is_failure();
        assert!(
            self.findings.iter().all(is_told_only),
            "{}\n\n{}",
            headline(self),
            text::to_string(self, &Rendering::for_stderr())
        );
    }
}
