//! `cargo gpu-leak explain`: what a term of a report means, and what to do about it.

use std::fmt::Write;

use gpu_leak_check::report::escape;

use crate::arguments::Explain;
use crate::exit::{Exit, ExitResult, Failure};
use crate::output::{Stream, print, wrapped};

/// The page of the book that explains all terms: docs/messages.md.
const PAGE: &str = include_str!(env!("GPU_LEAK_MESSAGES"));

/// The minimum similarity of a term that is suggested for an unknown one.
const SIMILAR: f64 = 0.75;

/// A term that reports use, with hyphens in place of spaces.
struct Explanation {
    term: &'static str,
    means: String,
    remedy: String,
}

impl Explanation {
    /// Reads the lines of a section of the page: the term, what it means, and what to do.
    fn of(section: &'static str) -> Option<Self> {
        let mut lines = section.lines().filter(|line| !line.is_empty());
        Some(Self {
            term: lines.next()?.trim_matches('`'),
            means: without_marks(lines.next()?),
            remedy: without_marks(lines.next()?.strip_prefix("*What to do:* ")?),
        })
    }
}

/// Returns the explanations in the order of the page.
fn explanations() -> Vec<Explanation> {
    let sections = PAGE.split("\n### ").skip(1);
    sections.filter_map(Explanation::of).collect()
}

/// Removes the backticks around attributes and the names of tables, which a terminal shows without
/// them. Other code keeps its backticks.
fn without_marks(text: &str) -> String {
    let mut shown = String::new();
    for (number, part) in text.split('`').enumerate() {
        match number % 2 {
            1 if !part.starts_with("#[") && !part.starts_with("[[") => {
                shown.extend(["`", part, "`"]);
            }
            _ => shown += part,
        }
    }
    shown
}

pub(crate) fn run(args: &Explain) -> ExitResult<Exit> {
    let text = match &args.words[..] {
        [] => all(Stream::Output.width()),
        words => one(&words.join(" "), Stream::Output.width()).map_err(Failure::usage)?,
    };
    print(&text);
    Ok(Exit::Clean)
}

/// Explains a term, regardless of the case of its letters, or the driver error with this number.
fn one(term: &str, width: usize) -> Result<String, String> {
    let term = term.trim_end_matches(':');
    // In `inconclusive (no probe)`, as in a report, the reason says more than the status.
    let reason = term
        .split_once(" (")
        .and_then(|(_, reason)| reason.strip_suffix(')'));
    let words = reason.unwrap_or(term).split_whitespace();
    let term = &*words.collect::<Vec<_>>().join("-");
    // Once the driver has shut down, it cannot be asked for the name of an error, so reports show
    // the number.
    let number = term.strip_prefix("CUresult-").unwrap_or(term);
    let number = format!("Error {number}. ");
    let is_meant =
        |it: &Explanation| it.term.eq_ignore_ascii_case(term) || it.means.starts_with(&number);
    let Some(explanation) = explanations().into_iter().find(is_meant) else {
        return Err(unknown(term));
    };
    let mut lines = vec![explanation.term.to_owned(), String::new()];
    lines.extend(wrapped(&explanation.means, 2, 2, width));
    lines.push(String::new());
    lines.extend(wrapped(&explanation.remedy, 2, 2, width));
    Ok(lines.join("\n") + "\n")
}

fn unknown(term: &str) -> String {
    let similarity =
        |known: &&str| strsim::jaro_winkler(&known.to_lowercase(), &term.to_lowercase());
    let terms = explanations().into_iter().map(|it| it.term);
    let mut near: Vec<_> = terms.filter(|known| similarity(known) > SIMILAR).collect();
    near.sort_by(|left, right| similarity(right).total_cmp(&similarity(left)));
    near.truncate(3);
    let term = escape::name(term);
    if near.is_empty() {
        return format!("`{term}` is not explained; `cargo gpu-leak explain` lists all terms");
    }
    format!("`{term}` is not explained; similar: {}", near.join(", "))
}

/// Returns each term with the beginning of its explanation, on one line of this width.
fn all(width: usize) -> String {
    let explanations = explanations();
    let longest = explanations.iter().map(|it| it.term.len()).max();
    let longest = longest.unwrap_or_default();
    let mut text = String::new();
    for Explanation { term, means, .. } in explanations {
        let line = format!("{term:longest$}  {means}");
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
    use std::collections::BTreeSet;

    use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
    use gpu_leak_check::report::{Code, details};

    use super::{PAGE, all, explanations, one};
    use crate::render::sample;

    /// Returns the terms in the chapter of the page with this title.
    fn chapter(title: &str) -> BTreeSet<&'static str> {
        let mut chapters = PAGE.split("\n## ");
        let chapter = chapters.find(|chapter| chapter.starts_with(title));
        let sections = chapter.expect("a chapter").split("\n### `").skip(1);
        let term = |section: &'static str| section.split_once('`').map(|(term, _)| term);
        sections.filter_map(term).collect()
    }

    #[test]
    fn every_section_of_the_page_is_a_heading_and_two_lines() {
        let explained = explanations();
        assert!(explained.len() > 80, "{}", explained.len());
        let sections = PAGE.split("\n### ").skip(1);
        for section in sections {
            let (section, _) = section.split_once("\n## ").unwrap_or((section, ""));
            let lines: Vec<_> = section.trim_end().lines().collect();
            let [term, "", means, "", remedy] = lines[..] else {
                panic!("not three paragraphs of one line: {section}");
            };
            assert!(term.starts_with('`') && term.ends_with('`'), "{term}");
            for text in [means, remedy] {
                assert!(text.matches('`').count().is_multiple_of(2), "{text}");
                assert!(
                    !text.contains("]("),
                    "a terminal cannot follow a link: {text}"
                );
            }
            let term = term.trim_matches('`');
            let found = explained.iter().filter(|it| it.term == term);
            assert_eq!(found.count(), 1, "{term}");
        }
    }

    #[test]
    fn every_status_has_a_section_and_so_has_every_reason() {
        let kinds = FindingKind::ALL.iter().copied().map(CheckStatus::Found);
        let statuses = kinds.chain([
            CheckStatus::Inconclusive,
            CheckStatus::NotMeasured,
            CheckStatus::Unexpected,
            CheckStatus::Aborted,
            CheckStatus::Clean,
        ]);
        let statuses = statuses.map(|status| status.name()).collect();
        assert_eq!(chapter("Results of a check"), statuses);
        let reasons = Code::ALL.iter().filter(|code| **code != Code::Unknown);
        let reasons = reasons.map(|code| code.name()).collect();
        assert_eq!(chapter("Why a check has no result"), reasons);
    }

    #[test]
    fn errors_of_vulkan_can_be_found() {
        let errors = chapter("Errors of Vulkan");
        assert!(
            errors.contains("VK_ERROR_OUT_OF_DEVICE_MEMORY"),
            "{errors:?}"
        );
        for error in errors {
            assert!(one(&error.to_lowercase(), 80).is_ok(), "{error}");
        }
    }

    #[test]
    fn every_error_of_the_driver_can_be_found_by_its_number() {
        let errors = chapter("Errors of the CUDA driver");
        assert!(errors.len() > 10, "{errors:?}");
        for error in errors {
            let explanation = one(error, 80).expect("known");
            let number = explanation.split_once("\n\n  Error ");
            let (number, _) = number
                .expect("a number")
                .1
                .split_once('.')
                .expect("its end");
            assert_eq!(one(number, 80).as_ref(), Ok(&explanation), "{error}");
            assert_eq!(one(&format!("CUresult {number}"), 80), Ok(explanation));
        }
    }

    #[test]
    fn a_terminal_shows_attributes_and_tables_without_backticks() {
        for (term, shown) in [
            (
                "leaked",
                "allow it: #[gpu_leak_check(allow(\"fn:optim::Adam::step\"",
            ),
            ("leaked", "an [[allow]] entry in gpu-leak-check.toml"),
            ("unexpected", "once: `warmup = 1` excludes it."),
        ] {
            let explanation = one(term, 1000).expect("known");
            assert!(explanation.contains(shown), "{explanation}");
        }
    }

    #[test]
    fn the_list_explains_each_word_and_a_number_is_a_cuda_error() {
        let list = all(80);
        assert!(list.contains("  Something that the test created"), "{list}");
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
    fn a_word_may_be_written_as_in_a_report() {
        for (words, term) in [
            ("held by", "held-by"),
            ("first  use", "first-use"),
            ("not measured", "not-measured"),
            ("No GPU", "no-gpu"),
            ("outside any check", "outside-any-check"),
            ("denied:", "denied"),
            ("inconclusive (no probe):", "no-probe"),
        ] {
            assert_eq!(one(words, 80), one(term, 80), "{words}");
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
