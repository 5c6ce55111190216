//! A run summed up: findings merged over all tests.

use std::collections::BTreeMap;
use std::iter;

use gpu_leak_check::ledger::{Kind, PoolName};
use gpu_leak_check::report::Summary;
use gpu_leak_check::report::model::{CheckStatus, Figure, Finding, Limit, Outcome, Report};

use crate::attempts;
use crate::exit::Exit;
use crate::outcomes;
use crate::run::Run;

/// A run summed up.
#[derive(Debug)]
pub(crate) struct Overview<'run> {
    /// Counts of statuses, with names and reasons.
    pub(crate) summary: Summary,
    /// Worst first, then largest.
    pub(crate) groups: Vec<Group<'run>>,
    /// The checks that did not end, by name.
    pub(crate) aborted: Vec<&'run str>,
    /// The checks that could not see.
    pub(crate) unmeasured: Vec<&'run Report>,
    /// The highest peak of each layer of each device.
    pub(crate) peaks: Vec<Peak<'run>>,
    /// How many checks came to their end.
    pub(crate) finished: usize,
    /// What could not be read.
    pub(crate) problems: &'run [String],
}

/// Findings that are one: of the same kind and [`identity`], in whatever tests.
#[derive(Debug)]
pub(crate) struct Group<'run> {
    /// All of them as one finding; its site and its details are those of the largest.
    pub(crate) finding: Finding,
    /// The worst that it meant for any of these tests.
    pub(crate) outcome: Outcome,
    /// Where it was found, each test once.
    pub(crate) tests: Vec<&'run str>,
}

/// The most that a layer came to, and in which test.
#[derive(Debug)]
pub(crate) struct Peak<'run> {
    pub(crate) place: String,
    pub(crate) layer: &'run str,
    pub(crate) figure: Figure,
    pub(crate) peak: u64,
    pub(crate) test: &'run str,
}

impl<'run> Overview<'run> {
    pub(crate) fn of(run: &'run Run) -> Self {
        let mut summary = Summary::default();
        run.reports().for_each(|report| summary.add(report));
        for unowned in run.unowned() {
            summary.add_unowned(unowned.count, unowned.bytes);
        }
        run.late().for_each(|late| summary.note(&late.told()));
        for sentence in attempts::sentences(run) {
            summary.note(&sentence);
        }
        let mut aborted: Vec<&str> = run.aborted().map(|began| began.test.as_str()).collect();
        for test in &aborted {
            summary.add_aborted(test);
        }
        for report in run.reports().filter(|it| it.status == CheckStatus::Aborted) {
            aborted.push(&report.test);
        }
        aborted.sort_unstable();
        aborted.dedup();
        Self {
            summary,
            groups: groups(run),
            aborted,
            unmeasured: run
                .reports()
                .filter(|report| report.status.is_unmeasured())
                .collect(),
            peaks: peaks(run),
            finished: run.reports().count(),
            problems: &run.problems,
        }
    }

    /// Whether anything fails: a finding that its test's policy only warns of does not.
    pub(crate) fn has_findings(&self) -> bool {
        !self.aborted.is_empty()
            || self
                .groups
                .iter()
                .any(|group| group.outcome == Outcome::Fail)
    }

    /// Whether anything was not seen.
    pub(crate) fn is_blind(&self) -> bool {
        self.finished == 0 || !self.problems.is_empty() || !self.unmeasured.is_empty()
    }

    /// How it ends the command.
    pub(crate) fn judge(&self, denied: bool, require_measured: bool) -> Exit {
        if self.has_findings() || denied {
            return Exit::Findings;
        }
        let unread = self.finished == 0 || !self.problems.is_empty();
        let failed_blind = self
            .unmeasured
            .iter()
            .any(|report| outcomes::outcome(report) == Outcome::Fail);
        if unread || failed_blind || (require_measured && self.is_blind()) {
            return Exit::Unmeasured;
        }
        Exit::Clean
    }
}

/// What a finding is about, whatever became of it. Two with the same are one that was found twice.
pub(crate) type Identity<'a> = (
    &'a str,
    String,
    String,
    Option<PoolName>,
    Option<Kind>,
    Option<Limit>,
);

/// Its stack, where it has one, the device and the allocator. A reserve, a limit that was passed and
/// what only a probe counts have no stack: whose it is, its kind and the option tell them apart.
pub(crate) fn identity(finding: &Finding) -> Identity<'_> {
    // What nobody took has no stack but that of the free that failed.
    let failed = finding.failed.as_ref().map(|failed| &failed.site);
    let sites = iter::once(&finding.site).chain(failed);
    let mut stacks = sites.map(|site| &*site.fingerprint);
    (
        stacks.find(|stack| !stack.is_empty()).unwrap_or_default(),
        finding.place.to_string(),
        finding.layer.to_string(),
        finding.pool,
        finding.resource,
        finding.budget.as_ref().map(|budget| budget.limit),
    )
}

fn groups(run: &Run) -> Vec<Group<'_>> {
    let mut found: BTreeMap<_, Vec<(&Report, &Finding)>> = BTreeMap::new();
    for report in run.reports() {
        for finding in &report.findings {
            found
                .entry((finding.kind, identity(finding)))
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
    let mut tests: Vec<&str> = Vec::new();
    for (report, _) in same {
        tests.push(&report.test);
    }
    tests.sort_unstable();
    tests.dedup();
    let each = same.iter().all(|(_, finding)| finding.each == largest.each);
    let sum = |of: fn(&Finding) -> u64| {
        same.iter()
            .fold(0, |sum: u64, (_, finding)| sum.saturating_add(of(finding)))
    };
    let mut finding = (*largest).clone();
    finding.count = sum(|finding| finding.count);
    finding.bytes = sum(|finding| finding.bytes);
    finding.taken = sum(|finding| finding.taken);
    finding.given_back = sum(|finding| finding.given_back);
    finding.each = largest.each.filter(|_| each);
    let outcomes = same
        .iter()
        .map(|(report, of)| outcomes::outcome_of(of, report));
    Some(Group {
        finding,
        outcome: outcomes.max()?,
        tests,
    })
}

fn peaks(run: &Run) -> Vec<Peak<'_>> {
    let mut highest: BTreeMap<_, Peak<'_>> = BTreeMap::new();
    for report in run.reports() {
        for device in &report.devices {
            for row in &device.rows {
                // What was there before the test says nothing of it.
                let Some(peak) = row.peak.filter(|peak| *peak > row.baseline) else {
                    continue;
                };
                let place = device.place.to_string();
                let figure = row.figure;
                let key = (place.clone(), row.layer.as_str(), figure_name(figure));
                let this = Peak {
                    place,
                    layer: &row.layer,
                    figure,
                    peak,
                    test: &report.test,
                };
                match highest.get_mut(&key) {
                    Some(known) if known.peak >= peak => {}
                    Some(known) => *known = this,
                    None => {
                        highest.insert(key, this);
                    }
                }
            }
        }
    }
    highest.into_values().collect()
}

/// `allocated`
pub(crate) const fn figure_name(figure: Figure) -> &'static str {
    match figure {
        Figure::Allocated => "allocated",
        Figure::Reserved => "reserved",
        Figure::Handles => "handles",
    }
}
