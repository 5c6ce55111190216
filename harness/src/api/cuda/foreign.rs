//! C's side of the table: parameters through which a call answers or is told more, and the structures
//! that they point to.
//!
//! Layouts are those of `cuda.h` 11.8 to 13.5, among which they do not differ. A structure of which
//! only the first fields are read stands here with those alone. Handles are `u64`, which every
//! platform of CUDA passes as it passes a pointer.

#![expect(
    unsafe_code,
    reason = "what a parameter points to is read through its address"
)]

use std::ptr;

/// A parameter that points to something.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Pointer<T>(*const T);

/// Where the driver writes its answer.
pub(super) type Out<T = u64> = Pointer<T>;
/// What the caller tells the driver.
pub(super) type In<T> = Pointer<T>;

impl<T: Copy> Pointer<T> {
    /// What it points to; none when the caller passed null.
    ///
    /// # Safety
    ///
    /// The call that this is a parameter of has returned: of an answer, with success; of what the caller
    /// tells, without having been refused because of it.
    pub(super) unsafe fn read(self) -> Option<T> {
        // SAFETY: the caller's promise: the driver has written it or read it, or `T` is its beginning. A
        // program's own variables may be unaligned.
        (!self.0.is_null()).then(|| unsafe { ptr::read_unaligned(self.0) })
    }
}

/// What a number can be told from: itself, as long as it is (the oldest calls have addresses of 32
/// bits), or a description of something, of which it is the size in bytes.
pub(super) trait Number: Copy {
    /// The number; the size of an array that does not say how many levels it has, in so many.
    fn number(self, levels: u32) -> u64;
}

impl Number for u64 {
    fn number(self, _levels: u32) -> u64 {
        self
    }
}

impl Number for u32 {
    fn number(self, _levels: u32) -> u64 {
        self.into()
    }
}

/// A number of a call.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Given(u64),
    /// Behind a parameter, where the function reads it.
    Behind(Pointer<()>, u32, unsafe fn(Pointer<()>, u32) -> Option<u64>),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Given(value)
    }
}

impl<T: Number> From<Pointer<T>> for Value {
    fn from(pointer: Pointer<T>) -> Self {
        pointer.of_levels(1)
    }
}

impl<T: Number> Pointer<T> {
    /// The size of the array that this describes, in so many levels.
    pub(super) fn of_levels(self, levels: u32) -> Value {
        unsafe fn read<T: Number>(at: Pointer<()>, levels: u32) -> Option<u64> {
            // SAFETY: the caller's promise: `of_levels` made this of a `Pointer<T>`.
            let number = unsafe { Pointer::<T>(at.0.cast()).read() };
            number.map(|number| number.number(levels))
        }
        Value::Behind(Pointer(self.0.cast()), levels, read::<T>)
    }
}

impl Value {
    /// The number; none when the caller passed null.
    ///
    /// # Safety
    ///
    /// As for [`Pointer::read`].
    pub(super) unsafe fn read(self) -> Option<u64> {
        match self {
            Self::Given(value) => Some(value),
            // SAFETY: the caller's promise.
            Self::Behind(at, levels, read) => unsafe { read(at, levels) },
        }
    }
}

/// `CUipcMemHandle` and `CUipcEventHandle`, which are passed by value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct IpcHandle([u64; 8]);

/// `CUmemPoolProps` and `CUmemAllocationProp`, up to their location.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Properties {
    pub(super) allocation_type: u32,
    pub(super) handle_types: u32,
    pub(super) location_type: u32,
    pub(super) location_id: u32,
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct AllocationNode {
    pub(super) properties: Properties,
    pub(super) rest_of_properties: [u64; 9],
    pub(super) access: u64,
    pub(super) access_count: u64,
    pub(super) bytes: u64,
    pub(super) pointer: u64,
}

/// `CUgraphNodeParams`, as far as nodes that have to do with memory go.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Node {
    pub(super) node_type: u32,
    pub(super) reserved: [u32; 3],
    pub(super) parameters: NodeParameters,
}

/// What a node is to do, by its type.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union NodeParameters {
    pub(super) allocation: AllocationNode,
    /// `CUDA_MEM_FREE_NODE_PARAMS`: the address.
    pub(super) freed: u64,
}

/// `CUDA_ARRAY_DESCRIPTOR`; with `u32`, of the time of 32-bit addresses.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrayDescriptor<Size = u64> {
    pub(super) width: Size,
    pub(super) height: Size,
    pub(super) format: u32,
    pub(super) channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`; with `u32`, of the time of 32-bit addresses.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrayDescriptor3D<Size = u64> {
    pub(super) width: Size,
    pub(super) height: Size,
    pub(super) depth: Size,
    pub(super) format: u32,
    pub(super) channels: u32,
    pub(super) flags: u32,
}

/// `CUDA_EXTERNAL_MEMORY_BUFFER_DESC`, up to its size.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct ExternalBuffer {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// `CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC`, up to its levels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct ExternalMipmapped {
    pub(super) offset: u64,
    pub(super) array: ArrayDescriptor3D,
    pub(super) levels: u32,
}

#[cfg(test)]
mod tests;
