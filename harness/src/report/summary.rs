//! What all checks of a process came to, for its last lines.

use std::collections::BTreeMap;

use super::escape;
use super::model::{Report, Verdict};
use super::units::{count, exact_size, quantity};

/// Counts of verdicts, and what else there is to know.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    verdicts: BTreeMap<Verdict, u64>,
    reasons: Vec<Doubt>,
    unowned: Unowned,
    notes: Vec<(String, u64)>,
}

/// Why some checks came to no result of their own.
#[derive(Clone, Debug)]
struct Doubt {
    verdict: Verdict,
    code: String,
    remedy: String,
}

/// What was taken by threads outside every check.
#[derive(Clone, Copy, Debug, Default)]
struct Unowned {
    count: u64,
    bytes: u64,
}

impl Summary {
    /// Counts a finished check.
    pub fn add(&mut self, report: &Report) {
        *self.verdicts.entry(report.verdict).or_default() += 1;
        if let Some(reason) = &report.reason {
            let is_known =
                |doubt: &Doubt| (doubt.verdict, &doubt.code) == (report.verdict, &reason.code);
            if !self.reasons.iter().any(is_known) {
                self.reasons.push(Doubt {
                    verdict: report.verdict,
                    code: reason.code.clone(),
                    remedy: reason.remedy.clone(),
                });
            }
        }
        // One with findings is printed whole, its notes included.
        if report.findings.is_empty() {
            for note in &report.notes {
                self.note(note);
            }
        }
    }

    /// Counts `count` allocations, `bytes` together, that no check owns.
    pub fn add_unowned(&mut self, count: u64, bytes: u64) {
        self.unowned.count += count;
        self.unowned.bytes += bytes;
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
    ///   no GPU: run this test on a machine with a GPU
    ///   3 allocations, 1.00 MiB by threads outside every check
    /// ```
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let mut lines = Vec::new();
        for doubt in &self.reasons {
            lines.push(format!(
                "{}: {}",
                words(&doubt.code),
                escape::sentence(&doubt.remedy)
            ));
        }
        if self.unowned.count > 0 {
            lines.push(format!(
                "{}, {} by threads outside every check",
                quantity(self.unowned.count, "allocation"),
                exact_size(self.unowned.bytes)
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

    /// ` (no GPU, no CUPTI)`
    fn why(&self, verdict: Verdict) -> String {
        let reasons = self.reasons.iter().filter(|doubt| doubt.verdict == verdict);
        let words: Vec<_> = reasons.map(|doubt| words(&doubt.code)).collect();
        if words.is_empty() {
            return String::new();
        }
        format!(" ({})", words.join(", "))
    }
}

/// `CUPTI too old` of `cupti-too-old`.
fn words(code: &str) -> String {
    let word = |word| match word {
        "gpu" => "GPU".to_owned(),
        "cuda" => "CUDA".to_owned(),
        "cupti" => "CUPTI".to_owned(),
        other => escape::name(other),
    };
    code.split('-').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::Summary;
    use crate::report::model::{Reason, Report, Verdict};

    fn without(code: &str, remedy: &str) -> Report {
        Report {
            reason: Some(Reason {
                code: code.to_owned(),
                what: "something is missing".to_owned(),
                remedy: remedy.to_owned(),
            }),
            ..Report::bare(Verdict::NotMeasured)
        }
    }

    fn summary(reports: impl IntoIterator<Item = Report>) -> Summary {
        let mut summary = Summary::default();
        for report in reports {
            summary.add(&report);
        }
        summary
    }

    #[test]
    fn no_checks_and_no_notes_are_no_line() {
        assert_eq!(Summary::default().text(), None);
    }

    #[test]
    fn verdicts_are_counted_the_usual_first_then_the_worst() {
        let verdicts = [
            Verdict::FirstUse,
            Verdict::Clean,
            Verdict::Leaked,
            Verdict::Clean,
        ];
        assert_eq!(
            summary(verdicts.map(Report::bare)).text().unwrap(),
            "gpu-leak-check: 4 checked: 2 clean, 1 leaked, 1 first-use",
        );
    }

    #[test]
    fn what_was_not_measured_is_never_counted_as_checked() {
        let mut reports = vec![Report::bare(Verdict::Clean)];
        reports.extend((0..2).map(|_| without("no-gpu", "use a machine with a GPU")));
        reports.push(without("no-cupti", "install cuda-cupti"));
        assert_eq!(
            summary(reports).text().unwrap(),
            "gpu-leak-check: 1 checked: 1 clean; 3 not measured (no GPU, no CUPTI)\n  \
             no GPU: use a machine with a GPU\n  \
             no CUPTI: install cuda-cupti",
        );
        assert_eq!(
            summary([without("no-gpu", "use another")]).text().unwrap(),
            "gpu-leak-check: nothing checked; 1 not measured (no GPU)\n  no GPU: use another",
        );
    }

    #[test]
    fn notes_are_told_once_and_counted() {
        let noted = || Report {
            notes: vec!["context 2 was retained once too often".to_owned()],
            ..Report::bare(Verdict::Clean)
        };
        let mut summary = summary([noted(), noted()]);
        summary.note("results are not kept\x1b");
        assert_eq!(
            summary.text().unwrap(),
            "gpu-leak-check: 2 checked: 2 clean\n  \
             context 2 was retained once too often (2 times)\n  \
             results are not kept\\u{1b}",
        );
    }

    #[test]
    fn what_nobody_owns_is_summed_up() {
        let mut summary = summary([Report::bare(Verdict::Clean)]);
        summary.add_unowned(2, 1 << 19);
        summary.add_unowned(1, 1 << 19);
        assert_eq!(
            summary.text().unwrap(),
            "gpu-leak-check: 1 checked: 1 clean\n  \
             3 allocations, 1.00 MiB by threads outside every check",
        );
    }
}
