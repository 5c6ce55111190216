//! Tests every operation and gradient against a reference in `f64`, on every device of the machine.
//!
//! Results must agree to a relative 1e-5, or to 1e-4 after long sums. Gradients must agree with
//! central differences of the reference to a relative 1e-4. Both bounds are relative to the largest
//! magnitude.

mod array;
mod creation;
mod gradients;
mod graph;
mod large;
mod operations;
mod optimizers;
mod training;

use gpu_leak_kernels::Device;

/// The embedded device, and the first CUDA device where there is one.
fn devices() -> Vec<Device> {
    let embedded = Device::embedded().expect("an embedded device");
    std::iter::once(embedded).chain(Device::cuda(0)).collect()
}

/// Fails unless each number is within `bound` of the reference, relative to the largest number in
/// the reference.
#[track_caller]
fn assert_close(what: &str, found: &[f32], reference: &[f64], bound: f64) {
    assert_eq!(found.len(), reference.len(), "{what}: lengths");
    let largest = reference.iter().fold(1.0_f64, |most, x| most.max(x.abs()));
    for (place, (found, reference)) in found.iter().zip(reference).enumerate() {
        let error = (f64::from(*found) - reference).abs();
        // The comparison is not written with `>`, because NaN must fail.
        assert!(
            error <= bound * largest,
            "{what}: {found} for {reference} at {place}"
        );
    }
}
