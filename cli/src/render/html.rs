//! One page that needs nothing else: no network, no other file.
//!
//! The template escapes everything; names are made fit to print before that. The page works without
//! its script, which adds filters, the search and the choice of theme.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use askama::Template;
use gpu_leak_check::report::model::{Figure, Finding, Verdict};
use gpu_leak_check::report::{escape, what};
use gpu_leak_check::units::{count, size};

use super::{names, position};
use crate::exit::{Failure, Outcome};
use crate::overview::{Group, Overview, figure_name};

/// How many tests are named of one finding.
const NAMED: usize = 50;
/// How many lines of source stand above and below the one that is meant.
const AROUND: usize = 2;
/// Of a source line and of a file, in bytes.
const LONGEST_LINE: usize = 200;
const LARGEST_FILE: u64 = 4 * 1024 * 1024;

#[derive(Debug, Template)]
#[template(path = "report.html")]
struct Page<'run> {
    counts: String,
    summary: Vec<String>,
    problems: Vec<String>,
    aborted: Vec<String>,
    verdicts: Vec<&'static str>,
    findings: Vec<Entry>,
    peaks: Vec<Row<'run>>,
}

#[derive(Debug)]
struct Entry {
    verdict: &'static str,
    class: &'static str,
    what: String,
    at: String,
    place: String,
    tests: String,
    details: Vec<(&'static str, String)>,
    excerpt: Vec<Line>,
    stack: String,
}

/// A line of source.
#[derive(Debug)]
struct Line {
    text: String,
    /// Whether it is the one that is meant.
    taken: bool,
}

#[derive(Debug)]
struct Row<'run> {
    place: String,
    layer: String,
    figure: &'run str,
    peak: String,
    test: String,
}

/// The page, with source lines from below `root`.
pub(super) fn render(overview: &Overview<'_>, root: &Path) -> Outcome<String> {
    let text = overview.summary.text();
    let text = text.unwrap_or_else(|| "gpu-leak-check: no check ran".to_owned());
    let lines = text
        .lines()
        .map(|line| line.trim_start().trim_start_matches("gpu-leak-check: "));
    let summary: Vec<_> = lines.map(str::to_owned).collect();
    let mut of: Vec<_> = overview
        .groups
        .iter()
        .map(|it| it.finding.verdict)
        .collect();
    of.dedup();
    let mut sources = Sources::below(root);
    let page = Page {
        counts: summary.first().cloned().unwrap_or_default(),
        summary,
        problems: overview
            .problems
            .iter()
            .map(|it| escape::sentence(it))
            .collect(),
        aborted: overview
            .aborted
            .iter()
            .map(|test| escape::name(test))
            .collect(),
        verdicts: of.into_iter().map(Verdict::name).collect(),
        findings: overview
            .groups
            .iter()
            .map(|group| entry(group, &mut sources))
            .collect(),
        peaks: overview
            .peaks
            .iter()
            .map(|peak| Row {
                place: escape::name(&peak.place),
                layer: escape::name(peak.layer),
                figure: figure_name(peak.figure),
                peak: match peak.figure {
                    Figure::Handles => count(peak.peak),
                    Figure::Allocated | Figure::Reserved => size(peak.peak),
                },
                test: escape::name(peak.test),
            })
            .collect(),
    };
    page.render()
        .map_err(|why| Failure::usage(format!("the page cannot be written: {why}")))
}

fn entry(group: &Group<'_>, sources: &mut Sources) -> Entry {
    let finding = &group.finding;
    let site = finding
        .failed
        .as_ref()
        .map_or(&finding.site, |failed| &failed.site);
    let frames: Vec<_> = site.frames.iter().map(|frame| frame.shown()).collect();
    let excerpt = match position(finding) {
        Some((file, Some(line), _)) => sources.excerpt(file, line),
        _ => Vec::new(),
    };
    Entry {
        verdict: finding.verdict.name(),
        class: match finding.verdict {
            Verdict::Allowed => "good",
            verdict if verdict.is_failure() => "bad",
            _ => "told",
        },
        what: what(finding),
        at: site.location(),
        place: escape::name(&finding.place.to_string()),
        tests: names(&group.tests, NAMED),
        details: details(finding),
        excerpt,
        stack: frames.join("\n"),
    }
}

fn details(finding: &Finding) -> Vec<(&'static str, String)> {
    let mut details = vec![("layer", escape::name(&finding.layer.to_string()))];
    if finding.bytes > 0 {
        details.push(("bytes", count(finding.bytes)));
    }
    if finding.taken > 0 {
        let back = count(finding.given_back);
        details.push((
            "taken",
            format!("{}, given back {back}", count(finding.taken)),
        ));
    }
    if let Some(failed) = &finding.failed {
        details.push((
            "error",
            format!("{} ({})", escape::name(&failed.error), failed.code),
        ));
        details.push(("taken at", finding.site.location()));
    }
    if let Some(library) = &finding.site.library {
        details.push(("held by", escape::name(&library.name)));
        if let Some(known) = &library.known {
            details.push(("known", escape::sentence(&known.says)));
        }
    }
    if let Some(thread) = &finding.foreign_thread {
        details.push(("thread", escape::name(thread)));
    }
    details.extend(
        finding
            .notes
            .iter()
            .map(|note| ("note", escape::sentence(note))),
    );
    if !finding.site.fingerprint.is_empty() {
        details.push(("fingerprint", escape::name(&finding.site.fingerprint)));
    }
    details
}

/// Source files, each read once.
#[derive(Debug)]
struct Sources {
    root: PathBuf,
    files: HashMap<String, Vec<String>>,
}

impl Sources {
    fn below(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            files: HashMap::new(),
        }
    }

    /// The line `number` of `file` and those around it; nothing where it cannot be read.
    fn excerpt(&mut self, file: &str, number: u32) -> Vec<Line> {
        let root = &self.root;
        let lines = self
            .files
            .entry(file.to_owned())
            .or_insert_with(|| lines_of(root, file).unwrap_or_default());
        let number = number as usize;
        if number == 0 || number > lines.len() {
            return Vec::new();
        }
        let first = number.saturating_sub(AROUND).max(1);
        let last = (number + AROUND).min(lines.len());
        let width = last.to_string().len();
        let line = |at: usize| Line {
            text: format!("{at:>width$}  {}", lines[at - 1]),
            taken: at == number,
        };
        (first..=last).map(line).collect()
    }
}

/// The lines of a file inside `root`: a run's file may have been written anywhere, and must not
/// have other files shown.
fn lines_of(root: &Path, file: &str) -> Option<Vec<String>> {
    let is_inside = Path::new(file)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let path = fs::canonicalize(root.join(file)).ok()?;
    let root = fs::canonicalize(root).ok()?;
    let is_source = path.extension().is_some_and(|end| {
        ["rs", "c", "cc", "cpp", "cu", "cuh", "h", "hpp", "py"]
            .iter()
            .any(|known| end == *known)
    });
    let data = path.metadata().ok()?;
    if !is_inside || !path.starts_with(root) || !is_source || data.len() > LARGEST_FILE {
        return None;
    }
    let text = String::from_utf8_lossy(&fs::read(path).ok()?).into_owned();
    let shown = |line: &str| {
        let line = line.replace('\t', "    ");
        let cut: String = line.chars().take(LONGEST_LINE).collect();
        escape::sentence(cut.trim_end())
    };
    Some(text.lines().map(shown).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Overview, lines_of, render};
    use crate::render::sample;

    #[test]
    fn a_page_shows_the_source_line_between_its_neighbours() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir(root.path().join("src")).expect("a folder");
        let lines: Vec<_> = (1..=100).map(|at| format!("line<{at}>")).collect();
        fs::write(root.path().join("src/optim.rs"), lines.join("\n")).expect("a file");
        let run = sample::mixed();
        let page = render(&Overview::of(&run), root.path()).expect("a page");
        assert!(page.contains("<mark>88  line&#60;88&#62;</mark>"), "{page}");
        assert!(page.contains("86  line&#60;86&#62;") && page.contains("90  line&#60;90&#62;"));
        assert!(!page.contains("line&#60;91&#62;"), "{page}");
    }

    #[test]
    fn no_file_outside_the_workspace_is_shown() {
        let outside = tempfile::tempdir().expect("a folder");
        let root = outside.path().join("w");
        fs::create_dir(&root).expect("a folder");
        let secret = outside.path().join("secret.rs");
        fs::write(&secret, "secret\n").expect("a file");
        fs::write(root.join(".env"), "secret\n").expect("a file");
        assert_eq!(lines_of(&root, "../secret.rs"), None);
        assert_eq!(lines_of(&root, secret.to_str().expect("a path")), None);
        assert_eq!(lines_of(&root, ".env"), None);
        fs::write(root.join("a.rs"), "shown\n").expect("a file");
        assert_eq!(lines_of(&root, "a.rs"), Some(vec!["shown".to_owned()]));
    }

    #[test]
    fn nothing_in_a_name_is_markup_or_leaves_the_page() {
        let run = sample::hostile();
        let page = render(&Overview::of(&run), "/nowhere".as_ref()).expect("a page");
        assert_eq!(page.matches("<script>").count(), 1, "the page's own");
        assert!(!page.contains('\u{202e}') && !page.contains('\x1b'));
        assert!(!page.contains("http://") && !page.contains("https://"));
    }
}
