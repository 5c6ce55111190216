//! What changed between two runs.

use std::collections::{BTreeMap, BTreeSet};

use gpu_leak_check::ledger::Amount;
use gpu_leak_check::report::check_report::{CheckStatus, Finding, Report};
use gpu_leak_check::units::{count_change, size_change};

use crate::output::test_names;
use crate::overview::{Group, Identity, identity, merged};
use crate::run::{Process, Run};

/// How a finding changed between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DiffStatus {
    New,
    Grown,
    Known,
    /// Not all tests that had the finding were measured again.
    NotMeasuredAgain,
    Fixed,
}

/// Identifies a test by its name and by the command that runs it alone, because several programs
/// may have a test of that name. If the test is an unmodified program, the key also names that
/// program.
type TestKey<'run> = (&'run str, &'run str, Option<&'run str>);

/// The amount of each finding in each test that has it.
type ByTest<'run> = BTreeMap<Identity, BTreeMap<TestKey<'run>, Amount>>;

/// Returns a line for each finding, with its status.
pub(crate) fn compare(old: &Run, new: &Run) -> Vec<(DiffStatus, String)> {
    let (before, after) = (by_identity(old), by_identity(new));
    let failures = |run| by_test(run, Finding::is_failure);
    let (had, has) = (failures(old), failures(new));
    let all = |run| by_test(run, |_| true);
    let (all_before, all_after) = (all(old), all(new));
    let sum = |all: &ByTest<'_>, of: &Identity| all[of].values().copied().sum::<Amount>();
    let is_measured =
        |report: &Report| !report.status.is_unmeasured() && report.status != CheckStatus::Aborted;
    let measured: BTreeSet<_> = reports(new)
        .filter(|(_, report)| is_measured(report))
        .map(|(process, report)| test_key(process, report))
        .collect();
    let mut changes = Vec::new();
    for (identity, group) in &after {
        let was = before.get(identity);
        let does_fail = fails_a_test(group);
        let (status, change) = match was {
            None => (DiffStatus::New, String::new()),
            Some(was) if does_fail && !fails_a_test(was) => {
                let before = match was.finding.kind {
                    kind if kind.is_failure() => "not confirmed",
                    kind => kind.name(),
                };
                (DiffStatus::New, format!(" (was {before})"))
            }
            // A decrease in one test must not hide an increase in another. Resources that fail no
            // test may be left by whichever test runs first, so only their sum counts.
            Some(_) => growth(match does_fail {
                true => (has[identity].iter())
                    .map(|(test, now)| now.minus(left_before(&had[identity], test)))
                    .sum(),
                false => sum(&all_after, identity).minus(sum(&all_before, identity)),
            }),
        };
        changes.push((status, line(group) + &change));
    }
    for (identity, group) in before
        .iter()
        .filter(|(identity, _)| !after.contains_key(*identity))
    {
        let status = if had[identity].keys().all(|test| measured.contains(test)) {
            DiffStatus::Fixed
        } else {
            DiffStatus::NotMeasuredAgain
        };
        changes.push((status, line(group)));
    }
    changes.sort_by_key(|(status, _)| *status);
    changes
}

/// Whether the finding makes any of its tests fail, unless the policy of the run says otherwise.
fn fails_a_test(group: &Group<'_>) -> bool {
    group.members.iter().any(|finding| finding.is_failure())
}

/// Returns the status of a finding that is in both runs, and a text that says by how much it grew.
fn growth(more: Amount) -> (DiffStatus, String) {
    match more {
        Amount { bytes: 0, count: 0 } => (DiffStatus::Known, String::new()),
        Amount { bytes: 0, count } => (DiffStatus::Grown, format!(" ({})", count_change(0, count))),
        Amount { bytes, .. } => (DiffStatus::Grown, format!(" ({})", size_change(0, bytes))),
    }
}

fn reports(run: &Run) -> impl Iterator<Item = (&Process, &Report)> {
    let processes = run.processes.iter();
    processes.flat_map(|process| process.file.reports.iter().map(move |it| (process, it)))
}

/// Returns the key of a test. The command that runs a test alone names its package and its program.
/// The command for an ignored test has one more option, which is left out of the key.
fn test_key<'run>(process: &'run Process, report: &'run Report) -> TestKey<'run> {
    let command = report.again.as_deref().unwrap_or(&process.binary);
    let is_unmodified = report.is_of_a_program() && report.outcome.is_none();
    (
        &report.test,
        command.trim_end_matches(" --include-ignored"),
        is_unmodified.then_some(&*process.binary),
    )
}

/// Returns the amount that `test` left in the older run. An unmodified program is named by its
/// command line, whose arguments may differ in each run. So if no process had this command line,
/// this is the largest amount that a process of the same program left.
fn left_before(by_test: &BTreeMap<TestKey<'_>, Amount>, test: &TestKey<'_>) -> Amount {
    let is_same_program = |it: &TestKey<'_>| it.2.is_some() && it.2 == test.2;
    let of_program = || {
        let left = by_test.iter().filter(|(it, _)| is_same_program(it));
        left.fold(Amount::default(), |most, (_, left)| most.most(*left))
    };
    by_test.get(test).copied().unwrap_or_else(of_program)
}

/// Returns, for each finding, the tests that have it, each with the amount of those findings that
/// `counts` accepts. For a test with several reports, such as one for each round of a stress run,
/// this is the largest amount.
fn by_test(run: &Run, counts: fn(&Finding) -> bool) -> ByTest<'_> {
    let mut tests = ByTest::new();
    for (process, report) in reports(run) {
        let mut in_report: BTreeMap<_, Amount> = BTreeMap::new();
        for finding in &report.findings {
            let sum = in_report.entry(identity(finding)).or_default();
            if counts(finding) {
                *sum = sum.plus(finding.amount());
            }
        }
        for (identity, sum) in in_report {
            let of_finding = tests.entry(identity).or_default();
            let most = of_finding.entry(test_key(process, report)).or_default();
            *most = most.most(sum);
        }
    }
    tests
}

/// Returns the findings by their identity, regardless of their kind.
fn by_identity(run: &Run) -> BTreeMap<Identity, Group<'_>> {
    let groups = merged(run, |_, finding| (identity(finding), finding.kind));
    // If findings of several kinds have the same identity, the worst kind counts. It comes first in
    // the list, and the list is reversed, so it replaces the others.
    let named = groups
        .into_iter()
        .map(|group| (identity(&group.finding), group));
    named.rev().collect()
}

fn line(group: &Group<'_>) -> String {
    format!("{}, in {}", group.finding, test_names(&group.tests, 3))
}

#[cfg(test)]
mod tests {
    use gpu_leak_check::report::check_report::{
        CheckStatus, Confirmation, Finding, FindingKind, Report,
    };

    use super::{DiffStatus, compare};
    use crate::render::sample::{self, MIB};

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

    /// One test may have been allowed to leave what fails another one.
    #[test]
    fn a_leak_that_becomes_allowed_has_not_grown() {
        let run = |kinds: [FindingKind; 2], count| {
            let tests = ["a", "b"].into_iter().zip(kinds);
            let reports = tests
                .map(|(test, kind)| sample::with(test, &[sample::finding(kind, "f", count, MIB)]));
            sample::run(reports.collect())
        };
        let (leaked, allowed) = (FindingKind::Leaked, FindingKind::Allowed);
        let old = run([leaked, allowed], 1);
        let new = |count| compare(&old, &run([allowed, allowed], count))[0].clone();
        assert_eq!(new(1).0, DiffStatus::Known);
        let (status, line) = new(2);
        assert_eq!(status, DiffStatus::Grown);
        assert!(line.ends_with("(+2.00 MiB)"), "{line}");
    }

    /// For example, the arguments name a directory for the program's output.
    #[test]
    fn a_program_with_other_arguments_has_not_grown() {
        let run = |line: &str, count| {
            sample::run(vec![Report {
                line: 0,
                outcome: None,
                ..sample::with(
                    line,
                    &[sample::finding(FindingKind::Leaked, "f", count, MIB)],
                )
            }])
        };
        let old = run("train --out a", 2);
        let status = |count| compare(&old, &run("train --out b", count))[0].0;
        assert_eq!(status(2), DiffStatus::Known);
        assert_eq!(status(3), DiffStatus::Grown);
    }

    /// Each round of a stress run has its own report.
    #[test]
    fn a_finding_in_more_rounds_has_not_grown() {
        for kind in [FindingKind::Leaked, FindingKind::FirstUse] {
            let round = |count| {
                let left = sample::finding(kind, "f", count, MIB);
                // A second finding with the same functions, on another line.
                sample::with("a", &[left.clone(), left])
            };
            let old = sample::run(vec![round(1)]);
            let new = |rounds: [u64; 3]| compare(&old, &sample::run(rounds.map(round).into()));
            assert_eq!(new([1, 1, 1])[0].0, DiffStatus::Known);
            let grown = new([1, 2, 1]);
            assert_eq!(grown[0].0, DiffStatus::Grown);
            assert!(grown[0].1.ends_with("(+2.00 MiB)"), "{grown:?}");
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
        // The body could not run twice.
        let unconfirmed = Finding {
            confirmed: Some(Confirmation::NotRepeatable),
            ..sample::finding(FindingKind::Leaked, "f", 1, MIB)
        };
        let unconfirmed = sample::run(vec![sample::with("a", &[unconfirmed])]);
        let changes = compare(&unconfirmed, &leaked);
        assert_eq!(changes[0].0, DiffStatus::New, "{changes:?}");
        assert!(changes[0].1.ends_with("(was not confirmed)"), "{changes:?}");
        assert_eq!(compare(&leaked, &unconfirmed)[0].0, DiffStatus::Known);
    }

    /// Many packages have a test such as `tests::works`.
    #[test]
    fn tests_of_the_same_name_in_several_programs_are_several_tests() {
        let of = |package: &str, report: Report| Report {
            again: Some(format!(
                "cargo test -p {package} --test same works -- --exact"
            )),
            ..report
        };
        let leaks = |package: &str, count| {
            let leak = sample::finding(FindingKind::Leaked, "f", count, MIB);
            of(package, sample::with("works", &[leak]))
        };
        let old = sample::run(vec![leaks("optim", 1), leaks("train", 2)]);
        let clean = of("train", sample::report("works", CheckStatus::Clean));
        let changes = compare(&old, &sample::run(vec![leaks("optim", 3), clean.clone()]));
        assert_eq!(changes[0].0, DiffStatus::Grown);
        assert!(changes[0].1.ends_with("(+2.00 MiB)"), "{changes:?}");
        let changes = compare(&old, &sample::run(vec![clean]));
        assert_eq!(changes[0].0, DiffStatus::NotMeasuredAgain);
        // A test that has become ignored is still the same test.
        let mut ignored = leaks("optim", 1);
        ignored
            .again
            .as_mut()
            .expect("a command")
            .push_str(" --include-ignored");
        let known = compare(&old, &sample::run(vec![ignored, leaks("train", 2)]));
        assert_eq!(known[0].0, DiffStatus::Known);
    }
}
