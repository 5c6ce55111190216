//! Folded stacks, the input of [flame graphs](https://github.com/brendangregg/FlameGraph): a line a
//! stack, outermost first, and its weight in bytes.

use std::collections::BTreeMap;
use std::fmt::Write;

use gpu_leak_check::report::escape;
use gpu_leak_check::report::model::{Finding, Frame};

use crate::run::Run;

pub(super) fn render(run: &Run) -> String {
    let mut weights: BTreeMap<String, u64> = BTreeMap::new();
    for report in run.reports() {
        // Handles have no bytes, and a flame graph no other weight.
        for finding in report.findings.iter().filter(|finding| finding.bytes > 0) {
            let weight = weights.entry(stack(&report.test, finding)).or_default();
            *weight = weight.saturating_add(finding.bytes);
        }
    }
    let mut out = String::new();
    // Who draws them adds them up.
    let mut room = u64::MAX;
    for (stack, bytes) in weights {
        let bytes = bytes.min(room);
        room -= bytes;
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{stack} {bytes}");
    }
    out
}

fn stack(test: &str, finding: &Finding) -> String {
    let frames = finding.site.frames.iter().rev();
    let mut parts = vec![part(test)];
    parts.extend(frames.map(|frame| part(&name(frame))));
    parts.push(part(&held(finding)));
    parts.join(";")
}

fn name(frame: &Frame) -> String {
    match (&frame.function, &frame.module) {
        (Some(name), _) | (None, Some(name)) => name.clone(),
        (None, None) => "unknown".to_owned(),
    }
}

/// `leaked linear`: without its size, so that equal stacks fall together.
fn held(finding: &Finding) -> String {
    match finding.resource {
        Some(resource) => format!("{} {}", finding.kind.name(), resource.name()),
        None => finding.kind.name().to_owned(),
    }
}

/// One frame's name: what separates frames stands in none.
fn part(name: &str) -> String {
    escape::name(name).replace(';', ",")
}
