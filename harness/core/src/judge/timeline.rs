//! Converts the ledger's curves to a report's timeline.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::input::{CheckInput, RunInput};
use super::peaks::call;
use super::usage::{LayerName, Usage};
use crate::ledger::{self, Kind, Lifetime, MeterReading, Place, Sample, StackId};
use crate::report::{Course, Figure, LoggedAllocation, Point, RunPurpose, Timeline, TimelineRun};

/// How many of the first rounds and of the last rounds are kept.
const FIRST_ROUNDS: usize = 8;
const LAST_ROUNDS: usize = 24;
/// The largest number of samples that are kept for each figure of a run.
pub const SAMPLES: usize = 128;
/// The largest number of samples that are kept for each figure of a round if the check has several
/// rounds.
pub const SAMPLES_OF_A_ROUND: usize = 16;
/// A check with more runs than this keeps only the largest allocations of each run.
const MAX_RUNS: usize = 3;
const ALLOCATIONS_OF_A_ROUND: usize = 256;

/// Returns the timeline of one run. `after_body` is the usage when the body had ended, from which
/// only the reserves are taken, and `end` is the sequence number of the event after the run.
pub fn of_run(
    run: &RunInput,
    after_body: &Usage,
    end: u64,
    curves: Vec<ledger::Curve>,
) -> TimelineRun {
    let calls_until = |sequence: u64| sequence.saturating_sub(run.began);
    let course_of = |curve: ledger::Curve| {
        let (layer, figure) = match curve.of.layer {
            Some(layer) => (layer.to_string(), Figure::Allocated),
            None => ("handles".to_owned(), Figure::Handles),
        };
        Course {
            place: curve.of.place,
            layer,
            figure,
            start: curve.start,
            peak: curve.peak,
            points: points(&curve.samples, run.began, curve.peak),
            allocations: Vec::new(),
            lost: 0,
        }
    };
    let mut curves: Vec<_> = curves.into_iter().map(course_of).collect();
    let mut places: Vec<_> = curves.iter().map(|course| course.place).collect();
    places.dedup();
    let later = [(run.ended, after_body), (end, &run.end)];
    let later = later.map(|(sequence, usage)| (calls_until(sequence), usage));
    curves.extend(reserves(&run.baseline, later, &places));
    // The curves are sorted by name, because the IDs of layers depend on the order in which the
    // process used the layers.
    curves.sort_by_cached_key(|course| {
        let layer = (course.layer != "driver", course.layer.clone());
        (course.place, course.figure == Figure::Handles, layer)
    });
    TimelineRun {
        number: 0,
        purpose: RunPurpose::Judged,
        calls: calls_until(end),
        body: calls_until(run.ended),
        curves,
    }
}

/// Converts samples to points. A sample of several events becomes a range, followed by its final
/// level.
fn points(samples: &[Sample], began: u64, peak: u64) -> Vec<Point> {
    let mut points = Vec::with_capacity(2 * samples.len());
    let call = |sequence: u64| sequence.saturating_sub(began) + 1;
    let mut next = samples.iter().skip(1);
    for sample in samples {
        let most = sample.most.min(peak.max(sample.least));
        points.push(Point(call(sample.at), sample.least, most));
        let has_gap = next.next().is_none_or(|next| next.at > sample.until + 1);
        if has_gap && sample.least != sample.most {
            points.push(Point(call(sample.until), sample.last, sample.last));
        }
    }
    points
}

/// Returns the reserve at these places before the body ran and at each later reading.
fn reserves(before: &Usage, later: [(u64, &Usage); 2], places: &[Place]) -> Vec<Course> {
    let readings = || [before, later[0].1, later[1].1].into_iter();
    let mut names: Vec<_> = readings()
        .flat_map(|reading| &reading.layers)
        .filter(|layer| places.contains(&layer.place) && layer.reserve() != 0)
        .map(|layer| (layer.place, &layer.name))
        .collect();
    names.sort();
    names.dedup();
    let course = |(place, name): (_, &LayerName)| {
        let reserved = |reading: &Usage| reading.layer(name, place)?.reserved;
        let point = |(call, reading)| reserved(reading).map(|is| Point(call, is, is));
        Course {
            place,
            layer: name.to_string(),
            figure: Figure::Reserved,
            start: reserved(before).unwrap_or(0),
            peak: readings().filter_map(reserved).max().unwrap_or(0),
            points: later.into_iter().filter_map(point).collect(),
            allocations: Vec::new(),
            lost: 0,
        }
    };
    names.into_iter().map(course).collect()
}

/// Returns the timeline of a check with rounds or confirming runs, or `None` if nothing happened.
/// If there are many rounds, only some are kept.
pub fn of_check(input: &CheckInput) -> Option<Timeline> {
    let runs: Vec<&TimelineRun> = input.runs.iter().map(|run| &run.timeline).collect();
    let mut timeline = of_runs(&runs, input.facts.rounds > 1)?;
    add_allocations(&mut timeline, input);
    Some(timeline)
}

/// Adds the logged allocations to the curves.
fn add_allocations(timeline: &mut Timeline, input: &CheckInput) {
    let kept = match timeline.runs.len() {
        ..=MAX_RUNS => usize::MAX,
        _ => ALLOCATIONS_OF_A_ROUND,
    };
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    let mut of_stack: BTreeMap<StackId, usize> = BTreeMap::new();
    for (number, course) in (timeline.runs.iter_mut())
        .flat_map(|run| run.curves.iter_mut().map(|course| (run.number, course)))
        .filter(|(_, course)| course.figure == Figure::Allocated)
    {
        let run = &input.runs[number as usize - 1];
        let mut readings = run.peaks.iter();
        let is_of = |reading: &&MeterReading| {
            reading.place == course.place && reading.layer.to_string() == course.layer
        };
        let Some(reading) = readings.find(is_of) else {
            continue;
        };
        let mut logged: Vec<Lifetime> = reading.lifetimes.clone();
        if logged.len() > kept {
            logged.sort_by_key(|life| Reverse(life.bytes));
            logged.truncate(kept);
            logged.sort_by_key(|life| life.allocated);
        }
        let dropped = (reading.lifetimes.len() - logged.len()) as u64;
        course.lost = reading.lost.saturating_add(dropped);
        let logged = logged.iter().map(|life| {
            let line = *of_stack.entry(life.stack).or_insert_with(|| {
                let line = input.names.site(life.stack, Kind::Linear).location();
                let next = lines.len();
                *lines.entry(line).or_insert(next)
            });
            let calls = [life.allocated, life.freed].map(|event| call(run, event));
            LoggedAllocation(line, life.bytes, calls[0], calls[1])
        });
        course.allocations = logged.collect();
    }
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_by_key(|(_, index)| *index);
    timeline.lines = lines.into_iter().map(|(line, _)| line).collect();
}

fn of_runs(runs: &[&TimelineRun], rounds: bool) -> Option<Timeline> {
    if runs.iter().all(|run| run.curves.is_empty()) {
        return None;
    }
    let left_out = match rounds {
        true => runs.len().saturating_sub(FIRST_ROUNDS + LAST_ROUNDS),
        false => 0,
    };
    let of_run = |(at, run): (usize, &&TimelineRun)| {
        let mut run = (*run).clone();
        run.number = at as u64 + 1;
        run.purpose = match at {
            _ if rounds => RunPurpose::Round,
            0 => RunPurpose::Judged,
            _ => RunPurpose::Confirming,
        };
        run
    };
    let is_kept =
        |at: &usize| left_out == 0 || !(FIRST_ROUNDS..FIRST_ROUNDS + left_out).contains(at);
    let kept = runs.iter().enumerate().filter(|(at, _)| is_kept(at));
    Some(Timeline {
        runs: kept.map(of_run).collect(),
        left_out: left_out as u64,
        lines: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Place, Sample, of_runs, points};
    use crate::report::{Course, Figure, Point, RunPurpose, TimelineRun};

    fn run(points: Vec<Point>) -> TimelineRun {
        let course = Course {
            place: Place::cuda(0),
            layer: "driver".to_owned(),
            figure: Figure::Allocated,
            start: 0,
            peak: points.iter().map(|point| point.2).max().unwrap_or(0),
            points,
            allocations: Vec::new(),
            lost: 0,
        };
        TimelineRun {
            number: 0,
            purpose: RunPurpose::Judged,
            calls: 9,
            body: 8,
            curves: vec![course],
        }
    }

    #[test]
    fn runs_without_events_have_no_timeline() {
        let mut nothing = run(Vec::new());
        nothing.curves.clear();
        assert_eq!(of_runs(&[&nothing, &nothing], false), None);
        let timeline = of_runs(&[&nothing, &run(vec![Point(1, 2, 2)])], false).expect("a timeline");
        assert_eq!(timeline.runs[1].purpose, RunPurpose::Confirming);
    }

    #[test]
    fn a_sample_of_many_calls_is_a_range_followed_by_its_last_value() {
        let sample = |at, until, least, most, last| Sample {
            at,
            until,
            least,
            most,
            last,
        };
        let samples = [
            sample(100, 103, 1, 9, 3),
            sample(104, 107, 3, 8, 4),
            sample(120, 120, 5, 5, 5),
        ];
        let expected = [
            Point(1, 1, 9),
            Point(5, 3, 8),
            Point(8, 4, 4),
            Point(21, 5, 5),
        ];
        assert_eq!(points(&samples, 100, 9), expected);
    }

    #[test]
    fn many_rounds_keep_the_first_and_the_last() {
        let rounds: Vec<_> = (0..100)
            .map(|round| run(vec![Point(1, round, round)]))
            .collect();
        let timeline = of_runs(&rounds.iter().collect::<Vec<_>>(), true).expect("a timeline");
        assert_eq!((timeline.runs.len(), timeline.left_out), (32, 68));
        let ends: Vec<_> = timeline.runs.iter().map(|it| it.curves[0].end()).collect();
        assert_eq!((ends[7], ends[8], ends[31]), (7, 76, 99));
    }
}
