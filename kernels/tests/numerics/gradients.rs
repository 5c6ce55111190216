//! The results and gradients of every case.

use gpu_leak_kernels::{Device, HostTensor, Result, Tensor, manual_seed};

use super::array::Array;
use super::operations::{CASES, Case};
use super::{assert_close, devices};

/// Returns inputs other than 0, because the rectifier has no derivative at 0.
fn inputs(case: &Case, device: &Device) -> Result<Vec<Tensor>> {
    case.shapes
        .iter()
        .map(|shape| {
            HostTensor::randn(shape)?
                .map(|x| x + 0.05_f32.copysign(x))
                .to(device)?
                .requires_grad_(true)
        })
        .collect()
}

fn arrays(tensors: &[Tensor]) -> Result<Vec<Array>> {
    tensors.iter().map(Array::of).collect()
}

#[test]
fn results_agree_with_the_reference() -> Result<()> {
    for device in devices() {
        for (seed, case) in (0..).zip(CASES) {
            manual_seed(seed);
            let inputs = inputs(case, &device)?;
            let found = (case.library)(&inputs)?;
            let reference = (case.reference)(&arrays(&inputs)?);
            assert_eq!(found.shape(), reference.shape, "{}", case.name);
            assert_close(case.name, &found.to_vec()?, &reference.values, 1e-5);
        }
    }
    Ok(())
}

#[test]
fn gradients_agree_with_differences_of_the_reference() -> Result<()> {
    const STEP: f64 = 1e-5;
    for device in devices() {
        for (seed, case) in (100..).zip(CASES) {
            manual_seed(seed);
            let inputs = inputs(case, &device)?;
            let out = (case.library)(&inputs)?;
            // The weights make every element of the result contribute differently.
            let weights = HostTensor::randn(out.shape())?.to(&device)?;
            out.mul(&weights)?.sum()?.backward()?;

            let weights = Array::of(&weights)?;
            let arrays = arrays(&inputs)?;
            let objective = |arrays: &[Array]| {
                let out = (case.reference)(arrays);
                out.zip(&weights, |a, b| a * b).total()
            };
            for (number, input) in inputs.iter().enumerate() {
                // With large inputs, test only some places, because each difference computes
                // everything twice.
                let places = (0..input.numel()).step_by(input.numel().div_ceil(70));
                let differences: Vec<f64> = places
                    .clone()
                    .map(|place| {
                        let moved = |by: f64| {
                            let mut arrays = arrays.clone();
                            arrays[number].values[place] += by;
                            objective(&arrays)
                        };
                        (moved(STEP) - moved(-STEP)) / (2.0 * STEP)
                    })
                    .collect();
                let gradient = input.grad().expect("a leaf gets a gradient");
                assert_eq!(gradient.shape(), input.shape(), "{}", case.name);
                let what = format!("{} by input {number} on {device}", case.name);
                let gradient = gradient.to_vec::<f32>()?;
                let found: Vec<f32> = places.map(|place| gradient[place]).collect();
                assert_close(&what, &found, &differences, 1e-4);
            }
        }
    }
    Ok(())
}

/// A number that is not a number must not be replaced by a gradient of 0, which would hide it.
#[test]
fn gradients_of_nan_are_not_lost() -> Result<()> {
    for device in devices() {
        let values = HostTensor::from_f32(vec![f32::NAN, -1.0, 0.0, 2.0], [4])?;
        let input = values.to(&device)?.requires_grad_(true)?;
        input.relu()?.sum()?.backward()?;
        let gradient = input.grad().expect("a leaf gets a gradient");
        // As in PyTorch, whose rule is 0 where the result is at most 0.
        assert_eq!(gradient.to_vec::<f32>()?, [1.0, 0.0, 0.0, 1.0]);
    }
    Ok(())
}

#[test]
fn a_class_that_does_not_exist_makes_the_gradient_of_its_row_nan() -> Result<()> {
    for device in devices() {
        for class in [-1, 3, i64::MAX] {
            let scores = Tensor::zeros([2, 3], &device)?.requires_grad_(true)?;
            let classes = HostTensor::from_i64(vec![class, 1], [2])?.to(&device)?;
            let loss = scores.cross_entropy(&classes)?;
            loss.backward()?;
            assert!(loss.item()?.is_nan());
            let gradient = scores.grad().expect("a leaf gets a gradient");
            let gradient = gradient.to_vec::<f32>()?;
            assert!(gradient[..3].iter().all(|x| x.is_nan()), "{gradient:?}");
            let sixth = 1.0 / 6.0;
            assert_close("row 1", &gradient[3..], &[sixth, -2.0 * sixth, sixth], 1e-6);
        }
    }
    Ok(())
}
