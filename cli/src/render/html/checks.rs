//! The tests of a run, each with the usage of its devices.

use std::collections::HashMap;
use std::ptr;

use gpu_leak_check::report::check_report::{
    CheckStatus, DeviceTable, Figure, Finding, Peak, Report, Row, Share,
};
use gpu_leak_check::report::{cells, columns, device_title, escape, help, whole_device};
use gpu_leak_check::units::count;

use super::findings::class;
use super::plot::{Plot, plots};
use crate::overview::Group;
use crate::run::Run;

/// The maximum number of tests whose timelines and tables are on the page, starting with the worst.
/// A page with ten thousand tests must still open.
const MAX_DETAILED: usize = 500;

#[derive(Debug)]
pub(super) struct Test {
    pub(super) is: CheckStatus,
    pub(super) status: &'static str,
    pub(super) class: &'static str,
    pub(super) name: String,
    pub(super) at: String,
    /// For example, `train, the check took 1.5 ms`.
    pub(super) program: String,
    pub(super) reason: Vec<String>,
    pub(super) findings: Vec<Link>,
    pub(super) plots: Vec<Plot>,
    pub(super) devices: Vec<Device>,
    pub(super) peaks: Vec<PeakTable>,
    /// A sentence for each graph that holds more memory than it needs.
    pub(super) graphs: Vec<String>,
    /// What to do about the findings, or what to do so that the test can be measured.
    pub(super) help: Vec<String>,
    pub(super) notes: Vec<String>,
    pub(super) again: Option<String>,
    /// The sentence that replaces tables omitted from the page.
    pub(super) left_out: Option<String>,
}

/// A link to a finding on the page.
#[derive(Debug)]
pub(super) struct Link {
    /// The position of the finding on the page, counted from 1.
    pub(super) to: usize,
    pub(super) text: String,
}

/// The usage of one device.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) title: String,
    pub(super) rows: Vec<FigureRow>,
    /// What the change of the whole device consists of, one sentence for each part.
    pub(super) whole: Vec<String>,
}

/// A row of the table of a device: one figure of a layer.
#[derive(Debug)]
pub(super) struct FigureRow {
    pub(super) layer: String,
    pub(super) figure: &'static str,
    pub(super) baseline: String,
    pub(super) after: String,
    pub(super) difference: String,
    pub(super) rose: bool,
    pub(super) peak: String,
}

/// What was live at the peak of a layer.
#[derive(Debug)]
pub(super) struct PeakTable {
    pub(super) title: String,
    pub(super) rows: Vec<[String; 4]>,
    /// Allocations that could have shared one buffer, one sentence each.
    pub(super) reusable: Vec<String>,
}

/// Returns the checks that ended, worst first.
pub(super) fn tests(run: &Run, groups: &[Group<'_>]) -> Vec<Test> {
    let mut numbers: HashMap<*const Finding, usize> = HashMap::new();
    for (group, number) in groups.iter().zip(1..) {
        let members = group.members.iter();
        numbers.extend(members.map(|finding| (ptr::from_ref(*finding), number)));
    }
    let mut reports: Vec<(&str, &Report)> = Vec::new();
    for process in &run.processes {
        reports.extend(process.file.reports.iter().map(|it| (&*process.binary, it)));
    }
    reports.sort_by(|(_, left), (_, right)| {
        (left.status.cmp(&right.status)).then_with(|| left.test.cmp(&right.test))
    });
    let test = |(number, (binary, report)): (usize, &(&str, &Report))| {
        let detailed: Option<&Report> = (number < MAX_DETAILED).then_some(report);
        let devices = detailed.iter().flat_map(|it| &it.devices);
        let peaks = detailed.iter().flat_map(|it| &it.peaks);
        let help = detailed.iter().flat_map(|it| help(it));
        let links = report.findings.iter().filter_map(|finding| {
            Some(Link {
                to: *numbers.get(&ptr::from_ref(finding))?,
                text: finding.to_string(),
            })
        });
        Test {
            is: report.status,
            status: report.status.name(),
            class: class(report.status),
            name: escape::name(&report.test),
            at: escape::name(&format!("{}:{}", report.file, report.line)),
            program: program(binary, report),
            reason: reason(report),
            findings: links.collect(),
            plots: detailed.map(plots).unwrap_or_default(),
            devices: devices.filter(|it| !is_unchanged(it)).map(device).collect(),
            peaks: peaks.map(peak_table).collect(),
            graphs: (report.graphs.iter())
                .map(|graph| escape::sentence(&graph.sentence()))
                .collect(),
            help: help.map(|it| escape::sentence(&it)).collect(),
            notes: notes(report),
            again: report.again.as_deref().map(escape::sentence),
            left_out: detailed.is_none().then(|| {
                format!("The timeline and tables of this test are in the run file; the page shows them for at most {MAX_DETAILED} tests.")
            }),
        }
    };
    reports.iter().enumerate().map(test).collect()
}

fn program(binary: &str, report: &Report) -> String {
    let mut program = escape::name(binary);
    program += &format!(", the check took {:.1} ms", report.overhead_ms);
    if report.waited_ms > 0 {
        let waited = count(report.waited_ms);
        program += &format!(" after waiting {waited} ms for other checks");
    }
    program
}

fn notes(report: &Report) -> Vec<String> {
    let notes = report.notes.iter();
    notes
        .chain(&report.configuration_note())
        .chain(&report.lines_note())
        .map(|note| escape::sentence(note))
        .collect()
}

fn reason(report: &Report) -> Vec<String> {
    let reason = report.reason.iter();
    reason.map(|it| escape::sentence(&it.what)).collect()
}

/// Whether no figure of the device changed during the test. A report lists all devices that its
/// process uses.
fn is_unchanged(table: &DeviceTable) -> bool {
    table.whole.is_none()
        && table.rows.iter().all(|row| {
            row.after == row.baseline && row.peak.is_none_or(|peak| peak == row.baseline)
        })
}

fn peak_table(peak: &Peak) -> PeakTable {
    let row = |share: &Share| {
        let [_, _, at, allocated] = columns(share);
        [count(share.bytes), count(share.count), at, allocated]
    };
    let reusable = peak.reusable.iter();
    PeakTable {
        title: escape::sentence(&peak.sentence()),
        rows: peak.lines.iter().map(row).collect(),
        reusable: reusable
            .map(|it| escape::sentence(&it.sentence()))
            .collect(),
    }
}

fn device(table: &DeviceTable) -> Device {
    let row = |row: &Row| {
        let [baseline, after, difference, peak] = cells(row);
        FigureRow {
            layer: escape::name(&row.layer),
            figure: match row.figure {
                Figure::Handles => "",
                figure => figure.name(),
            },
            baseline,
            after,
            difference,
            rose: row.after > row.baseline,
            peak,
        }
    };
    Device {
        title: device_title(table),
        rows: table.rows.iter().map(row).collect(),
        whole: table.whole.iter().flat_map(whole_device).collect(),
    }
}
