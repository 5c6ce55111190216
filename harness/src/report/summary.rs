//! What all checks of a process came to, for its last lines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::escape;
use super::model::{Finding, Reason, Report, Verdict};
use crate::units::{count, exact_size, quantity};

/// Counts of verdicts, and what else there is to know.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    verdicts: BTreeMap<Verdict, u64>,
    /// The tests with a finding, or without an end.
    named: BTreeMap<Verdict, Vec<String>>,
    /// Those of them that pass all the same: `on_leak` is `warn`.
    #[serde(default)]
    warned: Vec<String>,
    /// Why some checks came to no result of their own, each once.
    reasons: Vec<(Verdict, Reason)>,
    unowned: Amount,
    allowed: Amount,
    notes: Vec<(String, u64)>,
}

/// So many tests of a verdict are named.
const NAMED: usize = 20;

/// So many, of so many bytes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Amount {
    count: u64,
    bytes: u64,
}

impl Amount {
    fn add(&mut self, count: u64, bytes: u64) {
        // A run file may name any number.
        self.count = self.count.saturating_add(count);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl Summary {
    /// Counts a finished check.
    pub fn add(&mut self, report: &Report) {
        *self.verdicts.entry(report.verdict).or_default() += 1;
        if report.verdict.is_failure() && report.verdict != Verdict::Aborted {
            self.name(report.verdict, &report.test);
        }
        if report.is_only_warned() {
            add_once(&mut self.warned, &report.test);
        }
        if let Some(reason) = &report.reason {
            self.add_reason(report.verdict, reason);
        }
        let is_allowed = |finding: &&Finding| finding.verdict == Verdict::Allowed;
        for finding in report.findings.iter().filter(is_allowed) {
            self.allowed.add(finding.count, finding.bytes);
        }
        // One with other findings is printed whole, its notes included.
        if report.findings.iter().all(|finding| is_allowed(&finding)) {
            for note in &report.notes {
                self.note(note);
            }
        }
    }

    fn add_reason(&mut self, verdict: Verdict, reason: &Reason) {
        let reason = (verdict, reason.clone());
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }

    /// Adds what another process counted.
    pub fn merge(&mut self, other: &Self) {
        for (verdict, number) in &other.verdicts {
            *self.verdicts.entry(*verdict).or_default() += number;
        }
        for (verdict, tests) in &other.named {
            for test in tests {
                self.name(*verdict, test);
            }
        }
        for test in &other.warned {
            add_once(&mut self.warned, test);
        }
        for (verdict, reason) in &other.reasons {
            self.add_reason(*verdict, reason);
        }
        self.add_unowned(other.unowned.count, other.unowned.bytes);
        self.allowed.add(other.allowed.count, other.allowed.bytes);
        for (note, times) in &other.notes {
            for _ in 0..*times {
                self.note(note);
            }
        }
    }

    /// Counts a check that began and will not end, for the process does.
    pub fn add_aborted(&mut self, test: &str) {
        *self.verdicts.entry(Verdict::Aborted).or_default() += 1;
        self.name(Verdict::Aborted, test);
    }

    /// Whether a test of this name is among the aborted ones.
    #[must_use]
    pub fn has_aborted(&self, test: &str) -> bool {
        let aborted = self.named.get(&Verdict::Aborted);
        aborted.is_some_and(|tests| tests.iter().any(|known| known == test))
    }

    fn name(&mut self, verdict: Verdict, test: &str) {
        add_once(self.named.entry(verdict).or_default(), test);
    }

    /// Counts `count` allocations, `bytes` together, that no check owns.
    pub fn add_unowned(&mut self, count: u64, bytes: u64) {
        self.unowned.add(count, bytes);
    }

    /// Adds a sentence; the same one again is only counted.
    pub fn note(&mut self, sentence: &str) {
        match self.notes.iter_mut().find(|(known, _)| known == sentence) {
            Some((_, times)) => *times += 1,
            None => self.notes.push((sentence.to_owned(), 1)),
        }
    }

    /// The lines, without the last end of line; none when there is nothing to say.
    ///
    /// ```text
    /// gpu-leak-check: 12 checked: 10 clean, 1 leaked, 1 first-use; 2 not measured (no GPU)
    ///   leaked: optim::adam_frees_everything
    ///   no GPU: this process loaded no CUDA driver; run it on a machine with a GPU
    ///   3 allocations, 1.00 MiB by threads outside every check: `Scope` takes a test along to …
    /// ```
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let with_verdict = |(verdict, tests): (&Verdict, &Vec<String>)| {
            format!("{}: {}", verdict.name(), named(tests))
        };
        let mut lines: Vec<_> = self.named.iter().map(with_verdict).collect();
        if !self.warned.is_empty() {
            let tests = named(&self.warned);
            lines.push(format!("only warned, for `on_leak` is \"warn\": {tests}"));
        }
        for (_, reason) in &self.reasons {
            let told = format!("{}; {}", reason.what, reason.remedy);
            lines.push(format!(
                "{}: {}",
                words(&reason.code),
                escape::sentence(&told)
            ));
        }
        if self.unowned.count > 0 {
            lines.push(format!(
                "{}, {} by threads outside every check: `Scope` takes a test along to them, \
                 `isolate` gives it a process of its own",
                quantity(self.unowned.count, "allocation"),
                exact_size(self.unowned.bytes)
            ));
        }
        if self.allowed.count > 0 {
            lines.push(format!(
                "{}, {} allowed to stay",
                quantity(self.allowed.count, "object"),
                exact_size(self.allowed.bytes)
            ));
        }
        for (note, times) in &self.notes {
            let times = if *times > 1 {
                format!(" ({} times)", count(*times))
            } else {
                String::new()
            };
            lines.push(format!("{}{times}", escape::sentence(note)));
        }
        if lines.is_empty() && self.verdicts.is_empty() {
            return None;
        }
        lines.insert(0, format!("gpu-leak-check: {}", self.counts()));
        Some(lines.join("\n  "))
    }

    /// `12 checked: 10 clean, 1 leaked, 1 first-use; 2 not measured (no GPU)`
    fn counts(&self) -> String {
        let mut verdicts = self.verdicts.clone();
        let unmeasured = verdicts.remove(&Verdict::NotMeasured);
        let mut text = match verdicts.values().sum() {
            0 => "nothing checked".to_owned(),
            checked => format!("{} checked: ", count(checked)),
        };
        // The usual first, then the worst.
        let clean = verdicts.remove_entry(&Verdict::Clean);
        let parts: Vec<_> = clean
            .into_iter()
            .chain(verdicts)
            .map(|(verdict, number)| {
                format!("{} {}{}", count(number), verdict.name(), self.why(verdict))
            })
            .collect();
        text += &parts.join(", ");
        if let Some(number) = unmeasured {
            text += &format!(
                "; {} not measured{}",
                count(number),
                self.why(Verdict::NotMeasured)
            );
        }
        text
    }

    /// ` (no GPU, unheard)`
    fn why(&self, verdict: Verdict) -> String {
        let mut words = Vec::new();
        for (_, reason) in self.reasons.iter().filter(|(of, _)| *of == verdict) {
            let reason = self::words(&reason.code);
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

fn add_once(tests: &mut Vec<String>, test: &str) {
    if !tests.iter().any(|known| known == test) {
        tests.push(test.to_owned());
    }
}

/// `optim::adam, train::step and 3 more`
fn named(tests: &[String]) -> String {
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

/// `unheard function` of `unheard-function`.
fn words(code: &str) -> String {
    let word = |word| match word {
        "gpu" => "GPU".to_owned(),
        "cuda" => "CUDA".to_owned(),
        other => escape::name(other),
    };
    code.split('-').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
