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

/// A parameter that says where the driver writes its answer.
#[repr(transparent)]
#[derive(Debug)]
pub(super) struct Out<T = u64>(*const T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

/// Where an address or handle stands, and how long it is: the oldest calls have addresses of 32 bits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    Long(Out<u64>),
    Short(Out<u32>),
    /// The caller gave it.
    Given(u64),
}

impl From<Out<u64>> for Answer {
    fn from(out: Out<u64>) -> Self {
        Self::Long(out)
    }
}

impl From<Out<u32>> for Answer {
    fn from(out: Out<u32>) -> Self {
        Self::Short(out)
    }
}

impl Answer {
    /// What the driver has answered; none when the caller passed null.
    ///
    /// # Safety
    ///
    /// The call that this is a parameter of has returned success.
    pub(super) unsafe fn read(self) -> Option<u64> {
        // SAFETY: a call that succeeds has written its answer wherever that is not null.
        unsafe {
            match self {
                Self::Long(Out(at)) => read(at),
                Self::Short(Out(at)) => read(at).map(u64::from),
                Self::Given(value) => Some(value),
            }
        }
    }
}

/// A parameter that points to what the caller tells the driver.
#[repr(transparent)]
#[derive(Debug)]
pub(super) struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T: Copy> In<T> {
    /// What it points to; none when the caller passed null.
    ///
    /// # Safety
    ///
    /// The driver has read it in a call that has not been refused because of it.
    pub(super) unsafe fn read(self) -> Option<T> {
        // SAFETY: the caller's promise: the driver has read there what `T` is the beginning of.
        unsafe { read(self.0) }
    }
}

/// # Safety
///
/// `at` is null or readable.
unsafe fn read<T: Copy>(at: *const T) -> Option<T> {
    // SAFETY: the caller's promise. A program's own variables may be unaligned.
    (!at.is_null()).then(|| unsafe { ptr::read_unaligned(at) })
}

/// A description of something, from which its size can be told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Described {
    at: In<()>,
    /// How many levels an array has, where its descriptor does not say.
    levels: u32,
    bytes: unsafe fn(Self) -> u64,
}

impl Described {
    /// The bytes that were asked for; 0 when the caller passed null.
    ///
    /// # Safety
    ///
    /// As for [`In::read`].
    pub(super) unsafe fn bytes(self) -> u64 {
        // SAFETY: the caller's promise; `at` is of the type that this function was made for.
        unsafe { (self.bytes)(self) }
    }
}

/// What says how large something is.
pub(super) trait Describes: Copy {
    /// Its bytes; in so many levels, where it is an array that does not say how many.
    fn bytes(self, levels: u32) -> u64;
}

impl<T: Describes> In<T> {
    /// What this describes; an array in so many levels.
    pub(super) fn described(self, levels: u32) -> Described {
        unsafe fn bytes<T: Describes>(Described { at, levels, .. }: Described) -> u64 {
            // SAFETY: the caller's promise: `described` made this of an `In<T>`.
            let description = unsafe { In::<T>(at.0.cast()).read() };
            description.map_or(0, |description| description.bytes(levels))
        }
        Described {
            at: In(self.0.cast()),
            levels,
            bytes: bytes::<T>,
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

/// Parameters as a caller has them.
#[cfg(test)]
impl<T> Out<T> {
    pub(super) fn at(place: &T) -> Self {
        Self(ptr::from_ref(place))
    }

    pub(super) fn dangling() -> Self {
        Self(ptr::dangling())
    }

    pub(super) fn null() -> Self {
        Self(ptr::null())
    }
}

#[cfg(test)]
impl<T> In<T> {
    pub(super) fn at(place: &T) -> Self {
        Self(ptr::from_ref(place))
    }

    pub(super) fn at_words(words: &[u64]) -> Self {
        assert!(size_of_val(words) >= size_of::<T>());
        Self(words.as_ptr().cast())
    }

    pub(super) fn dangling() -> Self {
        Self(ptr::dangling())
    }
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::{AllocationNode, ArrayDescriptor, ArrayDescriptor3D, IpcHandle, Node};

    /// Printed by a C compiler from `cuda.h` of 11.8, 12.8 and 13.5.
    #[test]
    fn structures_are_as_the_header_has_them() {
        assert_eq!(size_of::<AllocationNode>(), 120);
        assert_eq!(offset_of!(AllocationNode, bytes), 104);
        assert_eq!(offset_of!(AllocationNode, pointer), 112);
        assert_eq!(offset_of!(Node, parameters), 16);
        assert_eq!(size_of::<IpcHandle>(), 64);
        assert_eq!(size_of::<ArrayDescriptor>(), 24);
        assert_eq!(size_of::<ArrayDescriptor<u32>>(), 16);
        assert_eq!(size_of::<ArrayDescriptor3D>(), 40);
        assert_eq!(size_of::<ArrayDescriptor3D<u32>>(), 24);
    }
}
