//! The summary of a run, as every format shows it: findings merged over all tests, and their effect
//! on the run.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gpu_leak_check::ledger::Amount;
use gpu_leak_check::ledger::{Kind, PoolName};
use gpu_leak_check::report::check_report::{
    CheckStatus, Figure, Finding, Limit, Outcome, Peak as LivePeak, Report, Site,
};
use gpu_leak_check::report::run_file::Began;
use gpu_leak_check::report::{Summary, escape};
use gpu_leak_check::units::{count, size, total};

use crate::run::{AttemptedTest, Process, Run};

/// The summary of a run: the model that all renderers read.
#[derive(Debug)]
pub(crate) struct Overview<'run> {
    /// The run itself, for formats that show each check.
    pub(crate) run: &'run Run,
    /// Counts of statuses, with the names of tests and reasons.
    pub(crate) summary: Summary,
    /// The findings: the worst kind first, then the largest.
    pub(crate) groups: Vec<Group<'run>>,
    /// The checks that did not end, by name. Some of them also have a report, with the status
    /// `Aborted`: a format that shows each report takes the checks without a report from
    /// `run.aborted()`.
    pub(crate) aborted: Vec<Began>,
    /// The checks that fail because their tests did not leave what was expected.
    pub(crate) unexpected: Vec<&'run Report>,
    /// The checks that have no result.
    pub(crate) unmeasured: Vec<&'run Report>,
    /// The highest peak of each layer of each device.
    pub(crate) peaks: Vec<Peak<'run>>,
    /// The contents of the highest peak of each layer of each device, if a check recorded them,
    /// with the name of that check.
    pub(crate) live_at_peaks: Vec<(&'run str, &'run LivePeak)>,
}

/// Findings of several tests that are shown as one.
#[derive(Debug)]
pub(crate) struct Group<'run> {
    /// The sum of the findings, with the call site and the details of the largest finding.
    pub(crate) finding: Finding,
    /// The worst effect that these findings had on their tests: `Fail` if one failed its test,
    /// `Warn` if one is only reported, as `first-use` is by default, and `Pass` if all are allowed.
    /// A test's own outcome may be worse.
    pub(crate) outcome: Outcome,
    /// The names of the tests that have these findings, once for each test.
    pub(crate) tests: Vec<&'run str>,
    /// The findings themselves.
    pub(crate) members: Vec<&'run Finding>,
}

/// The highest peak of a layer, and the test that reached it.
#[derive(Debug)]
pub(crate) struct Peak<'run> {
    pub(crate) place: String,
    pub(crate) layer: &'run str,
    pub(crate) figure: Figure,
    pub(crate) peak: u64,
    pub(crate) test: &'run str,
}

impl Peak<'_> {
    /// Returns the row of a table for this peak: the device, the layer, the figure, the peak and
    /// the test.
    pub(crate) fn cells(&self) -> [String; 5] {
        let amount = match self.figure {
            Figure::Handles => count(self.peak),
            Figure::Allocated | Figure::Reserved => size(self.peak),
        };
        [
            escape::name(&self.place),
            escape::name(self.layer),
            self.figure.name().to_owned(),
            amount,
            escape::name(self.test),
        ]
    }
}

impl<'run> Overview<'run> {
    pub(crate) fn of(run: &'run Run) -> Self {
        let mut summary = Summary::default();
        run.reports().for_each(|report| summary.add(report));
        for unowned in run.unowned() {
            summary.add_unowned(Amount {
                count: unowned.count,
                bytes: unowned.bytes,
            });
        }
        let mut programs: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (program, thread) in run.unchecked() {
            programs.entry(thread).or_default().insert(program);
        }
        for (thread, programs) in programs {
            match programs.len() {
                1 => summary.add_unchecked(thread),
                // Several programs may have tests of the same name.
                _ => programs
                    .iter()
                    .for_each(|it| summary.add_unchecked(&format!("{thread} of {it}"))),
            }
        }
        run.late().for_each(|late| summary.note(&late.sentence()));
        for sentence in flaky_tests(run) {
            summary.note(&sentence);
        }
        let mut aborted: Vec<Began> = run.aborted().cloned().collect();
        for began in &aborted {
            summary.add_aborted(&began.test);
        }
        let reported = run.reports().filter(|it| it.status == CheckStatus::Aborted);
        aborted.extend(reported.map(Began::of));
        let subject = |it: &Began| (it.test.clone(), it.file.clone(), it.line);
        aborted.sort_by_cached_key(subject);
        aborted.dedup_by_key(|it| subject(it));
        let mut groups = merged(run, |report, finding| {
            (finding.kind, place(report, finding))
        });
        groups.retain(|group| !group.members.iter().all(|it| it.is_consequence));
        Self {
            run,
            summary,
            groups,
            aborted,
            unexpected: run
                .reports()
                .filter(|it| it.status == CheckStatus::Unexpected && outcome(it) == Outcome::Fail)
                .collect(),
            unmeasured: run
                .reports()
                .filter(|report| report.status.is_unmeasured())
                .collect(),
            peaks: peaks(run),
            live_at_peaks: live_at_peaks(run),
        }
    }

    /// Whether anything fails. A finding does not count if the policy of its test only warns about
    /// it.
    pub(crate) fn has_findings(&self) -> bool {
        let fails = |it: &Report| outcome(it) == Outcome::Fail && !it.status.is_unmeasured();
        !self.aborted.is_empty() || self.run.reports().any(fails)
    }

    /// Whether a check fails its test because it has no result.
    pub(crate) fn fails_without_a_result(&self) -> bool {
        let mut unmeasured = self.unmeasured.iter();
        unmeasured.any(|report| outcome(report) == Outcome::Fail)
    }

    /// Whether any check measured something.
    pub(crate) fn has_measured(&self) -> bool {
        let mut statuses = self.run.reports().map(|report| report.status);
        statuses.any(|status| status != CheckStatus::NotMeasured)
    }

    /// Whether anything was not measured or could not be read.
    pub(crate) fn is_blind(&self) -> bool {
        !self.has_measured() || !self.run.problems.is_empty() || !self.unmeasured.is_empty()
    }
}

/// The identity of a finding, regardless of its kind.
pub(crate) type Identity = (
    String,
    String,
    String,
    Option<PoolName>,
    Option<Kind>,
    Option<Limit>,
    Option<String>,
);

/// Returns the identity of a finding across runs, which stays the same even if lines are inserted:
/// the functions of its stack, the device, the allocator and the library. The library is included
/// because a function whose lines are unknown may call several libraries. A reserve, an exceeded
/// limit and memory that only a probe counts have no stack: they are distinguished by the pool, the
/// kind of resource and the exceeded option.
pub(crate) fn identity(finding: &Finding) -> Identity {
    of_site(finding, site(finding).fingerprint.clone())
}

/// Returns the identity of a finding within one run: its line and the functions that led to that
/// line, except the test itself. A mistake that several tests reach is therefore one finding. If no
/// frame of the user's code is known, the result is the finding's [`identity`].
fn place(report: &Report, finding: &Finding) -> Identity {
    let site = finding.shown_site();
    if site.user_frame().is_none() {
        return identity(finding);
    }
    let led = site.frames.iter().skip(site.user.unwrap_or(0));
    let others = led.filter(|frame| !frame.is_of_test(&report.test));
    // Callers of a wrapper on different lines are different mistakes.
    let mut line = format!("{} < {}", finding.location(), site.location());
    for function in others.filter_map(|frame| frame.function.as_deref()) {
        line = line + " < " + function;
    }
    of_site(finding, line)
}

/// Returns the call site of the allocation or, if that site is unknown, of the failed free, so that
/// a failed free has the same identity in two runs.
fn site(finding: &Finding) -> &Site {
    match &finding.failed {
        Some(failed) if finding.site.fingerprint.is_empty() => &failed.site,
        _ => &finding.site,
    }
}

fn of_site(finding: &Finding, site: String) -> Identity {
    (
        site,
        finding.place.to_string(),
        finding.layer.to_string(),
        finding.pool,
        finding.resource,
        finding.budget.as_ref().map(|budget| budget.limit),
        finding
            .site
            .library
            .as_ref()
            .map(|library| library.name.clone()),
    )
}

/// Merges the findings of a run that have the same key. Returns the worst kind first and, within a
/// kind, the largest finding first.
pub(crate) fn merged<'run, Key: Ord>(
    run: &'run Run,
    key: impl Fn(&'run Report, &'run Finding) -> Key,
) -> Vec<Group<'run>> {
    let mut found: BTreeMap<Key, Vec<(&Report, &Finding)>> = BTreeMap::new();
    for report in run.reports() {
        for finding in &report.findings {
            found
                .entry(key(report, finding))
                .or_default()
                .push((report, finding));
        }
    }
    let mut groups: Vec<_> = found
        .into_values()
        .filter_map(|same| group(&same))
        .collect();
    groups.sort_by(|left, right| {
        let weight = |group: &Group<'_>| (group.finding.bytes, group.finding.count);
        (left.finding.kind.cmp(&right.finding.kind)).then_with(|| weight(right).cmp(&weight(left)))
    });
    groups
}

fn group<'run>(same: &[(&'run Report, &'run Finding)]) -> Option<Group<'run>> {
    let (_, largest) = same.iter().max_by_key(|(_, finding)| finding.bytes)?;
    // Several programs may have tests of the same name.
    let tests: BTreeSet<_> = same.iter().map(|(it, _)| (&*it.test, &it.file)).collect();
    let tests = tests.into_iter().map(|(test, _)| test).collect();
    let each = same.iter().all(|(_, finding)| finding.each == largest.each);
    let sum = |of: fn(&Finding) -> u64| total(same.iter().map(|(_, finding)| of(finding)));
    let mut finding = (*largest).clone();
    finding.count = sum(|finding| finding.count);
    finding.bytes = sum(|finding| finding.bytes);
    finding.allocated = sum(|finding| finding.allocated);
    finding.freed = sum(|finding| finding.freed);
    finding.each = largest.each.filter(|_| each);
    // The following figures belong to a single test, so they are kept only if they apply to all
    // tests.
    let is_of_all = |(_, finding): &(&Report, &Finding)| finding.confirmed == largest.confirmed;
    finding.confirmed = largest.confirmed.filter(|_| same.iter().all(is_of_all));
    finding.when = largest.when.filter(|_| same.len() == 1);
    let outcomes = same.iter().map(|(report, of)| outcome_of(of, report));
    Some(Group {
        finding,
        outcome: outcomes.max()?,
        tests,
        members: same.iter().map(|(_, finding)| *finding).collect(),
    })
}

fn peaks(run: &Run) -> Vec<Peak<'_>> {
    let mut highest: BTreeMap<_, Peak<'_>> = BTreeMap::new();
    for report in run.reports() {
        for device in &report.devices {
            for row in &device.rows {
                // A peak equal to the baseline says nothing about the test.
                let Some(peak) = row.peak.filter(|peak| *peak > row.baseline) else {
                    continue;
                };
                let place = device.place.to_string();
                let figure = row.figure;
                let key = (place.clone(), row.layer.as_str(), figure.name());
                let this = Peak {
                    place,
                    layer: &row.layer,
                    figure,
                    peak,
                    test: &report.test,
                };
                if highest.get(&key).is_none_or(|known| known.peak < peak) {
                    highest.insert(key, this);
                }
            }
        }
    }
    highest.into_values().collect()
}

fn live_at_peaks(run: &Run) -> Vec<(&str, &LivePeak)> {
    let mut highest: BTreeMap<_, (&str, &LivePeak)> = BTreeMap::new();
    for report in run.reports() {
        for peak in &report.peaks {
            let known = highest.entry((peak.place, &peak.layer));
            let known = known.or_insert((&report.test, peak));
            if known.1.bytes < peak.bytes {
                *known = (&report.test, peak);
            }
        }
    }
    highest.into_values().collect()
}

/// Returns the effect of a check on its test. If the report does not contain it, the default policy
/// decides.
pub(crate) fn outcome(report: &Report) -> Outcome {
    let by_default = || report.status.default_outcome();
    report.outcome.unwrap_or_else(by_default)
}

/// Returns the effect of one finding on its test.
fn outcome_of(finding: &Finding, report: &Report) -> Outcome {
    if finding.is_unconfirmed() {
        // An unconfirmed finding makes its check inconclusive, unless another finding fails the
        // check.
        return match report.status.is_unmeasured() {
            true => outcome(report),
            false => Outcome::Pass,
        };
    }
    let alone = CheckStatus::Found(finding.kind);
    // The policy is the same for all kinds that fail, and the report's status is the worst of them.
    if alone == report.status || finding.kind.is_failure() {
        outcome(report)
    } else {
        alone.default_outcome()
    }
}

/// Returns a sentence for each retried test whose attempts have different results. The last attempt
/// decides.
fn flaky_tests(run: &Run) -> Vec<String> {
    // An attempt may have several processes: the test's own, and those that it started.
    let mut results: HashMap<AttemptedTest, BTreeMap<u32, (CheckStatus, &str)>> = HashMap::new();
    for process in run.earlier.values().flatten().chain(&run.processes) {
        if let Some((test, number)) = process.attempt()
            && let Some(result) = worst_result(process)
        {
            let worst = results.entry(test).or_default().entry(number);
            let worst = worst.or_insert(result);
            *worst = result.min(*worst);
        }
    }
    let mut found: Vec<_> = results.values().filter_map(flaky_test).collect();
    found.sort_unstable();
    found
}

/// Returns, for example, `flaky: train::frees: leaked in attempt 1, clean in attempt 2`.
fn flaky_test(results: &BTreeMap<u32, (CheckStatus, &str)>) -> Option<String> {
    let (_, (first, test)) = results.first_key_value()?;
    if results.values().all(|(status, _)| status == first) {
        return None;
    }
    let parts: Vec<_> = results
        .iter()
        .map(|(number, (status, _))| format!("{} in attempt {number}", status.name()))
        .collect();
    Some(format!("flaky: {test}: {}", parts.join(", ")))
}

/// Returns the worst status in a process, and the test that has it.
fn worst_result(process: &Process) -> Option<(CheckStatus, &str)> {
    let reports = process.file.reports.iter();
    let reports = reports.map(|report| (report.status, report.test.as_str()));
    let aborted = process.file.aborted.iter();
    let aborted = aborted.map(|began| (CheckStatus::Aborted, began.test.as_str()));
    aborted.chain(reports).min_by_key(|(status, _)| *status)
}

#[cfg(test)]
mod tests {
    use gpu_leak_check::report::check_report::{CheckStatus, FindingKind, Frame, Owner, Report};
    use gpu_leak_check::report::run_file::Began;

    use super::{Overview, flaky_tests};
    use crate::render::sample;
    use crate::run::Run;

    /// A test's process may start others, and an attempt may end before its check begins.
    #[test]
    fn attempts_have_the_numbers_that_the_runner_gave_them() {
        let attempted = |attempts: &[(u32, CheckStatus)]| {
            let retried = sample::retried();
            let processes = attempts.iter().map(|(number, status)| {
                let mut process = sample::run(vec![sample::report("trains", *status)])
                    .processes
                    .remove(0);
                process.file.header = retried.processes[0].file.header.clone();
                let header = process.file.header.as_mut().expect("a header");
                header.attempt.as_mut().expect("an attempt").number = *number;
                process
            });
            let mut run = Run {
                processes: processes.collect(),
                ..Run::default()
            };
            run.set_earlier_attempts_aside();
            flaky_tests(&run)
        };
        let (leaked, clean) = (CheckStatus::Found(FindingKind::Leaked), CheckStatus::Clean);
        let two_processes = [(1, leaked), (1, clean), (2, clean), (2, clean)];
        let flaky = "flaky: trains: leaked in attempt 1, clean in attempt 2";
        assert_eq!(attempted(&two_processes), [flaky]);
        let flaky = "flaky: trains: leaked in attempt 2, clean in attempt 3";
        assert_eq!(attempted(&[(2, leaked), (3, clean)]), [flaky]);
    }

    /// Many packages have a test such as `tests::works`.
    #[test]
    fn unchecked_tests_of_the_same_name_in_several_programs_are_several_tests() {
        let unchecked = |binaries: &[&str]| {
            let processes = binaries.iter().map(|binary| {
                let mut process = sample::run(Vec::new()).processes.remove(0);
                (*binary).clone_into(&mut process.binary);
                process.file.unchecked = vec!["works".to_owned()];
                process
            });
            let run = Run {
                processes: processes.collect(),
                ..Run::default()
            };
            Overview::of(&run).summary.text().expect("a summary")
        };
        let twice = unchecked(&["optim", "optim"]);
        assert!(twice.contains("; 1 unchecked\n"), "{twice}");
        assert!(twice.contains("unchecked: works created"), "{twice}");
        let both = unchecked(&["optim", "train"]);
        assert!(both.contains("; 2 unchecked\n"), "{both}");
        let named = "unchecked: works of optim, works of train created";
        assert!(both.contains(named), "{both}");
    }

    /// Users do not look for a leak in a function that only calls the API.
    #[test]
    fn leaks_through_a_wrapper_are_distinguished_by_the_lines_that_call_it() {
        let leak_at = |line| {
            let mut leak = sample::finding(FindingKind::Leaked, "gpu::allocate", 1, 16);
            leak.site.frames[1].line = Some(line);
            leak
        };
        let run = sample::run(vec![sample::with(
            "trains",
            &[leak_at(61), leak_at(75), leak_at(61)],
        )]);
        let groups = Overview::of(&run).groups;
        let shown = groups.iter();
        let shown = shown.map(|group| (group.finding.location(), group.finding.count));
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                ("src/train.rs:61".to_owned(), 2),
                ("src/train.rs:75".to_owned(), 1)
            ]
        );
    }

    #[test]
    fn tests_of_the_same_name_in_several_programs_are_several_tests() {
        let leak = sample::finding(FindingKind::Leaked, "f", 1, 16);
        let of = |file: &str| Report {
            file: file.to_owned(),
            ..sample::with("works", std::slice::from_ref(&leak))
        };
        let mut run = sample::run(vec![of("a.rs"), of("b.rs"), of("a.rs")]);
        for file in ["a.rs", "b.rs", "a.rs"] {
            run.processes[0].file.aborted.push(Began {
                test: "ends".to_owned(),
                file: file.to_owned(),
                line: 1,
            });
        }
        let overview = Overview::of(&run);
        assert_eq!(overview.groups[0].tests, ["works", "works"]);
        assert_eq!(overview.aborted.len(), 2);
    }

    #[test]
    fn leaks_of_several_tests_at_one_line_are_one_finding() {
        let leak_of = |test: &str, line| {
            let mut leak = sample::finding(FindingKind::Leaked, "train::helper", 1, 16);
            leak.site.frames[0].line = Some(line);
            leak.site.frames[1].function = Some(format!("train::{test}::{{{{closure}}}}").into());
            // The function of the test itself is not part of a finding's identity.
            leak.site.frames.push(Frame {
                function: Some(format!("train::{test}").into()),
                owner: Owner::User,
                ..Frame::default()
            });
            leak.site.fingerprint = format!("1-{test}");
            leak
        };
        let reports = ["through_a", "through_b"].map(|test| {
            let leaks = [leak_of(test, 10), leak_of(test, 10), leak_of(test, 20)];
            sample::with(test, &leaks)
        });
        let run = sample::run(reports.into());
        let groups = Overview::of(&run).groups;
        let shown = groups.iter().map(|group| {
            let line = group.finding.site.frames[0].line.unwrap_or_default();
            (line, group.finding.count, group.tests.len())
        });
        assert_eq!(shown.collect::<Vec<_>>(), [(10, 4, 2), (20, 2, 2)]);
    }
}
