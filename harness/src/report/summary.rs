//! Summarises all checks of a process. The summary is printed as the process's last lines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::check_report::{CheckStatus, Code, Finding, FindingKind, Reason, Report};
use super::escape;
use crate::ledger::Amount;
use crate::units::count;

/// How many checks have each status, and what else the summary reports.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    statuses: BTreeMap<CheckStatus, u64>,
    /// The tests and other texts to list, without duplicates.
    listed: Vec<(List, String)>,
    /// The reasons why some checks have no result, without duplicates.
    reasons: Vec<(CheckStatus, Reason)>,
    unowned: Amount,
    allowed: Amount,
    notes: Vec<(String, u64)>,
}

/// The lists of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum List {
    /// The tests that have a finding, are inconclusive or did not end, by their status.
    Named(CheckStatus),
    /// The listed tests that pass nevertheless, because `on_leak` is `warn`.
    Warned,
    /// Threads that ran outside any check and created something.
    Unchecked,
    /// The tests that did not run because there is no GPU.
    Skipped,
    /// The configuration files that the checks used.
    Configured,
}

/// The largest number of tests that are listed for a status.
const NAMED: usize = 20;

impl Summary {
    /// Counts a finished check.
    pub fn add(&mut self, report: &Report) {
        *self.statuses.entry(report.status).or_default() += 1;
        if report.status.is_failure() || report.status == CheckStatus::Inconclusive {
            self.list(List::Named(report.status), &report.test);
        } else if let CheckStatus::Found(kind) = report.status
            && kind != FindingKind::Allowed
            && let Some(worst) = report.findings.iter().find(|it| it.kind == kind)
        {
            // A passing test's own report is shown only with `--show-output`, so the list shows the
            // line as well.
            let test = format!("{} at {}", report.test, worst.location());
            self.list(List::Named(report.status), &test);
        }
        if report.is_only_warned() {
            self.list(List::Warned, &report.test);
        }
        if let Some(reason) = &report.reason {
            self.add_reason(report.status, reason);
        }
        let is_allowed = |finding: &&Finding| finding.kind == FindingKind::Allowed;
        for finding in report.findings.iter().filter(is_allowed) {
            self.allowed = self.allowed.plus(finding.amount());
        }
        if let Some(note) = report.configuration_note() {
            self.list(List::Configured, &note);
        }
        // If a check has other findings, its whole report is printed, including its notes.
        if report.findings.iter().all(|finding| is_allowed(&finding)) {
            for note in &report.notes {
                self.note(note);
            }
        }
    }

    fn add_reason(&mut self, status: CheckStatus, reason: &Reason) {
        let reason = (status, reason.clone());
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }

    /// Adds the counts of another process.
    pub fn merge(&mut self, other: &Self) {
        for (status, number) in &other.statuses {
            *self.statuses.entry(*status).or_default() += number;
        }
        for (list, text) in &other.listed {
            self.list(*list, text);
        }
        for (status, reason) in &other.reasons {
            self.add_reason(*status, reason);
        }
        self.unowned = self.unowned.plus(other.unowned);
        self.allowed = self.allowed.plus(other.allowed);
        for (note, times) in &other.notes {
            for _ in 0..*times {
                self.note(note);
            }
        }
    }

    /// Counts a check that began but did not end, because its process ended first.
    pub fn add_aborted(&mut self, test: &str) {
        *self.statuses.entry(CheckStatus::Aborted).or_default() += 1;
        self.list(List::Named(CheckStatus::Aborted), test);
    }

    /// Whether a test with this name is among the aborted ones.
    pub fn has_aborted(&self, test: &str) -> bool {
        self.listed(List::Named(CheckStatus::Aborted))
            .contains(&test)
    }

    fn list(&mut self, list: List, text: &str) {
        if !self.listed(list).contains(&text) {
            self.listed.push((list, text.to_owned()));
        }
    }

    fn listed(&self, list: List) -> Vec<&str> {
        let listed = self.listed.iter().filter(|(of, _)| *of == list);
        listed.map(|(_, text)| text.as_str()).collect()
    }

    /// Adds allocations that belong to no check.
    pub fn add_unowned(&mut self, unowned: Amount) {
        self.unowned = self.unowned.plus(unowned);
    }

    /// Adds a thread that ran outside any check and created something. The thread of a test has
    /// the name of the test.
    pub fn add_unchecked(&mut self, thread: &str) {
        self.list(List::Unchecked, thread);
    }

    /// Adds a test that did not run because there is no GPU.
    pub fn add_skipped(&mut self, test: &str) {
        self.list(List::Skipped, test);
    }

    /// Adds a sentence. If the summary already contains it, counts how often it was added.
    pub fn note(&mut self, sentence: &str) {
        match self.notes.iter_mut().find(|(known, _)| known == sentence) {
            Some((_, times)) => *times += 1,
            None => self.notes.push((sentence.to_owned(), 1)),
        }
    }

    /// Returns the lines of the summary without the final line break; `None` if there is nothing to
    /// report.
    ///
    /// ```text
    /// gpu-leak-check: 12 checked: 10 clean, 1 leaked, 1 first-use; 2 not measured (no GPU)
    ///   leaked: optim::adam_frees_everything
    ///   no GPU: no usable CUDA device was found (…); run on a machine with …
    /// 3 allocations, 1.00 MiB by threads outside any check: use `Scope` to assign their
    /// allocations to a test, …
    /// ```
    pub fn text(&self) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let mut lines = vec![format!("gpu-leak-check: {}", self.counts())];
        lines.extend(self.names());
        lines.extend(self.other_lines());
        Some(lines.join("\n  "))
    }

    /// Whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.statuses.is_empty() && self.other_lines().is_empty()
    }

    /// Returns the tests with findings, the inconclusive tests and the aborted tests, with one line
    /// for each status, such as `leaked: optim::adam_frees_everything` or
    /// `first-use: optim::looks_up at src/table.rs:12`.
    fn names(&self) -> impl Iterator<Item = String> {
        self.statuses.keys().filter_map(|status| {
            let tests = self.listed(List::Named(*status));
            (!tests.is_empty()).then(|| format!("{}: {}", status.name(), named(&tests)))
        })
    }

    /// Returns the remaining lines: why some checks have no result, allocations without an owner,
    /// resources that are allowed to stay, and notes.
    pub fn other_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let warned = self.listed(List::Warned);
        if !warned.is_empty() {
            lines.push(format!(
                "warned only, because `on_leak` is \"warn\": {}",
                named(&warned)
            ));
        }
        for (_, reason) in &self.reasons {
            let reported = format!("{}; {}", reason.what, reason.remedy);
            lines.push(format!(
                "{}: {}",
                words(reason.code),
                escape::sentence(&reported)
            ));
        }
        let unchecked = self.listed(List::Unchecked);
        if !unchecked.is_empty() {
            lines.push(format!(
                "unchecked: {} created resources outside any check: put `#[gpu_leak_check]` on each \
                 test, or run `cargo gpu-leak test --every-test`",
                named(&unchecked)
            ));
        }
        let skipped = self.listed(List::Skipped);
        if !skipped.is_empty() {
            lines.push(format!(
                "skipped: {} did not run, because there is no GPU and `without_gpu` is \"skip\"; a \
                 test with `needs_gpu = false` runs anyway",
                named(&skipped)
            ));
        }
        if self.unowned.count > 0 {
            // These threads may belong to unchecked tests, or may work for a checked test.
            let advice = match unchecked.is_empty() {
                true => {
                    ": use `Scope` to assign their allocations to a test, or `isolate` to run the \
                     test in its own process"
                }
                false => {
                    " while a check ran: if these threads work for the checked test, use `Scope` to \
                     assign their allocations to it, or `isolate` to run that test in its own process"
                }
            };
            lines.push(format!(
                "{} by threads outside any check{advice}",
                self.unowned.text("allocation")
            ));
        }
        if self.allowed.count > 0 {
            lines.push(format!("{} allowed to stay", self.allowed.text("object")));
        }
        for (note, times) in &self.notes {
            let times = if *times > 1 {
                format!(" ({} times)", count(*times))
            } else {
                String::new()
            };
            lines.push(format!("{}{times}", escape::sentence(note)));
        }
        let configured = self.listed(List::Configured).into_iter();
        lines.extend(configured.map(escape::sentence));
        lines
    }

    /// Returns a text such as
    /// `12 checked: 10 clean, 1 leaked, 1 first-use; 2 not measured (no GPU)`.
    pub fn counts(&self) -> String {
        let mut statuses = self.statuses.clone();
        let unmeasured = statuses.remove(&CheckStatus::NotMeasured);
        let mut text = match statuses.values().sum() {
            0 => "nothing checked".to_owned(),
            checked => format!("{} checked: ", count(checked)),
        };
        // The status `clean` comes first. The others follow, worst first.
        let clean = statuses.remove_entry(&CheckStatus::Clean);
        let parts: Vec<_> = clean
            .into_iter()
            .chain(statuses)
            .map(|(status, number)| {
                format!("{} {}{}", count(number), status.name(), self.why(status))
            })
            .collect();
        text += &parts.join(", ");
        if let Some(number) = unmeasured {
            text += &format!(
                "; {} not measured{}",
                count(number),
                self.why(CheckStatus::NotMeasured)
            );
        }
        for (list, word) in [(List::Unchecked, "unchecked"), (List::Skipped, "skipped")] {
            match self.listed(list).len() {
                0 => {}
                number => text += &format!("; {} {word}", count(number as u64)),
            }
        }
        text
    }

    /// Returns a text such as ` (no GPU, unheard)`.
    fn why(&self, status: CheckStatus) -> String {
        let mut words = Vec::new();
        for (_, reason) in self.reasons.iter().filter(|(of, _)| *of == status) {
            let reason = self::words(reason.code);
            if !words.contains(&reason) {
                words.push(reason);
            }
        }
        if words.is_empty() {
            return String::new();
        }
        format!(" ({})", words.join(", "))
    }
}

/// Returns a text such as `optim::adam, train::step and 3 more`.
fn named(tests: &[&str]) -> String {
    let shown: Vec<_> = tests
        .iter()
        .take(NAMED)
        .map(|test| escape::name(test))
        .collect();
    let more = match tests.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {} more", count(more as u64)),
    };
    format!("{}{more}", shown.join(", "))
}

/// Returns a code as words, such as `unheard function` for `unheard-function`.
pub(super) fn words(code: Code) -> String {
    let word = |word| match word {
        "gpu" => "GPU",
        "cuda" => "CUDA",
        other => other,
    };
    let words: Vec<_> = code.name().split('-').map(word).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests;
