//! Renders a report as text for people.

use std::fmt::{self, Write};
use std::sync::Arc;

use super::check_report::{CheckStatus, DeviceTable, Finding, Report};
use super::peak::peak_lines;
use super::places::with_one_file_once;
use super::screen::Screen;
pub use super::style::Rendering;
use super::style::Style;
use super::{escape, finding, headline, help, table};
use crate::units::{exact_size, quantity, total};

/// The largest number of findings that are shown in full.
const MAX_FINDINGS: usize = 10;
/// The shortest wait for other checks that is shown, in milliseconds.
const LONG_WAIT: u64 = 1000;

/// Renders `report` to a string. Control characters in names are escaped.
///
/// ```
/// use gpu_leak_check::Scope;
/// use gpu_leak_check::report::text::{self, Rendering};
///
/// let report = Scope::open("step").finish();
/// println!("{}", text::to_string(&report, &Rendering::for_stderr()));
/// ```
#[must_use]
pub fn to_string(report: &Report, how: &Rendering) -> String {
    let mut screen = Screen::default();
    // Writing to a string cannot fail.
    let _ = write(report, how, &mut screen);
    let causes = report.findings.iter().filter(|it| !it.is_consequence);
    match causes.count() {
        1 => {
            let at = (report.file.as_str(), report.line, report.column);
            screen.fitted(&panic_message(&report.test, at, &headline(report)))
        }
        _ => screen.whole(),
    }
}

/// Returns what a panic of `test` at this file, line and column would print.
pub(crate) fn panic_message(test: &str, at: (&str, u32, u32), headline: &str) -> String {
    let (file, line, column) = at;
    format!("\nthread '{test}' panicked at {file}:{line}:{column}: {headline}\n")
}

/// Prints to standard error, where the test's output is expected.
#[expect(
    clippy::print_stderr,
    reason = "libtest captures this output and shows it with the test"
)]
pub(crate) fn tell(text: &str) {
    eprintln!("{text}");
}

/// Renders only the tables of the devices.
pub(crate) fn tables(devices: &[DeviceTable], style: Style) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = table::write(devices, style, &mut text);
    text
}

/// Writes `report`: the reason for its status, its findings, one table for each device, and what to
/// do.
fn write(report: &Report, how: &Rendering, out: &mut Screen) -> fmt::Result {
    if report.findings.is_empty() || report.reason.is_some() {
        write_status(report, how, out)?;
        if !report.findings.is_empty() {
            writeln!(out)?;
        }
    }
    let reported: Vec<_> = report
        .findings
        .iter()
        .filter(|it| !it.is_consequence)
        .collect();
    for (at, finding) in reported.iter().take(MAX_FINDINGS).enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        finding::write(finding, report, how, out)?;
    }
    write_rest(reported.get(MAX_FINDINGS..).unwrap_or_default(), out)?;
    table::write(&report.devices, how.style, out)?;
    for peak in &report.peaks {
        writeln!(out)?;
        for line in peak_lines(peak) {
            writeln!(out, "{line}")?;
        }
    }
    for graph in &report.graphs {
        writeln!(out, "\n{}", escape::sentence(&graph.sentence()))?;
    }

    let notes = notes(report);
    let remedies = help::remedies(report);
    let advice = help::if_meant_to_stay(report);
    // There is no reason to run a clean check again.
    let again = report
        .again
        .as_ref()
        .filter(|_| report.status != CheckStatus::Clean);
    if !(notes.is_empty() && remedies.is_empty() && advice.is_none() && again.is_none()) {
        writeln!(out)?;
    }
    let cyan = how.style.help();
    for note in notes {
        writeln!(out, "{cyan}note:{cyan:#} {}", escape::sentence(&note))?;
    }
    let file = only_file(&reported);
    let help = |text: &str| {
        let text = with_one_file_once(text, file.as_deref());
        format!("{cyan}help:{cyan:#} {}", escape::sentence(&text))
    };
    for remedy in remedies {
        writeln!(out, "{}", help(&remedy))?;
    }
    if let Some(advice) = advice {
        out.write_advice(help(&advice));
    }
    if let Some(again) = again {
        writeln!(out, "{cyan}again:{cyan:#} {}", escape::sentence(again))?;
    }
    Ok(())
}

/// Returns the file that contains all of these findings; `None` if they are in different files.
fn only_file(findings: &[&Finding]) -> Option<Arc<str>> {
    let mut files = findings.iter().map(|it| it.shown_frames()?.0.file);
    let first = files.next()?;
    files.all(|file| file == first).then_some(first)?
}

/// Writes a line such as `not-measured (no GPU): there is no CUDA driver in this process`.
fn write_status(report: &Report, how: &Rendering, out: &mut dyn Write) -> fmt::Result {
    let style = how.style.status(report.status);
    let strong = how.style.strong();
    writeln!(
        out,
        "{style}{}{style:#}{strong}: {}{strong:#}",
        headline::status(report),
        headline::why(report)
    )
}

/// Writes a line such as `… and 4 more findings, 12.0 MiB`.
fn write_rest(rest: &[&Finding], out: &mut dyn Write) -> fmt::Result {
    if rest.is_empty() {
        return Ok(());
    }
    let bytes = total(rest.iter().map(|finding| finding.bytes));
    let bytes = match bytes {
        0 => String::new(),
        bytes => format!(", {}", exact_size(bytes)),
    };
    writeln!(
        out,
        "\n… and {}{bytes}",
        quantity(rest.len() as u64, "more finding")
    )
}

fn notes(report: &Report) -> Vec<String> {
    let mut notes = report.notes.clone();
    notes.extend(report.configuration_note());
    notes.extend(report.lines_note());
    // If the report has findings, or a reason for having none, this note would only distract.
    let primaries = report
        .primaries
        .iter()
        .filter(|_| report.findings.is_empty() && report.reason.is_none());
    notes.extend(primaries.map(|kept| {
        format!(
            "the primary context of {} was retained {} more than it was released: this is not a \
             finding, because the whole process shares that context",
            kept.place,
            quantity(kept.times, "time")
        )
    }));
    if report.is_only_warned() {
        notes.push("the test still passes, because `on_leak` is \"warn\"".to_owned());
    }
    if report.waited_ms >= LONG_WAIT {
        let seconds = std::time::Duration::from_millis(report.waited_ms).as_secs_f64();
        notes.push(format!("waited {seconds:.1} s for other checks to finish"));
    }
    notes
}
