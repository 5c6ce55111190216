//! Compares a report with the expected result.

use std::collections::BTreeMap;

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind, Outcome, Report};

use super::super::trace::Kind;
use super::{Amount, Class, Expected, View, is_of, layer_of_sum, site_of};

impl View<'_> {
    /// Adds an error unless the session had the expected effect on its caller.
    pub(super) fn check_outcome(
        &self,
        expected: &Expected,
        report: &Report,
        wrong: &mut Vec<String>,
    ) {
        let panicked = self.session.panicked;
        if self.body_failed() {
            if !panicked {
                wrong.push("its body panicked, but the check did not".to_owned());
            }
            let failed = report.outcome == Some(Outcome::Fail);
            if report.failed_inside.is_some() && !failed && !self.is_confirming {
                wrong.push("a nested check failed it, but its outcome is not a failure".to_owned());
            }
            return;
        }
        let fails = match self.session.kind {
            Kind::Scope => report.status.is_failure(),
            Kind::Test | Kind::Check => panicked,
        };
        if self.is_confirming && self.session.kind != Kind::Scope {
            if fails {
                wrong.push("it failed in a run that only confirms".to_owned());
            }
            return;
        }
        let warns = self.session.settings.warns;
        match &expected.must_fail {
            _ if fails && warns => wrong.push("failed, but should only warn".to_owned()),
            Some(why) if !fails && !warns => wrong.push(format!("did not fail, although {why}")),
            None if fails && !expected.may_fail => {
                wrong.push("failed, although nothing is leaked".to_owned());
            }
            _ => {}
        }
    }

    pub(super) fn check_status(
        &self,
        expected: &Expected,
        report: &Report,
        wrong: &mut Vec<String>,
    ) {
        let status = report.status;
        let is_failure = status.is_failure();
        if !self.body_failed() {
            match &expected.must_fail {
                Some(why) if !is_failure => {
                    wrong.push(format!("is {}, although {why}", status.name()))
                }
                None if is_failure && !expected.may_fail => {
                    wrong.push(format!("is {}, although nothing is leaked", status.name()));
                }
                _ => {}
            }
        }
        let is_inconclusive = status == CheckStatus::Inconclusive;
        match expected.inconclusive {
            Some(why) if !is_inconclusive && !is_failure => {
                wrong.push(format!("is {}, although {why}", status.name()));
            }
            None if is_inconclusive && !self.is_mixed => {
                wrong.push("is inconclusive without a cause".to_owned())
            }
            _ => {}
        }
        let says_nothing = report.findings.is_empty();
        if status == CheckStatus::Clean && !says_nothing {
            wrong.push("is clean, but has findings".to_owned());
        }
        if matches!(status, CheckStatus::NotMeasured | CheckStatus::Aborted) {
            wrong.push(format!("is {}", status.name()));
        }
    }

    /// Adds an error unless the report contains everything that was left.
    pub(super) fn check_left(&self, expected: &Expected, report: &Report, wrong: &mut Vec<String>) {
        if self.rounds <= 1 {
            for ((class, site), group) in &self.groups {
                if !group.is_left() && !group.is_kept() || group.is_settled {
                    continue;
                }
                if expected.may_be_silent(*class, group) {
                    continue;
                }
                let by_class = expected.confirmed.contains(class);
                let is_reported = report.findings.iter().any(|finding| {
                    is_of(finding, *class) && (by_class || site_of(finding) == Some(*site))
                });
                if !is_reported {
                    wrong.push(format!(
                        "does not report {class:?} at site {site}: {group:?}"
                    ));
                }
            }
            let is_reported = |layer: &str| {
                let mut findings = report.findings.iter();
                findings.any(|it| it.layer.to_string() == layer && site_of(it).is_none())
            };
            for (sum, rises) in self.judged_sums() {
                let rose = rises.iter().any(|rise| *rise != 0);
                let layer = layer_of_sum(sum);
                let is_tolerated = [&expected.tolerated, &expected.tolerated_once]
                    .iter()
                    .any(|tolerated| tolerated.contains(&layer));
                if rose && !is_tolerated && !is_reported(sum.layer()) && !self.judged[0].panicked {
                    wrong.push(format!("does not report the sum {sum:?}: {rises:?}"));
                }
            }
            let reserve = &self.reserve;
            let is_settled = self.judged[0].panicked;
            if reserve.iter().any(|rise| *rise != 0)
                && !is_reported("allocator:pool")
                && !is_settled
            {
                wrong.push(format!("does not report a reserve of {reserve:?}"));
            }
        }
        for ((class, site), group) in &self.allowed {
            let is_reported = report.findings.iter().any(|finding| {
                let is_it = is_of(finding, *class) && site_of(finding) == Some(*site);
                is_it && finding.kind == FindingKind::Allowed
            });
            if group.is_kept() && !is_reported {
                wrong.push(format!("does not report what is allowed at site {site}"));
            }
        }
    }

    /// Adds an error if the report contains something that was not left, or if figures are not
    /// exact although call sites are distinguished.
    pub(super) fn check_findings(&self, report: &Report, wrong: &mut Vec<String>) {
        if self.judged[0].panicked || self.body_failed() {
            // The report may also contain findings of the nested check that ended this one.
            return;
        }
        let mut leaked: BTreeMap<(Class, u8), Amount> = BTreeMap::new();
        for finding in &report.findings {
            let Some(site) = site_of(finding) else {
                continue;
            };
            let groups = match finding.kind {
                FindingKind::Allowed => &self.allowed,
                _ => &self.groups,
            };
            let own = groups.iter().find(|((class, at), group)| {
                *at == site && is_of(finding, *class) && group.is_left()
            });
            let Some((key, _)) = own else {
                wrong.push(format!(
                    "reports {} at site {site}, where nothing was left",
                    finding.kind.name()
                ));
                continue;
            };
            if finding.kind == FindingKind::Leaked {
                let sum = leaked.entry(*key).or_default();
                sum.count += finding.count;
                sum.bytes += finding.bytes;
            }
        }
        for (key, reported) in leaked {
            let kept = self.groups[&key].kept.iter().filter(|kept| !kept.is_zero());
            let kept: Vec<Amount> = kept.copied().collect();
            let is_within = |of: fn(&Amount) -> u64| {
                let amounts = || kept.iter().map(of);
                let (least, most) = (amounts().min().unwrap_or(0), amounts().max().unwrap_or(0));
                (least..=most).contains(&of(&reported))
            };
            if !is_within(|it| it.count) || !is_within(|it| it.bytes) {
                wrong.push(format!(
                    "{reported:?} leaked at {key:?}, where runs left {kept:?}"
                ));
            }
        }
        self.check_sums(report, wrong);
    }

    pub(super) fn check_sums(&self, report: &Report, wrong: &mut Vec<String>) {
        if self.rounds > 1 || self.is_mixed {
            return;
        }
        let sums = report
            .findings
            .iter()
            .filter(|finding| site_of(finding).is_none());
        for finding in sums.filter(|finding| finding.kind.is_failure()) {
            let of_layer = finding.layer.to_string();
            let sum = self.sums.iter().find(|(sum, _)| sum.layer() == of_layer);
            let rises = match (finding.kind, sum) {
                (FindingKind::Leaked, Some((_, rises))) => rises,
                _ => &self.reserve,
            };
            if !rises.contains(&finding.bytes) || finding.bytes == 0 {
                let (kind, bytes) = (finding.kind.name(), finding.bytes);
                wrong.push(format!(
                    "{bytes} B {kind} of {of_layer}, which rose by {rises:?}"
                ));
            }
        }
    }
}
