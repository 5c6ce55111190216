//! Renders the contents of a peak.

use super::check_report::{Peak, Share};
use super::escape;
use crate::units::{exact_size, quantity, total};

/// The largest number of source lines of a peak that are shown.
const MAX_LINES: usize = 20;
/// At most this many groups of allocations that could share a buffer are shown.
const MAX_REUSABLE: usize = 5;

/// Returns the lines about a peak: a sentence, the source lines in columns, and which allocations
/// could share one buffer.
#[must_use]
pub fn peak_lines(peak: &Peak) -> Vec<String> {
    let rows: Vec<_> = peak.lines.iter().take(MAX_LINES).map(columns).collect();
    let mut widths = [0; 3];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let [bytes, count, at] = widths;
    let mut lines = vec![format!("{}:", escape::sentence(&peak.sentence()))];
    for [of_bytes, of_count, of_at, allocated] in &rows {
        let line = format!("  {of_bytes:>bytes$}  {of_count:>count$}  {of_at:<at$}  {allocated}");
        lines.push(line.trim_end().to_owned());
    }
    if let Some(rest @ [_, ..]) = peak.lines.get(MAX_LINES..) {
        let bytes = total(rest.iter().map(|it| it.bytes));
        let more = quantity(rest.len() as u64, "more line");
        lines.push(format!("  {} at {more}", exact_size(bytes)));
    }
    let reusable = peak.reusable.iter().take(MAX_REUSABLE);
    lines.extend(reusable.map(|it| format!("  reuse: {}", escape::sentence(&it.sentence()))));
    if let more @ 1.. = peak.reusable.len().saturating_sub(MAX_REUSABLE) {
        lines.push(format!(
            "  reuse: {} in the run file",
            quantity(more as u64, "more line")
        ));
    }
    lines
}

/// Returns four columns: the bytes, the number of allocations, the source line, and when the
/// allocations were made.
#[must_use]
pub fn columns(share: &Share) -> [String; 4] {
    [
        exact_size(share.bytes),
        quantity(share.count, "allocation"),
        escape::name(&share.at),
        share.allocated().unwrap_or_default(),
    ]
}
