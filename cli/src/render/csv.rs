//! A row a merged finding, for spreadsheets and scripts.

use gpu_leak_check::report::escape;

use super::{outcome_name, position};
use crate::exit::{Failure, Outcome};
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

pub(super) fn render(overview: &Overview<'_>) -> Outcome<String> {
    let failed = |why: String| Failure::usage(format!("CSV cannot be written: {why}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer
        .write_record(HEADER)
        .map_err(|why| failed(why.to_string()))?;
    for group in &overview.groups {
        writer
            .write_record(row(group))
            .map_err(|why| failed(why.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|why| failed(why.to_string()))?;
    String::from_utf8(bytes).map_err(|why| failed(why.to_string()))
}

fn row(group: &Group<'_>) -> [String; HEADER.len()] {
    let finding = &group.finding;
    let (file, line, _) = position(finding).unwrap_or(("", None, None));
    let function = finding
        .site
        .user_frame()
        .and_then(|frame| frame.function.as_deref());
    let library = finding
        .site
        .library
        .as_ref()
        .map(|library| library.name.as_str());
    let tests: Vec<_> = group.tests.iter().map(|test| escape::name(test)).collect();
    [
        finding.kind.name().to_owned(),
        cell(&finding.layer.to_string()),
        finding
            .resource
            .map_or_else(String::new, |resource| resource.name().to_owned()),
        cell(&finding.place.to_string()),
        finding.count.to_string(),
        finding.bytes.to_string(),
        cell(file),
        line.map_or_else(String::new, |line| line.to_string()),
        cell(function.unwrap_or_default()),
        cell(library.unwrap_or_default()),
        cell(&finding.site.fingerprint),
        group.tests.len().to_string(),
        cell(&tests.join(" ")),
        outcome_name(group.outcome).to_owned(),
    ]
}

/// A cell that no spreadsheet takes for a formula: [OWASP's advice][1].
///
/// [1]: https://owasp.org/www-community/attacks/CSV_Injection
fn cell(text: &str) -> String {
    let text = escape::sentence(text);
    if text.starts_with(['=', '+', '-', '@']) {
        return format!("'{text}");
    }
    text
}
