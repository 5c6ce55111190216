//! The C side of the table: the structures to which parameters point, and the numbers that are
//! passed by pointer.
//!
//! The layouts are those of `cuda.h` from 11.8 to 13.5, which agree. A structure is declared only
//! up to the last field that is read. Handles are `u64`, because every CUDA platform passes a `u64`
//! like a pointer.

#![expect(unsafe_code, reason = "reads the targets of pointer parameters")]

pub(super) use crate::api::pointer::{In, Out, Pointer};

/// A parameter from which a number can be read. It is an integer of any width (the oldest calls
/// have 32-bit addresses) or a descriptor, whose number is the size in bytes of the object that it
/// describes.
pub(super) trait Number: Copy {
    /// Returns the number. `levels` is the number of levels of an array, for a descriptor that does
    /// not contain this number.
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

/// A number that is passed to a call.
#[derive(Clone, Copy)]
pub(super) enum Argument {
    Given(u64),
    /// A pointer to a number or a descriptor, the number of levels that a descriptor does not
    /// contain, and the function that reads the number at the pointer.
    Behind(Pointer<()>, u32, unsafe fn(Pointer<()>, u32) -> Option<u64>),
}

impl From<u64> for Argument {
    fn from(value: u64) -> Self {
        Self::Given(value)
    }
}

impl<T: Number> From<Pointer<T>> for Argument {
    fn from(pointer: Pointer<T>) -> Self {
        of_levels(pointer, 1)
    }
}

/// Returns the size of the array with `levels` levels that the descriptor at `pointer` describes.
pub(super) fn of_levels<T: Number>(pointer: Pointer<T>, levels: u32) -> Argument {
    unsafe fn read<T: Number>(at: Pointer<()>, levels: u32) -> Option<u64> {
        // SAFETY: the caller upholds the contract, and `of_levels` made this from a `Pointer<T>`.
        let number = unsafe { at.cast::<T>().read() };
        number.map(|number| number.number(levels))
    }
    Argument::Behind(pointer.cast(), levels, read::<T>)
}

impl Argument {
    /// Whether the caller passed null.
    pub(super) fn is_null(self) -> bool {
        matches!(self, Self::Behind(at, ..) if at.0.is_null())
    }

    /// Returns the number; `None` if the caller passed null.
    ///
    /// # Safety
    ///
    /// The conditions are those of [`Pointer::read`].
    pub(super) unsafe fn read(self) -> Option<u64> {
        match self {
            Self::Given(value) => Some(value),
            // SAFETY: the caller upholds the contract.
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

/// `CUDA_CHILD_GRAPH_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct ChildNode {
    pub(super) graph: u64,
    /// `CUgraphChildGraphNodeOwnership`
    pub(super) ownership: u32,
}

/// The parts of `CUgraphNodeParams` that are needed for nodes that affect resources.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Node {
    pub(super) node_type: u32,
    pub(super) reserved: [u32; 3],
    pub(super) parameters: NodeParameters,
}

/// The parameters of a node. The node's type determines the field.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union NodeParameters {
    pub(super) allocation: AllocationNode,
    /// `CUDA_MEM_FREE_NODE_PARAMS`: the address.
    pub(super) freed: u64,
    pub(super) child: ChildNode,
}

/// `CUDA_ARRAY_DESCRIPTOR`. With `u32`, this is the version from the time of 32-bit addresses.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrayDescriptor<Size = u64> {
    pub(super) width: Size,
    pub(super) height: Size,
    pub(super) format: u32,
    pub(super) channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`. With `u32`, this is the version from the time of 32-bit addresses.
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

/// `CUDA_EXTERNAL_MEMORY_BUFFER_DESC`, up to its field for the size.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct ExternalBuffer {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// `CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC`, up to its number of levels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct ExternalMipmapped {
    pub(super) offset: u64,
    pub(super) array: ArrayDescriptor3D,
    pub(super) levels: u32,
}

#[cfg(test)]
mod tests;
