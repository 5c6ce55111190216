//! Folded stacks, the input of [flame graphs](https://github.com/brendangregg/FlameGraph): one line
//! for each stack, outermost frame first, with its weight in bytes. The stacks represent only
//! memory that was left behind, not peaks that exceeded a limit.

use std::collections::BTreeMap;
use std::fmt::Write;

use gpu_leak_check::report::check_report::{Finding, Frame};
use gpu_leak_check::report::escape;

use crate::output::marked;
use crate::run::Run;

pub(super) fn render(run: &Run) -> String {
    let mut weights: BTreeMap<String, u64> = BTreeMap::new();
    for report in run.reports() {
        // Handles have no bytes, and therefore no weight.
        let left = report.findings.iter();
        for finding in left.filter(|finding| finding.is_left() && finding.bytes > 0) {
            let weight = weights.entry(stack(&report.test, finding)).or_default();
            *weight = weight.saturating_add(finding.bytes);
        }
    }
    let mut out = String::new();
    // Flame graphs add up the weights, so their sum must not overflow.
    let mut room = u64::MAX;
    for (stack, bytes) in weights {
        let bytes = bytes.min(room);
        room -= bytes;
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{} {bytes}", marked(&stack));
    }
    out
}

fn stack(test: &str, finding: &Finding) -> String {
    let frames = finding.site.frames.iter().rev();
    let mut parts = vec![part(test)];
    parts.extend(frames.map(|frame| part(&name(frame))));
    parts.push(part(&leaf(finding)));
    parts.join(";")
}

fn name(frame: &Frame) -> String {
    match (&frame.function, &frame.module) {
        (Some(name), _) | (None, Some(name)) => name.to_string(),
        (None, None) => "unknown".to_owned(),
    }
}

/// Returns, for example, `leaked linear`. The size is left out, so that equal stacks are merged.
fn leaf(finding: &Finding) -> String {
    match finding.resource {
        Some(resource) => format!("{} {}", finding.kind.name(), resource.name()),
        None => finding.kind.name().to_owned(),
    }
}

/// Returns the name of one frame, without the character that separates frames.
fn part(name: &str) -> String {
    escape::name(name).replace(';', ",")
}
