//! Freed resources, with the lines and functions that led to their allocation and to their free.

use super::input::FreedAt;
use crate::report::{Finding, Frame, Site};

/// Freed resources, with the call sites of their allocation and of their free.
pub(super) struct FreedSite<'a> {
    pub(super) freed: &'a FreedAt,
    pub(super) allocated: Site,
    pub(super) at: Site,
}

impl FreedSite<'_> {
    /// Whether these resources have the same kind and allocator as this finding.
    pub(super) fn is_like(&self, finding: &Finding) -> bool {
        (self.freed.layer, Some(self.freed.kind)) == (finding.layer, finding.resource)
    }
}

/// A line of a file.
pub(super) type FileAndLine<'a> = (&'a str, u32);
/// A function and its file.
pub(super) type SourceFunction<'a> = (&'a str, Option<&'a str>);

pub(super) fn line(frame: &Frame) -> Option<FileAndLine<'_>> {
    Some((frame.file.as_deref()?, frame.line?))
}

pub(super) fn function(frame: &Frame) -> Option<SourceFunction<'_>> {
    Some((frame.function.as_deref()?, frame.file.as_deref()))
}
