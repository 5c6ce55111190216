//! The causes of a peak. The reported lines add up to the peak, and blocks that a report calls
//! reusable can indeed be reused.

mod budgets;
mod graphs;
mod programs;
mod reuse;

use gpu_leak_check::report::check_report::{Course, Figure, Peak, Report, Timeline};
use gpu_leak_check::{Check, gpu_leak_check};
use gpu_leak_kernels::nn::Linear;
use gpu_leak_kernels::{Device, Result, Tensor};

/// The layer of the workloads' blocks.
const BLOCKS: &str = "allocator:gpu-leak-kernels";

/// Fails unless the report has a peak, and the lines of each peak add up to it and agree with the
/// tables.
#[track_caller]
fn assert_lines_add_up(report: &Report) {
    let test = &report.test;
    assert!(!report.peaks.is_empty(), "{test} has no peak");
    for peak in &report.peaks {
        let lines = peak.lines.iter().map(|line| line.bytes);
        assert_eq!(lines.sum::<u64>(), peak.bytes, "{test}: {peak:?}");
        for line in &peak.lines {
            let is_dated = line.when.is_some() || line.earlier > 0;
            assert!(line.count > 0 && is_dated, "{test}: {line:?}");
        }
        let devices = report.devices.iter().filter(|it| it.place == peak.place);
        let mut rows = devices.flat_map(|device| &device.rows);
        let row = rows.find(|row| row.layer == peak.layer && row.figure == Figure::Allocated);
        // An allocator that ended with its device has no row.
        if let Some(row) = row {
            assert_eq!(row.peak, Some(peak.bytes), "{test}");
        }
    }
}

/// Like [`assert_lines_add_up`]. Also fails unless the timeline's log adds up to each peak.
#[track_caller]
fn assert_adds_up(report: &Report) {
    assert_lines_add_up(report);
    let test = &report.test;
    for peak in &report.peaks {
        let last = peak.lines.iter().filter_map(|line| Some(line.when?.last));
        assert!(last.max().unwrap_or(0) <= peak.call, "{test}: {peak:?}");
        let course = course_of(report, peak);
        assert_eq!(course.lost, 0, "{test}");
        assert_eq!(live_at(course, peak.call), peak.bytes, "{test}");
        assert_eq!(course.peak, peak.bytes, "{test}");
    }
}

fn timeline(report: &Report) -> &Timeline {
    report.timeline.as_ref().expect("a timeline")
}

/// Returns the curve of the run that had the peak.
fn course_of<'a>(report: &'a Report, peak: &Peak) -> &'a Course {
    let run = &timeline(report).runs[peak.run as usize - 1];
    let mut curves = run.curves.iter();
    let is_it = |course: &&Course| {
        let is_bytes = course.figure == Figure::Allocated;
        is_bytes && course.place == peak.place && course.layer == peak.layer
    };
    curves.find(is_it).expect("a curve")
}

/// Computes from the log, as the HTML page does, how many bytes were live after a call.
fn live_at(course: &Course, call: u64) -> u64 {
    let logged = course.allocations.iter();
    let live = logged.filter(|it| it.2 <= call && (it.3 == 0 || it.3 > call));
    live.map(|it| it.1).sum()
}

/// Returns the number of the line with this mark in a file of this directory.
#[track_caller]
fn line_of(source: &str, mark: &str) -> usize {
    let mark = format!("// {mark}");
    let mut lines = source.lines();
    let line = lines.position(|line| line.trim_end().ends_with(&mark));
    line.expect("a line with this mark") + 1
}

#[gpu_leak_check]
#[ignore = "run by a test of programs.rs"]
#[test]
fn requests_no_peaks() -> Result<()> {
    Tensor::zeros([1024], &Device::embedded()?)?.sin()?;
    Ok(())
}

#[ignore = "run by a test of programs.rs"]
#[test]
fn checks_beside_a_model() -> Result<()> {
    let device = Device::embedded()?;
    let _model = Linear::new(256, 256, &device)?;
    let (output, report) = Check::new("beside a model").peaks(true).run_reporting(|| {
        let input = Tensor::zeros([1024], &device)?;
        input.sin()?.to_vec::<f32>()
    });
    assert_eq!(output?.len(), 1024);
    let [device] = &report.devices[..] else {
        panic!("{:?}", report.devices);
    };
    assert!(report.peak(device.place, BLOCKS).is_some());
    assert_eq!(report.peak(device.place, "driver"), None);
    Ok(())
}

#[gpu_leak_check(peaks)]
#[ignore = "run by a test of programs.rs"]
#[test]
fn allocates_on_four_threads() -> Result<()> {
    let device = Device::embedded()?;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 1..50 {
                    let one = Tensor::full([64, round], 1.0, &device).expect("room");
                    let _both = (one.sin().expect("room"), one);
                }
            });
        }
    });
    Ok(())
}
