//! The allocations that one buffer could serve. A twin of the program, which reuses the buffer,
//! proves each such statement: it allocates fewer blocks, by the number in the report.

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::{Report, Reusable};
use gpu_leak_kernels::memory::Buffer;
use gpu_leak_kernels::{Device, Result, Tensor};
use gpu_leak_tests::checked;
use gpu_leak_tests::child::Run;

use super::{BLOCKS, course_of, line_of};

fn report_of(program: &str) -> Report {
    let checked = checked::finish(Run::of(&format!("peaks::reuse::{program}")));
    checked.report().clone()
}

fn reusable(report: &Report) -> &[Reusable] {
    let blocks = report.peaks.iter().find(|it| it.layer == BLOCKS);
    &blocks.expect("blocks").reusable
}

/// Returns the number of blocks that the program allocated.
fn allocations(report: &Report) -> u64 {
    let blocks = report.peaks.iter().find(|it| it.layer == BLOCKS);
    let course = course_of(report, blocks.expect("blocks"));
    assert_eq!(course.lost, 0);
    course.allocations.iter().filter(|it| it.2 > 0).count() as u64
}

/// Fails unless the report of `program` says that one buffer could serve `count` allocations of
/// `each` bytes at the line with this mark, and the twin saves as many allocations as the report
/// says. What the report of the twin says must be about other lines.
#[track_caller]
fn assert_right(program: &str, twin: &str, mark: &str, each: u64, count: u64) {
    let (report, twin) = (report_of(program), report_of(twin));
    let at = format!(
        "tests/peaks/reuse.rs:{}",
        line_of(include_str!("reuse.rs"), mark)
    );
    let of_line = |report: &Report| -> Vec<Reusable> {
        let reported = reusable(report).iter();
        reported.filter(|it| it.at == at).cloned().collect()
    };
    let reported = of_line(&report);
    let expected = Reusable {
        at: at.clone(),
        each,
        count,
        buffers: 1,
    };
    assert_eq!(reported, [expected], "{program}");
    let fewer = allocations(&report) - allocations(&twin);
    assert_eq!(fewer, reported[0].saved(), "{program}");
    let peak = |report: &Report| {
        report
            .peaks
            .iter()
            .find(|it| it.layer == BLOCKS)
            .map(|it| it.bytes)
    };
    assert_eq!(
        peak(&report),
        peak(&twin),
        "{program}: allocations that follow one another do not make a peak"
    );
}

#[test]
fn a_scratch_buffer_of_a_loop() {
    assert_right(
        "scratch_in_a_loop",
        "scratch_before_a_loop",
        "reuse: scratch",
        1 << 20,
        10,
    );
}

#[test]
fn a_tensor_that_each_step_zeroes() {
    assert_right("zeroes_in_a_loop", "zeroes_one", "reuse: sums", 4096, 7);
}

#[test]
fn a_buffer_in_a_function_that_a_loop_calls() {
    assert_right(
        "calls_in_a_loop",
        "calls_with_a_buffer",
        "reuse: callee",
        2048,
        5,
    );
}

/// Allocations with overlapping lifetimes, different sizes or different streams need separate
/// buffers.
#[test]
fn allocations_that_one_buffer_cannot_serve_are_not_reported() {
    for program in ["keeps_the_previous", "grows_in_a_loop"] {
        let report = report_of(program);
        assert_eq!(reusable(&report), [], "{program}");
    }
}

#[gpu_leak_check(peaks)]
#[ignore = "run by a test above"]
#[test]
fn scratch_in_a_loop() -> Result<()> {
    let device = Device::embedded()?;
    for _ in 0..10 {
        let _scratch = Buffer::new(&device, 1 << 20)?; // reuse: scratch
    }
    Ok(())
}

#[gpu_leak_check(peaks)]
#[ignore = "run by a test above"]
#[test]
fn scratch_before_a_loop() -> Result<()> {
    let device = Device::embedded()?;
    let scratch = Buffer::new(&device, 1 << 20)?;
    for _ in 0..10 {
        assert_eq!(scratch.bytes(), 1 << 20);
    }
    Ok(())
}

#[gpu_leak_check(peaks)]
#[ignore = "run by a test above"]
#[test]
fn zeroes_in_a_loop() -> Result<()> {
    let device = Device::embedded()?;
    let input = Tensor::full([1024], 1.0, &device)?;
    for _ in 0..7 {
        let sums = Tensor::zeros([1024], &device)?; // reuse: sums
        sums.add_(&input)?;
    }
    Ok(())
}

#[gpu_leak_check(peaks)]
#[ignore = "run by a test above"]
#[test]
fn zeroes_one() -> Result<()> {
    let device = Device::embedded()?;
    let input = Tensor::full([1024], 1.0, &device)?;
    let sums = Tensor::zeros([1024], &device)?;
    for _ in 0..7 {
        sums.zero_()?;
        sums.add_(&input)?;
    }
    Ok(())
}

fn step(device: &Device) -> Result<u64> {
    let scratch = Buffer::new(device, 2048)?; // reuse: callee
    Ok(scratch.address())
}

#[gpu_leak_check(peaks)]
#[ignore = "run by a test above"]
#[test]
fn calls_in_a_loop() -> Result<()> {
    let device = Device::embedded()?;
    let _weights = Buffer::new(&device, 8192)?;
    for _ in 0..5 {
        step(&device)?;
    }
    Ok(())
}

#[gpu_leak_check(peaks)]
#[ignore = "run by a test above"]
#[test]
fn calls_with_a_buffer() -> Result<()> {
    let device = Device::embedded()?;
    let _weights = Buffer::new(&device, 8192)?;
    let scratch = Buffer::new(&device, 2048)?;
    for _ in 0..5 {
        assert_ne!(scratch.address(), 0);
    }
    Ok(())
}

#[gpu_leak_check(peaks)]
#[ignore = "run by a test above"]
#[test]
fn keeps_the_previous() -> Result<()> {
    let device = Device::embedded()?;
    let mut kept = Buffer::new(&device, 4096)?;
    for _ in 0..10 {
        let next = Buffer::new(&device, 4096)?;
        drop(std::mem::replace(&mut kept, next));
    }
    Ok(())
}

#[gpu_leak_check(peaks)]
#[ignore = "run by a test above"]
#[test]
fn grows_in_a_loop() -> Result<()> {
    let device = Device::embedded()?;
    for size in 1..10 {
        Buffer::new(&device, 4096 * size)?;
    }
    Ok(())
}
