//! A check's timeline as a picture.
//!
//! No plotting crate is used. Such crates write colours into the picture, while these curves follow
//! the page's theme. For screen readers, a picture also needs a title, a description and a table of
//! its numbers. All that remains is to draw curves made of steps.

mod axes;
mod moments;

use std::fmt::Write;

use gpu_leak_check::ledger::{Kind, Place};
use gpu_leak_check::report::check_report::{
    CheckStatus, Course, Figure, FindingKind, Point, Report, RunPurpose, Timeline, TimelineRun,
};
use gpu_leak_check::report::escape;
use gpu_leak_check::units::{count, quantity, size};

use self::axes::{BOTTOM, HEIGHT, RunSpan, Scale, Text, WIDTH, coordinate, spans};
use self::moments::Moments;
use super::findings::class;

/// Runs that are narrower than this have no label, except for the first run.
const MIN_LABEL_WIDTH: f64 = 62.0;
/// The number of line styles.
const STYLES: usize = 6;

/// One picture: the bytes that were held on a device, or the number of objects.
#[derive(Debug)]
pub(super) struct Plot {
    /// For example, `cuda:0, bytes`.
    pub(super) title: String,
    /// A textual description of the picture.
    pub(super) description: String,
    pub(super) view: String,
    pub(super) ticks: Vec<Text>,
    pub(super) grid: Vec<String>,
    pub(super) runs: Vec<RunBox>,
    pub(super) curves: Vec<Curve>,
    pub(super) dots: Vec<Dot>,
    pub(super) marks: Vec<Mark>,
    pub(super) rows: Vec<CurveRow>,
    pub(super) left_out: Option<String>,
    pub(super) moments: Option<Moments>,
}

/// The box of one run of the body.
#[derive(Debug)]
pub(super) struct RunBox {
    pub(super) x: String,
    pub(super) width: String,
    pub(super) is_confirming: bool,
    pub(super) label: Option<Text>,
    /// Where the body ended.
    pub(super) body: Option<String>,
}

/// The curve of one figure over all runs.
#[derive(Debug)]
pub(super) struct Curve {
    pub(super) style: usize,
    pub(super) is_reserved: bool,
    pub(super) area: String,
    /// The area between the minimum and the maximum, if one point represents many calls.
    pub(super) band: String,
    pub(super) line: String,
}

/// The highest point of a curve.
#[derive(Debug)]
pub(super) struct Dot {
    pub(super) style: usize,
    pub(super) x: String,
    pub(super) y: String,
}

/// A mark at a call whose allocation belongs to a finding.
#[derive(Debug)]
pub(super) struct Mark {
    /// The CSS class. The mark is hollow if the finding does not make a test fail.
    pub(super) class: &'static str,
    pub(super) shape: String,
    pub(super) title: String,
}

/// The numbers of a curve in one run, which are a row of the table below the picture.
#[derive(Debug)]
pub(super) struct CurveRow {
    pub(super) style: usize,
    pub(super) is_reserved: bool,
    pub(super) run: String,
    pub(super) layer: String,
    pub(super) figure: &'static str,
    pub(super) start: String,
    pub(super) peak: String,
    pub(super) end: String,
}

/// Returns the pictures of a check: for each device, a picture of the bytes, and a picture of the
/// objects if their number changed.
pub(super) fn plots(report: &Report) -> Vec<Plot> {
    let Some(timeline) = &report.timeline else {
        return Vec::new();
    };
    let courses = timeline.runs.iter().flat_map(|run| &run.curves);
    let mut subjects: Vec<_> = courses
        .map(|course| (course.figure == Figure::Handles, course.place))
        .collect();
    subjects.sort_unstable();
    subjects.dedup();
    let pictures = subjects.into_iter();
    let pictures = pictures.map(|(of_handles, place)| plot(report, timeline, of_handles, place));
    pictures.collect()
}

/// Draws the bytes at `place` or, if `of_handles`, the objects there.
fn plot(report: &Report, timeline: &Timeline, of_handles: bool, place: Place) -> Plot {
    let shown = |course: &&Course| {
        course.place == place && (course.figure == Figure::Handles) == of_handles
    };
    let amount = if of_handles { count } else { size };
    let mut names: Vec<(String, Figure)> = Vec::new();
    let mut top = 0;
    let courses = timeline.runs.iter().flat_map(|run| &run.curves);
    for course in courses.filter(shown) {
        top = top.max(course.peak).max(course.start);
        let name = (course.layer.clone(), course.figure);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let scale = Scale::to(top, of_handles);
    let style_of = |course: &Course| {
        // A layer's allocated and reserved figures share a colour.
        let mut layers: Vec<_> = names.iter().map(|(layer, _)| layer).collect();
        layers.dedup();
        let known = layers.iter().position(|layer| **layer == course.layer);
        known.unwrap_or(0) % STYLES
    };
    let spans = spans(&timeline.runs);
    let mut curves = Vec::new();
    for (layer, figure) in &names {
        let mut curve = Curve {
            style: 0,
            is_reserved: *figure == Figure::Reserved,
            area: String::new(),
            band: String::new(),
            line: String::new(),
        };
        for (run, span) in timeline.runs.iter().zip(&spans) {
            let mut of_run = run.curves.iter().filter(shown);
            let course = of_run.find(|it| it.layer == *layer && it.figure == *figure);
            if let Some(course) = course {
                curve.style = style_of(course);
                draw(&mut curve, course, span, &scale);
            }
        }
        curves.push(curve);
    }
    let mut dots = Vec::new();
    let mut rows = Vec::new();
    for (run, span) in timeline.runs.iter().zip(&spans) {
        for course in run.curves.iter().filter(shown) {
            dots.extend(call_of_peak(course).map(|call| Dot {
                style: style_of(course),
                x: coordinate(span.x(call)),
                y: coordinate(scale.y(course.peak)),
            }));
            rows.push(CurveRow {
                style: style_of(course),
                is_reserved: course.figure == Figure::Reserved,
                run: name_of(run),
                layer: escape::name(&course.layer),
                figure: course.figure.name(),
                start: amount(course.start),
                peak: amount(course.peak),
                end: amount(course.end()),
            });
        }
    }
    let described = rows.iter().map(|row| {
        format!(
            "{}: {} by {}: {} at the start, {} at the end, {} at the peak.",
            row.run, row.figure, row.layer, row.start, row.end, row.peak
        )
    });
    // A description of many rounds would be too long to listen to.
    let described: Vec<_> = described.take(12).collect();
    let place_name = escape::name(&place.to_string());
    let unit_name = if of_handles { "objects" } else { "bytes" };
    Plot {
        title: format!("{place_name}: {unit_name} after each call that allocates or frees"),
        description: described.join(" "),
        view: format!("0 0 {WIDTH} {HEIGHT}"),
        ticks: scale.ticks(amount),
        grid: scale.lines(),
        moments: Moments::of(timeline, &spans, shown),
        runs: run_boxes(timeline, &spans),
        curves,
        dots,
        marks: marks(report, timeline, &spans, of_handles, place),
        rows,
        left_out: (timeline.left_out > 0).then(|| {
            format!(
                "{} in the middle left out",
                quantity(timeline.left_out, "round")
            )
        }),
    }
}

fn run_boxes(timeline: &Timeline, spans: &[RunSpan]) -> Vec<RunBox> {
    let runs = timeline.runs.iter().zip(spans).enumerate();
    let one = |(index, (run, span)): (usize, (&TimelineRun, &RunSpan))| RunBox {
        x: coordinate(span.left),
        width: coordinate(span.width),
        is_confirming: run.purpose == RunPurpose::Confirming,
        label: (span.width >= MIN_LABEL_WIDTH || index == 0).then(|| Text {
            x: coordinate(span.left + 2.0),
            y: coordinate(HEIGHT - 4.0),
            text: match span.width {
                wide if wide >= 3.0 * MIN_LABEL_WIDTH => {
                    let calls = quantity(run.calls, "call");
                    format!("{}: {calls}", name_of(run))
                }
                _ => name_of(run),
            },
        }),
        body: (run.body < run.calls).then(|| coordinate(span.x(run.body + 1))),
    };
    runs.map(one).collect()
}

/// Returns, for example, `judged run`, `confirming run` or `round 3`.
fn name_of(run: &TimelineRun) -> String {
    match run.purpose {
        RunPurpose::Judged => "judged run".to_owned(),
        RunPurpose::Confirming => "confirming run".to_owned(),
        RunPurpose::Round => format!("round {}", run.number),
    }
}

fn draw(curve: &mut Curve, course: &Course, span: &RunSpan, scale: &Scale) {
    if course.figure == Figure::Reserved {
        // The reserve is read at these calls only, so the points are joined by straight lines.
        let first = Point(0, course.start, course.start);
        for (index, Point(call, _, value)) in [first].iter().chain(&course.points).enumerate() {
            let go = if index == 0 { "M" } else { "L" };
            let (x, y) = (coordinate(span.x(*call)), coordinate(scale.y(*value)));
            let _ = write!(curve.line, "{go}{x} {y}");
        }
        return;
    }
    let mut steps = vec![Point(0, course.start, course.start)];
    steps.extend(&course.points);
    let end = span.calls.saturating_add(1);
    let ends: Vec<u64> = (steps.iter().skip(1).map(|point| point.0))
        .chain([end])
        .collect();
    let (first, last) = (coordinate(span.x(0)), coordinate(span.x(end)));
    let floor = coordinate(scale.y(0));
    let _ = write!(curve.area, "M{first} {floor}");
    for (index, (Point(call, least, most), end)) in steps.iter().zip(&ends).enumerate() {
        let (from, to) = (coordinate(span.x(*call)), coordinate(span.x(*end)));
        let (low, high) = (coordinate(scale.y(*least)), coordinate(scale.y(*most)));
        let _ = match index {
            0 => write!(curve.line, "M{from} {high}H{to}"),
            _ => write!(curve.line, "H{from}V{high}H{to}"),
        };
        let _ = write!(curve.area, "H{from}V{high}H{to}");
        if least != most {
            let _ = write!(curve.band, "M{from} {low}V{high}H{to}V{low}Z");
        }
    }
    let _ = write!(curve.area, "H{last}V{floor}Z");
}

/// Returns the call at which a curve has its peak, or `None` if it never rises above its start.
fn call_of_peak(course: &Course) -> Option<u64> {
    if course.peak == course.start {
        return None;
    }
    let mut points = course.points.iter();
    Some(points.find(|point| point.2 >= course.peak)?.0)
}

/// Returns marks for the resources of findings, at the first and the last call of the judged run
/// that created them.
fn marks(
    report: &Report,
    timeline: &Timeline,
    spans: &[RunSpan],
    of_handles: bool,
    place: Place,
) -> Vec<Mark> {
    let judged = timeline
        .runs
        .iter()
        .position(|run| run.purpose == RunPurpose::Judged);
    let Some(span) = judged.map(|run| &spans[run]) else {
        return Vec::new();
    };
    let is_shown = |kind: Option<Kind>| kind.is_some_and(|kind| kind.is_handle() == of_handles);
    let stayed = report.findings.iter().filter(|finding| {
        finding.kind != FindingKind::Allowed && finding.place == place && is_shown(finding.resource)
    });
    let mut marks = Vec::new();
    for finding in stayed.take(50) {
        let Some(when) = finding.when else {
            continue;
        };
        let mut calls = vec![when.first, when.last];
        calls.dedup();
        for call in calls {
            let (x, y) = (span.x(call), HEIGHT - BOTTOM);
            marks.push(Mark {
                class: class(CheckStatus::Found(finding.kind)),
                shape: format!("M{} {}l4 7h-8Z", coordinate(x), coordinate(y + 2.0)),
                title: format!(
                    "{}: allocated by call {} at {}",
                    finding.kind.name(),
                    count(call),
                    finding.location()
                ),
            });
        }
    }
    marks
}
