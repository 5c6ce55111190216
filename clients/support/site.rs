//! Where a finding's site is, and where it should be.

use gpu_leak_check::report::model::Finding;

/// The file and line that a finding blames.
pub fn blamed(finding: &Finding) -> Option<(&str, u32)> {
    let frame = &finding.site.frames[finding.site.user?];
    Some((frame.file.as_deref()?, frame.line?))
}

/// The number of the line of `source` that ends in `// leak: mark`.
pub fn line_of(source: &str, mark: &str) -> u32 {
    let ending = format!("// leak: {mark}");
    let line = source.lines().position(|line| line.ends_with(&ending));
    u32::try_from(line.expect("the mark is in the source") + 1).expect("few lines")
}
