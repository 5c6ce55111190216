//! `cargo gpu-leak explain`: what a term of a report means, and what to do about it.

use std::fmt::Write;

use crate::arguments::Explain;
use crate::exit::{Exit, ExitResult, Failure};
use crate::explanations::{self, DRIVER_ERRORS, EXPLANATIONS, Explanation};
use crate::output::{Stream, print, wrapped};

/// The minimum similarity of a term that is suggested for an unknown one.
const SIMILAR: f64 = 0.75;

pub(crate) fn run(asked: &Explain) -> ExitResult<Exit> {
    let text = match &asked.code[..] {
        [] => all(Stream::Output.width()),
        words => one(&words.join(" "), Stream::Output.width()).map_err(Failure::usage)?,
    };
    print(&text);
    Ok(Exit::Clean)
}

fn one(code: &str, width: usize) -> Result<String, String> {
    let code = code.trim_end_matches(':').split_whitespace();
    let code = &*code.collect::<Vec<_>>().join("-");
    let number = DRIVER_ERRORS.iter().find(|(number, _)| *number == code);
    let code = number.map_or(code, |(_, name)| name);
    let Some(word) = explanations::of(code) else {
        return Err(unknown(code));
    };
    let mut lines = vec![word.code.to_owned(), String::new()];
    lines.extend(wrapped(word.means, 2, 2, width));
    lines.push(String::new());
    lines.extend(wrapped(word.remedy, 2, 2, width));
    Ok(lines.join("\n") + "\n")
}

fn unknown(code: &str) -> String {
    let similarity =
        |word: &&Explanation| strsim::jaro_winkler(&word.code.to_lowercase(), &code.to_lowercase());
    let mut near: Vec<_> = EXPLANATIONS
        .iter()
        .filter(|word| similarity(word) > SIMILAR)
        .collect();
    near.sort_by(|left, right| similarity(right).total_cmp(&similarity(left)));
    let near: Vec<_> = near.iter().take(3).map(|word| word.code).collect();
    let code = gpu_leak_check::report::escape::name(code);
    if near.is_empty() {
        return format!("no report uses `{code}`; `cargo gpu-leak explain` lists all terms");
    }
    format!("no report uses `{code}`; similar: {}", near.join(", "))
}

/// Returns each term with the beginning of its explanation, on one line of this width.
fn all(width: usize) -> String {
    let longest = EXPLANATIONS.iter().map(|word| word.code.len()).max();
    let longest = longest.unwrap_or_default();
    let mut text = String::new();
    for word in EXPLANATIONS {
        let line = format!("{:longest$}  {}", word.code, word.means);
        let line = match line.char_indices().nth(width.saturating_sub(1)) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::fmt::Write;
    use std::fs;

    use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
    use gpu_leak_check::report::{Code, details};

    use super::{DRIVER_ERRORS, EXPLANATIONS, Explanation, all, one};
    use crate::render::sample;

    /// The page of the book that contains all explanations.
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/messages.md");

    /// If this variable is set, the test writes the page.
    const BLESS: &str = "README_BLESS";

    fn statuses() -> impl Iterator<Item = CheckStatus> {
        let others = [
            CheckStatus::Inconclusive,
            CheckStatus::NotMeasured,
            CheckStatus::Unexpected,
            CheckStatus::Aborted,
            CheckStatus::Clean,
        ];
        let kinds = FindingKind::ALL.iter().copied().map(CheckStatus::Found);
        kinds.chain(others)
    }

    /// Returns the chapter of the page that an explanation belongs to.
    fn chapter(explanation: &Explanation) -> usize {
        let code = explanation.code;
        match code {
            _ if statuses().any(|status| status.name() == code) => 0,
            _ if Code::ALL.iter().any(|reason| reason.name() == code) => 1,
            _ if code.starts_with("CUDA_ERROR_") => 3,
            _ => 2,
        }
    }

    fn page() -> String {
        let mut page = String::from(
            "# Troubleshooting by message\n\n\
             The words that reports and summaries use, with what they mean and what to do. `cargo gpu-leak explain \
             WORD`\nprints the same. Reports write spaces for hyphens, and `explain` takes both: *no GPU* is `no-gpu`. \
             Problems without a\nmessage are on the page [by symptom](troubleshooting.md).\n",
        );
        let chapters = [
            "Results of a check",
            "Why a check could not measure",
            "Other words of reports and summaries",
            "Errors of the CUDA driver",
        ];
        for (number, title) in chapters.into_iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = write!(page, "\n## {title}\n");
            for word in EXPLANATIONS.iter().filter(|word| chapter(word) == number) {
                let code = word.code;
                let (means, remedy) = (with_code(word.means), with_code(word.remedy));
                let error = DRIVER_ERRORS.iter().find(|(_, name)| *name == code);
                let error =
                    error.map_or_else(String::new, |(number, _)| format!("Error {number}. "));
                let _ = write!(
                    page,
                    "\n### `{code}`\n\n{error}{means}\n\n*What to do:* {remedy}\n"
                );
            }
        }
        page
    }

    /// Returns `text` with attributes and the names of tables marked as code. A terminal shows them
    /// unmarked.
    fn with_code(text: &str) -> String {
        let opens = |rest: &str| rest.starts_with("#[") || rest.starts_with("[[");
        let mut page = String::new();
        let mut rest = text;
        while let Some(start) =
            (0..rest.len()).find(|&at| rest.is_char_boundary(at) && opens(&rest[at..]))
        {
            let mut depth = 0;
            let closes = |letter: char| {
                depth += i32::from(letter == '[') - i32::from(letter == ']');
                letter == ']' && depth == 0
            };
            let end = rest[start..].find(closes).expect("the brackets match");
            let (before, code) = (&rest[..start], &rest[start..=start + end]);
            let is_quoted = before.matches('`').count() % 2 == 1;
            let quote = if is_quoted { "" } else { "`" };
            page.extend([before, quote, code, quote]);
            rest = &rest[start + end + 1..];
        }
        page + rest
    }

    #[test]
    fn the_page_of_messages_has_every_explanation() {
        if env::var_os(BLESS).is_some() {
            fs::write(PAGE, page()).expect("the page is written");
        }
        let present = fs::read_to_string(PAGE).expect("the page");
        assert!(
            present == page(),
            "docs/messages.md is out of date: run this test once with {BLESS}=1"
        );
    }

    #[test]
    fn every_kind_of_finding_and_every_status_is_explained() {
        for status in statuses() {
            assert!(one(status.name(), 80).is_ok(), "{}", status.name());
        }
    }

    #[test]
    fn every_reason_a_check_may_give_is_explained() {
        for code in Code::ALL.iter().filter(|code| **code != Code::Unknown) {
            assert!(one(code.name(), 80).is_ok(), "{}", code.name());
        }
    }

    #[test]
    fn a_word_is_explained_once() {
        let mut codes: Vec<_> = EXPLANATIONS.iter().map(|word| word.code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), EXPLANATIONS.len(), "{}", all(80));
    }

    #[test]
    fn the_list_explains_each_word_and_a_number_is_a_cuda_error() {
        let list = all(80);
        assert!(
            list.contains("  Something that the test allocated"),
            "{list}"
        );
        assert!(
            list.lines().all(|line| line.chars().count() <= 80),
            "{list}"
        );
        let error = one("700", 80).expect("known");
        assert!(error.starts_with("CUDA_ERROR_ILLEGAL_ADDRESS"), "{error}");
        for word in ["held-by", "expired", "unchecked", "unmatched"] {
            assert!(one(word, 80).is_ok(), "{word}");
        }
    }

    #[test]
    fn a_word_may_have_spaces_instead_of_hyphens() {
        for (words, code) in [
            ("held by", "held-by"),
            ("first  use", "first-use"),
            ("not measured", "not-measured"),
            ("No GPU", "no-gpu"),
            ("outside every check", "outside-every-check"),
            ("denied:", "denied"),
        ] {
            assert_eq!(one(words, 80), one(code, 80), "{words}");
            assert!(one(words, 80).is_ok(), "{words}");
        }
    }

    /// The words are the labels of a finding, the columns and figures of the table, and the words
    /// with which other lines begin.
    #[test]
    fn every_word_of_a_report_is_explained() {
        for word in [
            "held by",
            "called by",
            "allocated",
            "others",
            "was in",
            "with it",
            "also",
            "reuse",
            "thread",
            "order",
            "when",
            "rounds",
            "confirmed",
            "known",
            "note",
            "layer",
            "baseline",
            "after",
            "difference",
            "peak",
            "reserved",
            "handles",
            "device used",
            "fingerprint",
            "again",
            "help",
            "denied",
        ] {
            assert!(one(word, 80).is_ok(), "{word}");
        }
        for (_, word) in super::super::diff::STATUSES {
            assert!(one(word, 80).is_ok(), "{word}");
        }
        // These are the labels in a report that contains every kind of result.
        let run = sample::mixed();
        let findings = run.reports().flat_map(|report| &report.findings);
        for (label, _) in findings.flat_map(|finding| details(finding, "")) {
            assert!(one(label, 80).is_ok(), "{label}");
        }
    }

    #[test]
    fn an_unknown_word_suggests_the_nearest_one() {
        let message = one("unherd", 80).expect_err("unknown");
        assert!(message.contains("similar: unheard"), "{message}");
        let message = one("xyzzy", 80).expect_err("unknown");
        assert!(message.contains("lists all terms"), "{message}");
    }

    #[test]
    fn an_explanation_gives_the_meaning_and_advice() {
        insta::assert_snapshot!(one("cuda_error_invalid_context", 60).expect("known"));
    }
}
