//! Memory that is freed manually, unless an error causes an early return.

use std::mem::ManuallyDrop;

use crate::device::Device;
use crate::error::Result;
use crate::tensor::Tensor;

super::leak::planted! {
    "early_return", "an error makes the function return before it frees the tensor",
    Caching, "block", ["skipped": 1 of 40_448], super::leak::SMALL_SEGMENT
}

fn run(device: &Device) -> Result<()> {
    let refused = square_by_hand(device).is_err();
    debug_assert!(refused, "the shapes do not fit");
    Ok(())
}

fn square_by_hand(device: &Device) -> Result<Tensor> {
    let scratch = ManuallyDrop::new(Tensor::zeros([200, 50], device)?); // leak: skipped
    let square = scratch.matmul(&scratch)?;
    drop(ManuallyDrop::into_inner(scratch));
    Ok(square)
}
