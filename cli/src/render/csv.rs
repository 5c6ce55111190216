//! CSV for spreadsheets and scripts: one row for each finding, merged over the tests that have it.

use gpu_leak_check::report::escape;

use crate::exit::{ExitResult, Failure};
use crate::overview::{Group, Overview};

const HEADER: [&str; 14] = [
    "kind",
    "layer",
    "resource",
    "place",
    "count",
    "bytes",
    "file",
    "line",
    "function",
    "library",
    "fingerprint",
    "tests",
    "test_names",
    "outcome",
];

pub(super) fn render(overview: &Overview<'_>) -> ExitResult<Vec<u8>> {
    let failed = |why: csv::Error| Failure::cannot_write("CSV", why);
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(HEADER).map_err(failed)?;
    for group in &overview.groups {
        writer.write_record(row(group)).map_err(failed)?;
    }
    let written = writer.into_inner();
    written.map_err(|why| Failure::cannot_write("CSV", why))
}

fn row(group: &Group<'_>) -> [String; HEADER.len()] {
    let finding = &group.finding;
    let (frame, _) = finding.shown_frames().unwrap_or_default();
    // As in all formats, the location of a failed free is where the free was called.
    let site = finding.shown_site();
    let library = site.library.as_ref().map(|library| library.name.as_str());
    [
        finding.kind.name().to_owned(),
        cell(&finding.layer.to_string()),
        finding
            .resource
            .map_or_else(String::new, |resource| resource.name().to_owned()),
        cell(&finding.place.to_string()),
        finding.count.to_string(),
        finding.bytes.to_string(),
        cell(frame.file.as_deref().unwrap_or_default()),
        frame.line.map_or_else(String::new, |line| line.to_string()),
        cell(frame.function.as_deref().unwrap_or_default()),
        cell(library.unwrap_or_default()),
        cell(&site.fingerprint),
        group.tests.len().to_string(),
        cell(&group.tests.join(" ")),
        group.outcome.name().to_owned(),
    ]
}

/// Returns the text as a complete cell that spreadsheets do not interpret as a formula, following
/// [OWASP's advice][1].
///
/// [1]: https://owasp.org/www-community/attacks/CSV_Injection
fn cell(text: &str) -> String {
    let text = escape::spelled_out(text);
    if text.starts_with(['=', '+', '-', '@']) {
        return format!("'{text}");
    }
    text
}
