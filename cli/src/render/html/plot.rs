//! A check's timeline as a picture.
//!
//! Drawn here and not by a plotting crate: those write colours into the picture, where these follow
//! the page's theme, and a picture for a screen reader needs a title, a description and its numbers
//! beside it. What is left to draw are steps.

mod axes;

use std::fmt::Write;

use gpu_leak_check::report::escape;
use gpu_leak_check::report::model::{
    CheckStatus, Course, Figure, FindingKind, Point, Report, RunPurpose, Timeline, TimelineRun,
};
use gpu_leak_check::units::{count, quantity, size};

use self::axes::{BOTTOM, HEIGHT, Lies, Scale, WIDTH, boxes, unit};
use super::class;
use crate::overview::figure_name;

/// A run so narrow has no name.
const NAMED_FROM: f64 = 62.0;
/// How many styles of lines there are.
const STYLES: usize = 6;

/// One picture: what a device held in bytes, or how many objects.
#[derive(Debug)]
pub(super) struct Plot {
    /// `cuda:0, bytes`
    pub(super) title: String,
    /// The same that the picture shows, in words.
    pub(super) description: String,
    pub(super) view: String,
    pub(super) ticks: Vec<Text>,
    pub(super) grid: Vec<String>,
    pub(super) runs: Vec<RunBox>,
    pub(super) curves: Vec<Curve>,
    pub(super) dots: Vec<Dot>,
    pub(super) marks: Vec<Mark>,
    pub(super) rows: Vec<Row>,
    pub(super) left_out: Option<String>,
}

/// Words at a place.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) x: String,
    pub(super) y: String,
    pub(super) text: String,
}

/// Where one run of the body lies.
#[derive(Debug)]
pub(super) struct RunBox {
    pub(super) x: String,
    pub(super) width: String,
    pub(super) is_confirming: bool,
    pub(super) label: Option<Text>,
    /// The line at which the body had ended.
    pub(super) body: Option<String>,
}

/// One figure over all runs.
#[derive(Debug)]
pub(super) struct Curve {
    pub(super) style: usize,
    pub(super) is_reserved: bool,
    pub(super) area: String,
    /// Between the least and the most of what many calls have in one point.
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

/// Where something was taken that stayed.
#[derive(Debug)]
pub(super) struct Mark {
    /// Hollow where it is only told.
    pub(super) class: &'static str,
    pub(super) shape: String,
    pub(super) title: String,
}

/// A curve in numbers, in one run.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) style: usize,
    pub(super) is_reserved: bool,
    pub(super) run: String,
    pub(super) layer: String,
    pub(super) figure: &'static str,
    pub(super) start: String,
    pub(super) peak: String,
    pub(super) end: String,
}

/// The pictures of a check: one a device of bytes, and one of objects where their number moved.
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
    let pictures = subjects.into_iter().map(|(of_handles, place)| {
        let shown = |course: &Course| {
            course.place == place && (course.figure == Figure::Handles) == of_handles
        };
        plot(report, timeline, of_handles, shown)
    });
    pictures.collect()
}

fn plot(
    report: &Report,
    timeline: &Timeline,
    of_handles: bool,
    shown: impl Fn(&Course) -> bool,
) -> Plot {
    let amount = if of_handles { count } else { size };
    let mut names: Vec<(String, Figure)> = Vec::new();
    let mut top = 0;
    let mut place = String::new();
    for course in timeline.runs.iter().flat_map(|run| &run.curves) {
        if shown(course) {
            top = top.max(course.peak).max(course.start);
            place = escape::name(&course.place.to_string());
            let name = (course.layer.clone(), course.figure);
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let scale = Scale::to(top, of_handles);
    let style_of = |course: &Course| {
        // What a layer has allocated and reserved have one colour.
        let mut layers: Vec<_> = names.iter().map(|(layer, _)| layer).collect();
        layers.dedup();
        let known = layers.iter().position(|layer| **layer == course.layer);
        known.unwrap_or(0) % STYLES
    };
    let boxes = boxes(&timeline.runs);
    let mut curves = Vec::new();
    for (layer, figure) in &names {
        let mut curve = Curve {
            style: 0,
            is_reserved: *figure == Figure::Reserved,
            area: String::new(),
            band: String::new(),
            line: String::new(),
        };
        for (run, lies) in timeline.runs.iter().zip(&boxes) {
            let mut of_run = run.curves.iter().filter(|course| shown(course));
            let course = of_run.find(|it| it.layer == *layer && it.figure == *figure);
            if let Some(course) = course {
                curve.style = style_of(course);
                draw(&mut curve, course, lies, &scale);
            }
        }
        curves.push(curve);
    }
    let mut dots = Vec::new();
    let mut rows = Vec::new();
    for (index, (run, lies)) in timeline.runs.iter().zip(&boxes).enumerate() {
        for course in run.curves.iter().filter(|course| shown(course)) {
            dots.extend(highest(course).map(|call| Dot {
                style: style_of(course),
                x: unit(lies.x(call)),
                y: unit(scale.y(course.peak)),
            }));
            rows.push(Row {
                style: style_of(course),
                is_reserved: course.figure == Figure::Reserved,
                run: name_of(timeline, index),
                layer: escape::name(&course.layer),
                figure: figure_name(course.figure),
                start: amount(course.start),
                peak: amount(course.peak),
                end: amount(course.end()),
            });
        }
    }
    let described = rows.iter().map(|row| {
        let Row {
            run,
            layer,
            figure,
            start,
            peak,
            end,
            ..
        } = row;
        format!("{run}: {layer} {figure} from {start} to {end}, {peak} at most.")
    });
    // Of many rounds the first and the last tell it.
    let described: Vec<_> = described.take(12).collect();
    let unit_name = if of_handles { "objects" } else { "bytes" };
    Plot {
        title: format!("{place}, {unit_name} over allocating and freeing calls"),
        description: described.join(" "),
        view: format!("0 0 {WIDTH} {HEIGHT}"),
        ticks: scale.ticks(amount),
        grid: scale.lines(),
        runs: run_boxes(timeline, &boxes),
        curves,
        dots,
        marks: marks(report, timeline, &boxes, of_handles, &place),
        rows,
        left_out: (timeline.left_out > 0).then(|| {
            format!(
                "{} between them left out",
                quantity(timeline.left_out, "round")
            )
        }),
    }
}

fn run_boxes(timeline: &Timeline, boxes: &[Lies]) -> Vec<RunBox> {
    let runs = timeline.runs.iter().zip(boxes).enumerate();
    let one = |(index, (run, lies)): (usize, (&TimelineRun, &Lies))| RunBox {
        x: unit(lies.left),
        width: unit(lies.width),
        is_confirming: run.purpose == RunPurpose::Confirming,
        label: (lies.width >= NAMED_FROM || index == 0).then(|| Text {
            x: unit(lies.left + 2.0),
            y: unit(HEIGHT - 4.0),
            text: match lies.width {
                wide if wide >= 3.0 * NAMED_FROM => {
                    let calls = quantity(run.calls, "call");
                    format!("{}: {calls}", name_of(timeline, index))
                }
                _ => name_of(timeline, index),
            },
        }),
        body: (run.body < run.calls).then(|| unit(lies.x(run.body + 1))),
    };
    runs.map(one).collect()
}

/// `judged run`, `confirming run`, `round 3`
fn name_of(timeline: &Timeline, index: usize) -> String {
    match timeline.runs[index].purpose {
        RunPurpose::Judged => "judged run".to_owned(),
        RunPurpose::Confirming => "confirming run".to_owned(),
        RunPurpose::Round => {
            // What is left out lies behind the first eight.
            let number = match index as u64 + 1 {
                late @ 9.. => late + timeline.left_out,
                early => early,
            };
            format!("round {number}")
        }
    }
}

fn draw(curve: &mut Curve, course: &Course, lies: &Lies, scale: &Scale) {
    if course.figure == Figure::Reserved {
        // Read at these calls and nowhere between.
        let first = Point(0, course.start, course.start);
        for (index, Point(call, _, value)) in [first].iter().chain(&course.points).enumerate() {
            let go = if index == 0 { "M" } else { "L" };
            let (x, y) = (unit(lies.x(*call)), unit(scale.y(*value)));
            let _ = write!(curve.line, "{go}{x} {y}");
        }
        return;
    }
    let mut steps = vec![Point(0, course.start, course.start)];
    steps.extend(&course.points);
    let ends: Vec<u64> = (steps.iter().skip(1).map(|point| point.0))
        .chain([lies.calls + 1])
        .collect();
    let (first, last) = (unit(lies.x(0)), unit(lies.x(lies.calls + 1)));
    let floor = unit(scale.y(0));
    let _ = write!(curve.area, "M{first} {floor}");
    for (index, (Point(call, least, most), end)) in steps.iter().zip(&ends).enumerate() {
        let (from, to) = (unit(lies.x(*call)), unit(lies.x(*end)));
        let (low, high) = (unit(scale.y(*least)), unit(scale.y(*most)));
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

/// The call at which a curve is at its highest; none where it never moves.
fn highest(course: &Course) -> Option<u64> {
    if course.peak == course.start {
        return None;
    }
    let mut points = course.points.iter();
    let highest = points.find(|point| point.2 >= course.peak)?;
    Some(highest.0)
}

/// What stayed, at the calls of the judged run that took it first and last.
fn marks(
    report: &Report,
    timeline: &Timeline,
    boxes: &[Lies],
    of_handles: bool,
    place: &str,
) -> Vec<Mark> {
    let judged = timeline
        .runs
        .iter()
        .position(|run| run.purpose == RunPurpose::Judged);
    let Some(lies) = judged.map(|run| &boxes[run]) else {
        return Vec::new();
    };
    let is_shown = |kind: Option<gpu_leak_check::ledger::Kind>| {
        kind.is_some_and(|kind| kind.is_handle() == of_handles)
    };
    let stayed = report.findings.iter().filter(|finding| {
        finding.kind != FindingKind::Allowed
            && finding.place.to_string() == place
            && is_shown(finding.resource)
    });
    let mut marks = Vec::new();
    for finding in stayed.take(50) {
        let Some(when) = finding.when else {
            continue;
        };
        let mut calls = vec![when.first, when.last];
        calls.dedup();
        for call in calls {
            let (x, y) = (lies.x(call), HEIGHT - BOTTOM);
            marks.push(Mark {
                class: class(CheckStatus::Found(finding.kind)),
                shape: format!("M{} {}l4 7h-8Z", unit(x), unit(y + 2.0)),
                title: format!(
                    "{}: taken by call {} at {}",
                    finding.kind.name(),
                    count(call),
                    finding.site.location()
                ),
            });
        }
    }
    marks
}
