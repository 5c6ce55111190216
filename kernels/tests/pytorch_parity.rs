//! The programs' bytes, compared with PyTorch's step by step.
//!
//! `reference/pytorch-2.11-h200.json` contains what PyTorch 2.11 reported on an H200, with its
//! cuBLAS workspaces set to 0 bytes.

use std::collections::BTreeMap;

use gpu_leak_kernels::programs::{PROGRAMS, Program, Row};
use gpu_leak_kernels::{Device, Result};
use serde_json::Value;

/// Programs with at most this size fit an embedded device of the default size, and are fast enough
/// for a test.
const SMALL: u64 = 64 << 20;

fn reference() -> Value {
    serde_json::from_str(include_str!("reference/pytorch-2.11-h200.json"))
        .expect("the reference is JSON")
}

fn compare(rows: &[Row]) {
    let reference = reference();
    let rows: BTreeMap<_, _> = rows
        .iter()
        .map(|row| ((row.program, row.step.as_str()), row))
        .collect();
    let known = reference["rows"].as_array().expect("rows");
    for known in known {
        let key = (
            known["program"].as_str().expect("a program"),
            known["step"].as_str().expect("a step"),
        );
        let Some(row) = rows.get(&key) else {
            // This program was not run. The other test fails if a step is missing.
            continue;
        };
        for (name, ours) in [
            ("allocated", row.allocated),
            ("reserved", row.reserved),
            ("segments", row.segments),
            ("active_blocks", row.active_blocks),
        ] {
            assert_eq!(known[name].as_u64(), Some(ours), "{name} at {key:?}");
        }
        let peak = known["peak_allocated"].as_u64().expect("a peak");
        assert!(
            row.peak_allocated <= peak,
            "peak at {key:?}: {} above {peak}",
            row.peak_allocated
        );
    }
}

fn run_all(device: &Device, limit: u64) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for program in PROGRAMS.iter().filter(|program| program.bytes <= limit) {
        rows.extend(program.run(device)?);
    }
    Ok(rows)
}

#[test]
fn the_embedded_device_holds_the_bytes_that_pytorch_holds() -> Result<()> {
    compare(&run_all(&Device::embedded()?, SMALL)?);
    Ok(())
}

#[test]
fn a_cuda_device_holds_the_bytes_that_pytorch_holds() -> Result<()> {
    let Ok(device) = Device::cuda(0) else {
        return Ok(());
    };
    compare(&run_all(&device, u64::MAX)?);
    Ok(())
}

#[test]
fn every_program_reads_at_the_steps_at_which_pytorch_was_read() -> Result<()> {
    let reference = reference();
    let programs = reference["steps"].as_object().expect("steps");
    assert_eq!(programs.len(), PROGRAMS.len());
    let device = Device::embedded()?;
    for (name, steps) in programs {
        let program = Program::named(name).expect("every program is there");
        if program.bytes > SMALL {
            continue;
        }
        let read: Vec<Value> = program
            .run(&device)?
            .into_iter()
            .map(|row| row.step.into())
            .collect();
        assert_eq!(steps, &Value::Array(read), "{name}");
    }
    Ok(())
}

/// The reference does not contain PyTorch's figures for these programs. The expected figures follow
/// from what each operation keeps.
#[test]
fn the_remaining_programs_hold_what_their_operations_keep() -> Result<()> {
    let device = Device::embedded()?;
    let rows = run_all(&device, SMALL)?;
    let figure = |program: &str, step: &str| {
        let row = rows
            .iter()
            .find(|row| row.program == program && row.step == step)
            .expect("the step was read");
        (row.allocated, row.reserved)
    };
    const SEGMENT: u64 = 2 << 20;
    // Gradients and, from the first step on, one momentum for each parameter.
    let sgd = |step| figure("tiny_model_training_sgd", step);
    assert_eq!(sgd("backward0"), (213_504, SEGMENT));
    assert_eq!(sgd("step0"), (213_504 + 90_112, SEGMENT));
    assert_eq!(sgd("forward1"), (172_032 + 90_112, SEGMENT));
    assert_eq!(sgd("del_model_opt"), (28_160, SEGMENT));
    // Weight, bias and input, then the output.
    assert_eq!(figure("linear_no_grad", "setup"), (45_056, SEGMENT));
    assert_eq!(figure("linear_no_grad", "out"), (45_568, SEGMENT));
    // Parameters, gradients, data, output, loss: 512 bytes each.
    let loop_sgd = |step| figure("training_loop_sgd", step);
    assert_eq!(loop_sgd("setup"), (1024, SEGMENT));
    assert_eq!(loop_sgd("epoch1_batch99"), (7 * 512, SEGMENT));
    assert_eq!(loop_sgd("loop_end"), (4 * 512, SEGMENT));
    assert_eq!(loop_sgd("empty_cache"), (0, 0));
    // A tensor of 40,000 bytes and its sum.
    assert_eq!(figure("multiple_ops", "iter4"), (40_448 + 512, SEGMENT));
    assert_eq!(figure("multiple_ops", "end"), (0, 0));
    Ok(())
}
