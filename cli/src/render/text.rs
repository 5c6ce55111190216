//! Text for a terminal.

use gpu_leak_check::report::check_report::Finding;
use gpu_leak_check::report::{at_its_line, details, escape, peak_lines};
use gpu_leak_check::units::{quantity, size, total};

use super::{Settings, title};
use crate::output::{test_names, wrapped};
use crate::overview::{Group, Overview, Peak};

/// How many findings are shown; the others are counted.
const MAX_FINDINGS: usize = 20;
/// The maximum number of tests that are named for a finding.
const MAX_NAMES: usize = 5;
/// How many peaks are shown; the others are counted.
const MAX_PEAKS: usize = 12;
/// The width of the column of labels.
const LABEL: usize = 15;

pub(super) fn render(overview: &Overview<'_>, how: &Settings) -> String {
    let width = how.width;
    let mut lines = Vec::new();
    match overview.summary.text() {
        Some(text) => {
            for line in text.lines() {
                lines.extend(wrapped(
                    line.trim_start(),
                    indent(line),
                    indent(line) + 2,
                    width,
                ));
            }
        }
        None => lines.push("gpu-leak-check: no check ran".to_owned()),
    }
    for group in overview.groups.iter().take(MAX_FINDINGS) {
        lines.push(String::new());
        lines.extend(finding(group, width));
    }
    if let Some(rest @ [_, ..]) = overview.groups.get(MAX_FINDINGS..) {
        let bytes = total(rest.iter().map(|group| group.finding.bytes));
        lines.push(String::new());
        lines.push(format!(
            "… and {}, {}: use --format csv to list them all",
            quantity(rest.len() as u64, "more finding"),
            size(bytes)
        ));
    }
    lines.extend(peaks(overview, width));
    lines.extend(live_at_peaks(overview, width));
    for report in overview.run.reports() {
        for graph in &report.graphs {
            let sentence = escape::sentence(&graph.sentence());
            let sentence = format!("in {}, {sentence}", escape::name(&report.test));
            lines.push(String::new());
            lines.extend(wrapped(&sentence, 0, 2, width));
        }
    }
    if !overview.run.problems.is_empty() {
        lines.push(String::new());
    }
    for problem in &overview.run.problems {
        let note = format!("note: {}", escape::sentence(problem));
        lines.extend(wrapped(&note, 0, 6, width));
    }
    lines.join("\n") + "\n"
}

/// Returns a finding as a paragraph.
fn finding(group: &Group<'_>, width: usize) -> Vec<String> {
    let finding = &group.finding;
    let mut lines = wrapped(&title(group), 0, 2, width);
    let mut detail = |label: &str, text: &str| {
        let line = format!("  {label:<0$}{text}", LABEL - 2);
        lines.extend(wrapped(line.trim_start(), 2, LABEL, width));
    };
    detail("on", &escape::name(&finding.place.to_string()));
    detail("at", &place(finding));
    detail("in", &test_names(&group.tests, MAX_NAMES));
    if finding
        .budget
        .as_ref()
        .is_some_and(|budget| !budget.shares.is_empty())
    {
        detail("this line", &at_its_line(finding));
    }
    let test = group.tests.first().unwrap_or(&"");
    // The caller of a wrapper is shown above.
    let callers = finding.shown_site().outside_wrapper().callers(test);
    for (label, text) in details(finding, test) {
        let shown = match label {
            "called by" => callers.as_deref().map(escape::sentence),
            _ => Some(text),
        };
        shown.into_iter().for_each(|text| detail(label, &text));
    }
    if !finding.site.fingerprint.is_empty() {
        detail("fingerprint", &escape::name(&finding.site.fingerprint));
    }
    lines
}

/// Returns, for example, `Adam::step (src/optim.rs:88)`.
fn place(finding: &Finding) -> String {
    match finding.shown_frames() {
        Some((frame, Some(wrapper))) => format!("{} through {}", frame.shown(), wrapper.shown()),
        Some((frame, None)) => frame.shown(),
        None => "an unknown place".to_owned(),
    }
}

/// Returns the table of each layer's highest peak.
fn peaks(overview: &Overview<'_>, width: usize) -> Vec<String> {
    if overview.peaks.is_empty() {
        return Vec::new();
    }
    let rows: Vec<_> = overview
        .peaks
        .iter()
        .take(MAX_PEAKS)
        .map(Peak::cells)
        .collect();
    let mut widest = [0; 5];
    for row in &rows {
        for (widest, cell) in widest.iter_mut().zip(row) {
            *widest = (*widest).max(textwrap::core::display_width(cell));
        }
    }
    let mut lines = vec![String::new(), "highest peaks".to_owned()];
    for [place, layer, figure, peak, test] in &rows {
        let pad = |cell: &str, column: usize| {
            " ".repeat(widest[column].saturating_sub(textwrap::core::display_width(cell)))
        };
        let line = format!(
            "  {place}{}  {layer}{}  {figure}{}  {}{peak}  in {test}",
            pad(place, 0),
            pad(layer, 1),
            pad(figure, 2),
            pad(peak, 3)
        );
        lines.extend(wrapped(line.trim_start(), 2, 6, width));
    }
    if let more @ 1.. = overview.peaks.len().saturating_sub(MAX_PEAKS) {
        lines.push(format!("  and {}", quantity(more as u64, "more layer")));
    }
    lines
}

/// Returns the contents of each peak, line by line.
fn live_at_peaks(overview: &Overview<'_>, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (test, peak) in overview.live_at_peaks.iter().take(MAX_PEAKS) {
        let mut about = peak_lines(peak).into_iter();
        let first = about.next().unwrap_or_default();
        let title = format!("in {}, {first}", escape::name(test));
        lines.push(String::new());
        lines.extend(wrapped(&title, 0, 2, width));
        for line in about {
            let columns = indent(&line);
            lines.extend(wrapped(line.trim_start(), columns, columns + 2, width));
        }
    }
    if let more @ 1.. = overview.live_at_peaks.len().saturating_sub(MAX_PEAKS) {
        let more = quantity(more as u64, "more peak");
        lines.push(String::new());
        lines.push(format!("and {more}: use --format html to list them all"));
    }
    lines
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}
