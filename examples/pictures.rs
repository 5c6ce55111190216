//! Draws the pictures for the documentation from the recording of a run on an H200.
//!
//! ```text
//! scripts/pictures
//! ```
//!
//! Writes `report-light.svg` and `report-dark.svg` into the given directory, together with a run
//! file of the recorded checks for `cargo gpu-leak report`.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, RgbColor};
use anstyle_svg::{Term, VGA};
use gpu_leak_check::recording;
use gpu_leak_check::report::check_report::Report;
use gpu_leak_check::report::run_file::{Environment, Header, Record, SCHEMA};
use gpu_leak_check::report::text::{self, Rendering};
use gpu_leak_check::report::{Sources, Style, headline};

/// The check whose report is shown.
const SHOWN: &str = "h200-candle_forgets_a_tensor";
/// The directory with the sources of that check's test.
const SOURCES: &str = "clients/candle";
/// The width of the terminal.
const COLUMNS: usize = 110;
/// The other checks in the run file.
const OTHERS: [&str; 6] = [
    "h200-keeps_a_tensor",
    "h200-keeps_an_allocation",
    "h200-launches_a_captured_graph",
    "h200-multiplies_by_cublas",
    "h200-resets_the_primary_context",
    "h200-trains_a_model",
];

fn main() -> Result<(), Box<dyn Error>> {
    let out = env::args().nth(1).ok_or("pictures DIRECTORY")?;
    let out = PathBuf::from(out);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let replayed = |name: &str| -> Result<Vec<Report>, Box<dyn Error>> {
        let file = root.join(format!("tests/recordings/{name}.jsonl"));
        Ok(recording::replay(file)?.reports)
    };
    let shown = replayed(SHOWN)?;
    let report = shown.first().ok_or("the recording has no check")?;
    let reported = as_printed(report, &root.join(SOURCES));
    for (name, theme) in [("light", LIGHT), ("dark", DARK)] {
        let file = out.join(format!("report-{name}.svg"));
        fs::write(file, theme.terminal().render_svg(&reported))?;
    }

    let mut reports = shown;
    for name in OTHERS {
        reports.extend(replayed(name)?);
    }
    fs::write(out.join("recorded.jsonl"), run_file(&reports)?)?;
    Ok(())
}

/// The colours of a theme of the HTML report, each as `0xRRGGBB`.
struct Theme {
    red: u32,
    green: u32,
    yellow: u32,
    blue: u32,
    cyan: u32,
    text: u32,
    ground: u32,
}

const LIGHT: Theme = Theme {
    red: 0xb3_26_1e,
    green: 0x1b_6e_3c,
    yellow: 0x7a_52_00,
    blue: 0x0b_5c_ad,
    cyan: 0x0f_76_6e,
    text: 0x1c_20_24,
    ground: 0xf5_f7_f9,
};

const DARK: Theme = Theme {
    red: 0xff_8a_80,
    green: 0x6f_d3_97,
    yellow: 0xf0_c0_60,
    blue: 0x8a_b8_f0,
    cyan: 0x5f_d6_c8,
    text: 0xe4_e8_ec,
    ground: 0x14_17_1a,
};

impl Theme {
    /// Returns a terminal with these colours.
    fn terminal(&self) -> Term {
        let colour = |rgb: u32| {
            let [_, red, green, blue] = rgb.to_be_bytes();
            RgbColor(red, green, blue)
        };
        let mut palette = VGA;
        for (of, rgb) in [
            (AnsiColor::Red, self.red),
            (AnsiColor::Green, self.green),
            (AnsiColor::Yellow, self.yellow),
            (AnsiColor::Blue, self.blue),
            (AnsiColor::Cyan, self.cyan),
        ] {
            palette.0[of as usize] = colour(rgb);
        }
        Term::new()
            .palette(palette)
            .fg_color(colour(self.text).into())
            .bg_color(colour(self.ground).into())
    }
}

/// Returns the report's text with only the first finding and the number of others, because readers
/// see the picture before anything else. The headline and the table include all findings.
fn shortened(report: &Report, how: &Rendering) -> String {
    let mut first = report.clone();
    first.findings.truncate(1);
    let text = text::to_string(&first, how);
    match text.split_once("\n\n") {
        Some((finding, rest)) => format!("{finding}\n\n{}\n\n{rest}", others(report)),
        None => text,
    }
}

/// Returns a line such as `[… 2 × leaked, 2 × first-use]`.
fn others(report: &Report) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    let others = report.findings.iter().skip(1);
    for finding in others.filter(|finding| !finding.is_consequence) {
        let name = finding.kind.name();
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

/// Returns what a failing test prints.
fn as_printed(report: &Report, sources: &Path) -> String {
    let how = Rendering {
        style: Style::COLOURED,
        sources: Sources::below(sources),
    };
    let reported = format!(
        "thread '{}' panicked at {}:{}:{}:\n{}\n\n{}",
        report.test,
        report.file,
        report.line,
        report.column,
        headline(report),
        shortened(report, &how)
    );
    let lines = reported.lines().map(broken);
    lines.collect::<Vec<_>>().join("\n")
}

/// Breaks a line between words where a terminal with [`COLUMNS`] columns would break it. Escape
/// codes have no width.
fn broken(line: &str) -> String {
    let (mut shown, mut column, mut in_code) = (String::new(), 0, false);
    // The last space of the line, and the column after it.
    let mut space = None;
    for character in line.chars() {
        in_code |= character == '\x1b';
        if !in_code {
            if column == COLUMNS
                && let Some((at, after)) = space.take()
            {
                shown.replace_range(at..=at, "\n");
                column -= after;
            }
            column += 1;
            if character == ' ' {
                space = Some((shown.len(), column));
            }
        }
        in_code &= character != 'm';
        shown.push(character);
    }
    shown
}

/// Returns a run file with these reports, in the form in which a process would have written it.
fn run_file(reports: &[Report]) -> Result<String, Box<dyn Error>> {
    let header = Record::Header(Box::new(Header {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        run: "recorded".to_owned(),
        pid: 1,
        executable: "recorded".to_owned(),
        started_ms: 0,
        pid_space: None,
        attempt: None,
        environment: Environment::default(),
    }));
    let verdicts = reports.iter().map(Record::Verdict);
    let lines = [header].into_iter().chain(verdicts);
    let lines = lines.map(|line| serde_json::to_string(&line));
    Ok(lines.collect::<Result<Vec<_>, _>>()?.join("\n") + "\n")
}
