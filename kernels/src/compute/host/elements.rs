//! The elements of storages in host memory.

use crate::compute::dtype::Element;
use crate::compute::kernels::Operand;
use crate::memory::Buffer;

/// The numbers of a buffer in host memory.
pub(super) fn numbers<T: Element>(buffer: &Buffer) -> &[T] {
    match buffer.host_bytes().expect("an embedded device's memory") {
        // An empty buffer has no address, so its alignment cannot be checked.
        [] => &[],
        bytes => bytemuck::cast_slice(bytes),
    }
}

/// The numbers of a buffer in host memory, for writing.
pub(super) fn numbers_mut<T: Element>(buffer: &mut Buffer) -> &mut [T] {
    match buffer
        .host_bytes_mut()
        .expect("an embedded device's memory")
    {
        [] => &mut [],
        bytes => bytemuck::cast_slice_mut(bytes),
    }
}

/// The elements of a contiguous operand.
pub(super) fn dense<'a, T: Element>(buffer: &'a Buffer, operand: Operand<'_>) -> &'a [T] {
    &numbers(buffer)[operand.layout.offset..][..operand.layout.count()]
}

/// The elements of a contiguous operand, for writing.
pub(super) fn dense_mut<'a, T: Element>(
    buffer: &'a mut Buffer,
    operand: Operand<'_>,
) -> &'a mut [T] {
    &mut numbers_mut(buffer)[operand.layout.offset..][..operand.layout.count()]
}
