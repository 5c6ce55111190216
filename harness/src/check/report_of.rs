//! From what a check looked at and what it came to, to its report.

use super::{tables, timeline};
use crate::judge::{CheckInput, CheckResult, meant_to_stay};
use crate::report::model::{Report, TimelineRun};

/// The report of a check: all of it is data that the input and the result have. What may be advised is
/// tried on the input, which is left as it was.
pub(crate) fn report_of(input: &mut CheckInput, result: &CheckResult) -> Report {
    let options = match input.facts.whole_program {
        // There is no attribute to set them in.
        true => None,
        false => meant_to_stay(input, result),
    };
    let subject = &input.subject;
    let first = input.first();
    let last = match input.facts.rounds > 1 {
        true => input.runs.last().unwrap_or(first),
        false => first,
    };
    let mut devices = tables::tables(&first.baseline, &last.end, &input.names);
    let further = input
        .judged_runs()
        .get(1)
        .filter(|_| input.facts.rounds <= 1);
    if let Some(second) = further {
        tables::complete(&mut devices, &second.baseline, &second.end, &input.names);
    }
    let timelines: Vec<&TimelineRun> = input.runs.iter().map(|run| &run.timeline).collect();
    Report {
        reason: result.reason.clone(),
        findings: result.findings.clone(),
        devices,
        notes: result.notes.clone(),
        meant_to_stay: options,
        primaries: first.primaries.clone(),
        again: subject.again.clone(),
        timeline: timeline::of_runs(&timelines, input.facts.rounds > 1),
        ..Report::new(
            &*subject.test,
            &*subject.file,
            subject.line,
            subject.column,
            result.status,
        )
    }
}
