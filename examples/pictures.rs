//! The pictures of the documentation: what a run on an H200 told, from its recording.
//!
//! ```text
//! scripts/pictures
//! ```
//!
//! Writes `report-light.svg` and `report-dark.svg` into the folder it is told, and the recorded checks
//! as the file of a run beside them, for `cargo gpu-leak report`.

use std::borrow::Cow;
use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, RgbColor};
use anstyle_svg::{Term, VGA};
use gpu_leak_check::recording;
use gpu_leak_check::report::json::{Header, Record, SCHEMA};
use gpu_leak_check::report::model::Report;
use gpu_leak_check::report::text::{self, Rendering};
use gpu_leak_check::report::{Sources, Style, headline};

/// The check whose report is shown.
const SHOWN: &str = "h200-candle_forgets_a_tensor";
/// Where its sources lie.
const SOURCES: &str = "clients/candle";
/// How wide the terminal is.
const COLUMNS: usize = 110;
/// Checks that the page has as well.
const OTHERS: [&str; 6] = [
    "h200-keeps_a_tensor",
    "h200-keeps_an_allocation",
    "h200-launches_a_captured_graph",
    "h200-multiplies_by_cublas",
    "h200-resets_the_primary_context",
    "h200-trains_a_model",
];

fn main() -> Result<(), Box<dyn Error>> {
    let out = env::args().nth(1).ok_or("pictures FOLDER")?;
    let out = PathBuf::from(out);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let replayed = |name: &str| -> Result<Vec<Report>, Box<dyn Error>> {
        let file = root.join(format!("tests/recordings/{name}.jsonl"));
        Ok(recording::replay(file)?.reports)
    };
    let shown = replayed(SHOWN)?;
    let report = shown.first().ok_or("the recording has no check")?;
    let told = as_told(report, &root.join(SOURCES));
    for (theme, term) in [("light", light()), ("dark", dark())] {
        let file = out.join(format!("report-{theme}.svg"));
        fs::write(file, term.render_svg(&told))?;
    }

    let mut reports = shown;
    for name in OTHERS {
        reports.extend(replayed(name)?);
    }
    fs::write(out.join("recorded.jsonl"), run_file(reports)?)?;
    Ok(())
}

/// A terminal in the colours of the HTML report.
fn light() -> Term {
    let mut palette = VGA;
    palette.0[AnsiColor::Red as usize] = RgbColor(0xb3, 0x26, 0x1e);
    palette.0[AnsiColor::Green as usize] = RgbColor(0x1b, 0x6e, 0x3c);
    palette.0[AnsiColor::Yellow as usize] = RgbColor(0x7a, 0x52, 0x00);
    palette.0[AnsiColor::Blue as usize] = RgbColor(0x0b, 0x5c, 0xad);
    palette.0[AnsiColor::Cyan as usize] = RgbColor(0x0f, 0x76, 0x6e);
    Term::new()
        .palette(palette)
        .fg_color(RgbColor(0x1c, 0x20, 0x24).into())
        .bg_color(RgbColor(0xf5, 0xf7, 0xf9).into())
}

fn dark() -> Term {
    let mut palette = VGA;
    palette.0[AnsiColor::Red as usize] = RgbColor(0xff, 0x8a, 0x80);
    palette.0[AnsiColor::Green as usize] = RgbColor(0x6f, 0xd3, 0x97);
    palette.0[AnsiColor::Yellow as usize] = RgbColor(0xf0, 0xc0, 0x60);
    palette.0[AnsiColor::Blue as usize] = RgbColor(0x8a, 0xb8, 0xf0);
    palette.0[AnsiColor::Cyan as usize] = RgbColor(0x5f, 0xd6, 0xc8);
    Term::new()
        .palette(palette)
        .fg_color(RgbColor(0xe4, 0xe8, 0xec).into())
        .bg_color(RgbColor(0x14, 0x17, 0x1a).into())
}

/// The report with its first finding alone, and how many others there are: the picture is the first
/// that a reader sees of it. Headline and table are of them all.
fn shortened(report: &Report, how: &Rendering) -> String {
    let mut first = report.clone();
    first.findings.truncate(1);
    let text = text::to_string(&first, how);
    match text.split_once("\n\n") {
        Some((finding, rest)) => format!("{finding}\n\n{}\n\n{rest}", others(report)),
        None => text,
    }
}

/// `[… 2 × leaked, 2 × first-use]`
fn others(report: &Report) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for finding in report.findings.iter().skip(1) {
        let name = finding.verdict.name();
        match counts.last_mut() {
            Some((last, count)) if *last == name => *count += 1,
            _ => counts.push((name, 1)),
        }
    }
    let counts = counts
        .iter()
        .map(|(name, count)| format!("{count} × {name}"));
    format!("[… {}]", counts.collect::<Vec<_>>().join(", "))
}

/// What a failing test prints.
fn as_told(report: &Report, sources: &Path) -> String {
    let how = Rendering {
        style: Style::COLOURED,
        sources: Sources::below(sources),
    };
    let told = format!(
        "thread '{}' panicked at {}:{}:{}:\n{}\n\n{}",
        report.test,
        report.file,
        report.line,
        report.column,
        headline(report),
        shortened(report, &how)
    );
    let lines = told.lines().map(broken);
    lines.collect::<Vec<_>>().join("\n")
}

/// A line as a terminal of [`COLUMNS`] shows it. Escape codes take no room.
fn broken(line: &str) -> String {
    let (mut shown, mut column, mut in_code) = (String::new(), 0, false);
    for character in line.chars() {
        in_code |= character == '\x1b';
        if !in_code {
            if column == COLUMNS {
                shown.push('\n');
                column = 0;
            }
            column += 1;
        }
        in_code &= character != 'm';
        shown.push(character);
    }
    shown
}

/// As a process would have written it.
fn run_file(reports: Vec<Report>) -> Result<String, Box<dyn Error>> {
    let header = Record::Header(Header {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        run: "recorded".to_owned(),
        pid: 1,
        executable: "recorded".to_owned(),
        started_ms: 0,
        pid_space: None,
        attempt: None,
    });
    let verdicts = reports
        .into_iter()
        .map(|it| Record::Verdict(Cow::Owned(it)));
    let lines = [header].into_iter().chain(verdicts);
    let lines = lines.map(|line| serde_json::to_string(&line));
    Ok(lines.collect::<Result<Vec<_>, _>>()?.join("\n") + "\n")
}
