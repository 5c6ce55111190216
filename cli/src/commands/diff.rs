//! `cargo gpu-leak diff`: what changed between two runs.

use std::collections::BTreeMap;

use gpu_leak_check::ledger::Amount;
use gpu_leak_check::report::check_report::{CheckStatus, Finding};
use gpu_leak_check::units::{count_change, size_change};

use crate::arguments::Diff;
use crate::exit::{Exit, ExitResult};
use crate::output::{Stream, print, test_names, wrapped};
use crate::overview::{Group, Identity, Overview, identity, merged};
use crate::run::Run;

/// How a finding changed between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DiffStatus {
    New,
    Grown,
    Known,
    /// Not all tests that had the finding were measured again.
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
    print(&rendered(&changes, Stream::Output.width()));
    Ok(exit(&changes, &old, &new))
}

fn exit(changes: &[(DiffStatus, String)], old: &Run, new: &Run) -> Exit {
    let is_worse = |status| matches!(status, DiffStatus::New | DiffStatus::Grown);
    let is_readable = old.problems.is_empty() && new.problems.is_empty();
    let overview = Overview::of(new);
    if changes.iter().any(|(status, _)| is_worse(*status)) {
        Exit::Findings
    } else if is_readable && overview.has_measured() && overview.aborted.is_empty() {
        Exit::Clean
    } else {
        Exit::Unmeasured
    }
}

/// Returns a line for each finding, with its status.
fn compare(old: &Run, new: &Run) -> Vec<(DiffStatus, String)> {
    let (before, after) = (by_identity(old), by_identity(new));
    let (failed, fails) = (failures(old), failures(new));
    let measured: Vec<&str> = new
        .reports()
        .filter(|report| !report.status.is_unmeasured() && report.status != CheckStatus::Aborted)
        .map(|report| report.test.as_str())
        .collect();
    let mut changes = Vec::new();
    for (identity, group) in &after {
        let was = before.get(identity);
        let does_fail = group.finding.kind.is_failure();
        let (status, change) = match was {
            None => (DiffStatus::New, String::new()),
            Some(was) if does_fail && !was.finding.kind.is_failure() => (
                DiffStatus::New,
                format!(" (was {})", was.finding.kind.name()),
            ),
            // A decrease in one test must not hide an increase in another. Resources that fail no
            // test may be left by whichever test runs first, so only their sum counts.
            Some(was) => growth(match does_fail {
                true => (group.tests.iter())
                    .map(|test| {
                        let key = (identity.clone(), *test);
                        let of =
                            |amounts: &Failures<'_>| amounts.get(&key).copied().unwrap_or_default();
                        of(&fails).minus(of(&failed))
                    })
                    .fold(Amount::default(), Amount::plus),
                false => amount(&group.finding).minus(amount(&was.finding)),
            }),
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

fn amount(finding: &Finding) -> Amount {
    Amount {
        count: finding.count,
        bytes: finding.bytes,
    }
}

/// Returns the status of a finding of both runs, and by how much it grew.
fn growth(more: Amount) -> (DiffStatus, String) {
    match more {
        Amount { bytes: 0, count: 0 } => (DiffStatus::Known, String::new()),
        Amount { bytes: 0, count } => (DiffStatus::Grown, format!(" ({})", count_change(0, count))),
        Amount { bytes, .. } => (DiffStatus::Grown, format!(" ({})", size_change(0, bytes))),
    }
}

type Failures<'run> = BTreeMap<(Identity, &'run str), Amount>;

/// Returns, for each test, the amounts of its findings that fail tests.
fn failures(run: &Run) -> Failures<'_> {
    let mut failures = Failures::new();
    for report in run.reports() {
        for finding in report.findings.iter().filter(|it| it.kind.is_failure()) {
            let of_test = (failures.entry((identity(finding), &report.test))).or_default();
            *of_test = of_test.plus(amount(finding));
        }
    }
    failures
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
    use gpu_leak_check::report::run_file::Began;

    use super::{DiffStatus, compare, exit, rendered};
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

    #[test]
    fn less_in_one_test_hides_nothing_in_another_one() {
        let leak = |count| sample::finding(FindingKind::Leaked, "f", count, MIB);
        let old = sample::run(vec![
            sample::with("a", &[leak(1)]),
            sample::with("b", &[leak(2)]),
        ]);
        for b in [CheckStatus::Clean, CheckStatus::NotMeasured] {
            let new = sample::run(vec![sample::with("a", &[leak(3)]), sample::report("b", b)]);
            let changes = compare(&old, &new);
            assert_eq!(changes[0].0, DiffStatus::Grown);
            assert!(changes[0].1.ends_with("(+2.00 MiB)"), "{changes:?}");
        }
    }

    #[test]
    fn a_finding_that_begins_to_fail_its_test_is_new() {
        let with = |kind| {
            sample::run(vec![sample::with(
                "a",
                &[sample::finding(kind, "f", 1, MIB)],
            )])
        };
        let (first_use, leaked) = (with(FindingKind::FirstUse), with(FindingKind::Leaked));
        let changes = compare(&first_use, &leaked);
        assert_eq!(changes[0].0, DiffStatus::New);
        assert!(changes[0].1.ends_with("(was first-use)"), "{changes:?}");
        assert_eq!(compare(&leaked, &first_use)[0].0, DiffStatus::Known);
    }

    #[test]
    fn a_run_with_an_aborted_test_is_not_better() {
        let clean = || sample::run(vec![sample::report("a", CheckStatus::Clean)]);
        let mut new = clean();
        new.processes[0].file.aborted.push(Began {
            test: "b".to_owned(),
            file: String::new(),
            line: 1,
        });
        assert_eq!(exit(&[], &clean(), &new), Exit::Unmeasured);
    }
}
