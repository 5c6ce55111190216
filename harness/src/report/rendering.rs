//! How a report is rendered.

use super::excerpt::Sources;
use super::style::Style;

/// What a report looks like beside its facts.
#[derive(Clone, Debug)]
pub struct Rendering {
    /// Colours or none.
    pub style: Style,
    /// Where source lines come from.
    pub sources: Sources,
}

impl Rendering {
    /// For this process's standard error and its own sources.
    #[must_use]
    pub fn for_stderr() -> Self {
        Self {
            style: Style::for_stderr(),
            sources: Sources::of_this_process(),
        }
    }
}
