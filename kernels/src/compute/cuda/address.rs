//! Operands as kernels see them: an address and a count.

use crate::compute::dtype::DType;
use crate::compute::kernels::Operand;

/// The address of an operand's first element on the device.
pub(super) fn start(operand: Operand<'_>, dtype: DType) -> u64 {
    operand.storage.address() + (operand.layout.offset * dtype.bytes()) as u64
}

/// The address of an `f32` operand's first element on the device.
pub(super) fn floats(operand: Operand<'_>) -> u64 {
    start(operand, DType::F32)
}

pub(super) fn count(operand: Operand<'_>) -> u64 {
    operand.layout.count() as u64
}
