//! Whole programs of the workloads. The lines that are reported for a peak add up to it, to the
//! byte.

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::CheckStatus;
use gpu_leak_kernels::nn::{Linear, Module};
use gpu_leak_kernels::optim::{Adam, Optimizer, Sgd};
use gpu_leak_kernels::programs::Program;
use gpu_leak_kernels::{Device, Graph, HostTensor, Result, Tensor, TinyModel, TrainingStep};
use gpu_leak_tests::checked;
use gpu_leak_tests::child::Run;

use super::{BLOCKS, assert_adds_up, assert_lines_add_up, live_at, timeline};

#[test]
fn the_lines_at_the_peak_of_a_program_add_up_to_it() {
    let checked = checked::finish(Run::of_all("peaks::programs", 1));
    assert!(checked.reports.len() >= 13, "{}", checked.output());
    for report in &checked.reports {
        assert_eq!(report.status, CheckStatus::Clean, "{}", checked.output());
        assert_adds_up(report);
        let mut peaks = report.peaks.iter();
        let blocks = peaks.find(|it| it.layer == BLOCKS).expect("blocks");
        assert!(blocks.lines.iter().all(|line| line.at.contains(".rs:")));
    }
}

/// The sum is correct at every call and not only at the peak, because the page can show any call.
#[test]
fn the_log_adds_up_to_the_curve_at_every_call() {
    let checked = checked::finish(Run::of("peaks::programs::training_step_in_a_graph"));
    let run = &timeline(checked.report()).runs[0];
    let logged = run.curves.iter().filter(|it| !it.allocations.is_empty());
    let mut compared = 0;
    for course in logged {
        for point in course.points.iter().filter(|point| point.1 == point.2) {
            assert_eq!(
                live_at(course, point.0),
                point.1,
                "{} {point:?}",
                course.layer
            );
            compared += 1;
        }
        assert_eq!(live_at(course, 0), course.start);
    }
    assert!(compared > 10, "{compared} points");
}

/// Blocks that existed before a check count towards its peak, and are reported as such.
#[test]
fn memory_allocated_before_the_check_is_part_of_its_peak() {
    let checked = checked::finish(Run::of("peaks::checks_beside_a_model"));
    let report = checked.report();
    assert_adds_up(report);
    let blocks = report.peaks.iter().find(|it| it.layer == BLOCKS);
    let lines = &blocks.expect("blocks").lines;
    let earlier: Vec<_> = lines.iter().filter(|it| it.earlier > 0).collect();
    let [earlier] = earlier[..] else {
        panic!("{lines:?}");
    };
    let weights = 4 * 256 * 256 + 4 * 256;
    assert_eq!(
        (earlier.bytes, earlier.earlier, earlier.when),
        (weights, 2, None)
    );
    assert_eq!(earlier.allocated().as_deref(), Some("before the check"));
}

/// The order of simultaneous calls is unknown, but the blocks that were live at the peak are known.
#[test]
fn the_lines_add_up_with_several_threads() {
    for _ in 0..3 {
        let checked = checked::finish(Run::of("peaks::allocates_on_four_threads"));
        assert_lines_add_up(checked.report());
    }
}

/// Without the option, a report contains nothing about peaks.
#[test]
fn a_check_that_requests_no_peaks_has_no_log() {
    let checked = checked::finish(Run::of("peaks::requests_no_peaks"));
    let report = checked.report();
    assert_eq!((report.peaks.len(), report.graphs.len()), (0, 0));
    let curves = timeline(report).runs.iter().flat_map(|run| &run.curves);
    assert!(curves.clone().count() > 0);
    assert!(curves.clone().all(|it| it.allocations.is_empty()));
}

fn run(program: &str) {
    let device = Device::embedded().expect("a device");
    let program = Program::named(program).expect("a program");
    program.run(&device).expect("room for it");
}

macro_rules! programs {
    ($($name:ident)*) => {
        $(
            #[gpu_leak_check(peaks)]
            #[ignore = "run by a test above"]
            #[test]
            fn $name() {
                run(stringify!($name));
            }
        )*
    };
}

programs! {
    tiny_model_inference tiny_model_training_adam tiny_model_training_sgd linear_no_grad
    data_loader_loop linear_adam_release process_data training_loop_sgd multiple_ops
}

/// A cumulative sum that multiplies by a matrix.
/// <https://github.com/huggingface/candle/issues/1599>
#[gpu_leak_check(peaks)]
#[ignore = "run by a test above"]
#[test]
fn cumulative_sum() -> Result<()> {
    let device = Device::embedded()?;
    let numbers = Tensor::full([1, 256], 1.0, &device)?;
    let matrix = Tensor::full([256, 256], 1.0, &device)?;
    numbers.matmul(&matrix)?;
    Ok(())
}

#[gpu_leak_check(peaks)]
#[ignore = "run by a test above"]
#[test]
fn training_step_in_a_graph() -> Result<()> {
    let device = Device::embedded()?;
    let model = TinyModel::new(&device)?;
    let mut optimizer = Sgd::new(model.parameters(), 0.05)?.momentum(0.9);
    let inputs = HostTensor::rand([64, TinyModel::INPUTS])?.to(&device)?;
    let targets = HostTensor::rand([64, TinyModel::OUTPUTS])?.to(&device)?;
    let mut step = TrainingStep::capture(&mut optimizer, &inputs, &targets, |inputs, targets| {
        model.forward(inputs)?.mse_loss(targets)
    })?;
    step.replay()
}

#[gpu_leak_check(peaks)]
#[ignore = "run by a test above"]
#[test]
fn graph_with_an_output() -> Result<()> {
    let device = Device::embedded()?;
    let input = Tensor::zeros([1024], &device)?;
    let (graph, output) = Graph::capture(&device, || input.add_scalar(1.0)?.sin()?.relu())?;
    let mut graph = graph.instantiate()?;
    graph.replay()?;
    output.to_vec::<f32>()?;
    Ok(())
}

#[gpu_leak_check(peaks)]
#[ignore = "run by a test above"]
#[test]
fn two_models_one_after_the_other() -> Result<()> {
    let device = Device::embedded()?;
    for width in [64, 512, 128] {
        let model = Linear::new(width, width, &device)?;
        let mut optimizer = Adam::new(model.parameters(), 0.01)?;
        let inputs = Tensor::full([8, width], 0.5, &device)?;
        model.forward(&inputs)?.mse_loss(&inputs)?.backward()?;
        optimizer.step()?;
    }
    Ok(())
}
