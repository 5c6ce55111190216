//! `cargo gpu-leak diff`: what changed between two runs.

use std::collections::BTreeMap;

use gpu_leak_check::report::check_report::CheckStatus;
use gpu_leak_check::units::{count_change, size_change};

use crate::arguments::Diff;
use crate::exit::{Exit, ExitResult};
use crate::output::{print, test_names, width_of_stdout, wrapped};
use crate::overview::{Group, Identity, Overview, identity, merged};
use crate::run::Run;

/// How a finding changed between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DiffStatus {
    New,
    Grown,
    Known,
    /// Not all tests that had it were measured again.
    NotMeasuredAgain,
    Fixed,
}

/// The name of each status, in the order in which they are printed.
pub(super) const STATUSES: [(DiffStatus, &str); 5] = [
    (DiffStatus::New, "new"),
    (DiffStatus::Grown, "grown"),
    (DiffStatus::Known, "known"),
    (DiffStatus::NotMeasuredAgain, "not measured again"),
    (DiffStatus::Fixed, "fixed"),
];

pub(crate) fn run(asked: &Diff) -> ExitResult<Exit> {
    let old = Run::read(std::slice::from_ref(&asked.old))?;
    let new = Run::read(std::slice::from_ref(&asked.new))?;
    old.say_problems();
    new.say_problems();
    let changes = compare(&old, &new);
    print(&rendered(&changes, width_of_stdout()));
    Ok(exit(&changes, &old, &new))
}

fn exit(changes: &[(DiffStatus, String)], old: &Run, new: &Run) -> Exit {
    let is_worse = |status| matches!(status, DiffStatus::New | DiffStatus::Grown);
    let is_readable = old.problems.is_empty() && new.problems.is_empty();
    if changes.iter().any(|(status, _)| is_worse(*status)) {
        Exit::Findings
    } else if is_readable && Overview::of(new).has_measured() {
        Exit::Clean
    } else {
        Exit::Unmeasured
    }
}

/// Returns a line for each finding, with its status.
fn compare(old: &Run, new: &Run) -> Vec<(DiffStatus, String)> {
    let (before, after) = (by_identity(old), by_identity(new));
    let measured: Vec<&str> = new
        .reports()
        .filter(|report| !report.status.is_unmeasured() && report.status != CheckStatus::Aborted)
        .map(|report| report.test.as_str())
        .collect();
    let mut changes = Vec::new();
    for (identity, group) in &after {
        let was = before
            .get(identity)
            .map(|group| (group.finding.bytes, group.finding.count));
        let is = (group.finding.bytes, group.finding.count);
        let (status, change) = match was {
            None => (DiffStatus::New, String::new()),
            Some(was) if is.0 > was.0 => (
                DiffStatus::Grown,
                format!(" ({})", size_change(was.0, is.0)),
            ),
            Some(was) if is.1 > was.1 => (
                DiffStatus::Grown,
                format!(" ({})", count_change(was.1, is.1)),
            ),
            Some(_) => (DiffStatus::Known, String::new()),
        };
        changes.push((status, line(group) + &change));
    }
    for (_, group) in before
        .iter()
        .filter(|(identity, _)| !after.contains_key(*identity))
    {
        let shows = |test: &&str| measured.contains(test);
        let status = if group.tests.iter().all(shows) {
            DiffStatus::Fixed
        } else {
            DiffStatus::NotMeasuredAgain
        };
        changes.push((status, line(group)));
    }
    changes.sort_by_key(|(status, _)| *status);
    changes
}

/// Returns the findings by their identity, regardless of their kind.
fn by_identity(run: &Run) -> BTreeMap<Identity, Group<'_>> {
    let groups = merged(run, |_, finding| (identity(finding), finding.kind));
    // If findings of several kinds have the same identity, the worst kind counts. It comes first in
    // the list.
    let named = groups
        .into_iter()
        .map(|group| (identity(&group.finding), group));
    named.rev().collect()
}

fn line(group: &Group<'_>) -> String {
    format!("{}, in {}", group.finding, test_names(&group.tests, 3))
}

fn rendered(changes: &[(DiffStatus, String)], width: usize) -> String {
    let mut lines = Vec::new();
    for (status, name) in STATUSES {
        let of_it: Vec<_> = changes.iter().filter(|(of, _)| *of == status).collect();
        lines.push(format!("{name}: {}", of_it.len()));
        for (_, line) in of_it {
            lines.extend(wrapped(line, 2, 4, width));
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};

    use super::{compare, exit, rendered};
    use crate::exit::Exit;
    use crate::render::sample::{self, MIB};
    use crate::run::Run;

    #[test]
    fn each_finding_has_its_status() {
        let leak =
            |function: &str, count| sample::finding(FindingKind::Leaked, function, count, MIB);
        let old = sample::run(vec![
            sample::with("a", &[leak("kept", 1), leak("grows", 1)]),
            sample::with("b", &[leak("fixed", 1)]),
            sample::with("c", &[leak("unseen", 1)]),
        ]);
        let new = sample::run(vec![
            sample::with("a", &[leak("kept", 1), leak("grows", 3)]),
            sample::report("b", CheckStatus::Clean),
            sample::report("c", CheckStatus::NotMeasured),
            sample::with("d", &[leak("fresh", 1)]),
        ]);
        insta::assert_snapshot!(rendered(&compare(&old, &new), 100));
    }

    #[test]
    fn a_run_that_measured_nothing_or_cannot_be_read_is_not_better() {
        let leak = sample::finding(FindingKind::Leaked, "kept", 1, MIB);
        let old = sample::run(vec![sample::with("a", &[leak])]);
        let with = |status| sample::run(vec![sample::report("a", status)]);
        let damaged = Run {
            problems: vec!["it is damaged".to_owned()],
            ..with(CheckStatus::Clean)
        };
        let exit = |new| exit(&compare(&old, &new), &old, &new);
        assert_eq!(exit(with(CheckStatus::Clean)), Exit::Clean);
        assert_eq!(exit(with(CheckStatus::NotMeasured)), Exit::Unmeasured);
        assert_eq!(exit(damaged), Exit::Unmeasured);
    }
}
