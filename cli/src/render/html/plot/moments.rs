//! The data from which the page's script lists what was live at any call of a timeline.

use gpu_leak_check::report::check_report::{
    Course, LoggedAllocation, Point, Timeline, TimelineRun,
};
use gpu_leak_check::report::escape;
use serde::Serialize;

use super::axes::RunSpan;
use super::{call_of_peak, name_of};

/// The moments of a picture, as data for the script.
#[derive(Debug)]
pub(in super::super) struct Moments {
    pub(in super::super) data: String,
    /// The last position of the slider. There is a position for each call of each run, and one
    /// before the first call of each run.
    pub(in super::super) last: u64,
    /// The position of the highest peak.
    pub(in super::super) peak: u64,
}

#[derive(Serialize)]
struct Data<'a> {
    lines: Vec<String>,
    runs: Vec<LoggedRun>,
    courses: Vec<Logged<'a>>,
}

/// A run and its position in the picture.
#[derive(Serialize)]
struct LoggedRun {
    name: String,
    left: f64,
    width: f64,
    calls: u64,
}

/// A curve of a run, with its log.
#[derive(Serialize)]
struct Logged<'a> {
    run: usize,
    layer: String,
    start: u64,
    points: &'a [Point],
    allocations: &'a [LoggedAllocation],
    lost: u64,
}

impl Moments {
    /// Returns the moments of a picture, or `None` if no curve that is shown has a log.
    pub(super) fn of(
        timeline: &Timeline,
        spans: &[RunSpan],
        shown: impl Fn(&&Course) -> bool,
    ) -> Option<Self> {
        let mut courses = Vec::new();
        let (mut highest, mut peak, mut before) = (0, 0, 0_u64);
        for (run, it) in timeline.runs.iter().enumerate() {
            let logged = |course: &&Course| shown(course) && !course.allocations.is_empty();
            for course in it.curves.iter().filter(logged) {
                if course.peak > highest {
                    highest = course.peak;
                    let call = call_of_peak(course).unwrap_or(0);
                    peak = before.saturating_add(call.min(it.calls));
                }
                courses.push(Logged {
                    run,
                    layer: escape::name(&course.layer),
                    start: course.start,
                    points: &course.points,
                    allocations: &course.allocations,
                    lost: course.lost,
                });
            }
            before = before.saturating_add(it.calls).saturating_add(1);
        }
        if courses.is_empty() {
            return None;
        }
        let run = |(run, span): (&TimelineRun, &RunSpan)| LoggedRun {
            name: name_of(run),
            left: span.left,
            width: span.width,
            calls: span.calls,
        };
        let data = Data {
            lines: timeline
                .lines
                .iter()
                .map(|line| escape::name(line))
                .collect(),
            runs: timeline.runs.iter().zip(spans).map(run).collect(),
            courses,
        };
        Some(Self {
            data: serde_json::to_string(&data).ok()?,
            last: before.saturating_sub(1),
            peak,
        })
    }
}
