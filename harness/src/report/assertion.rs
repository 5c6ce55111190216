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
    /// With the whole report, when it has a finding that [fails](Finding::is_failure).
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(
            !self.findings.iter().any(Finding::is_failure),
            "{}\n\n{}",
            headline(self),
            text::to_string(self, &Rendering::for_stderr())
        );
    }
}
