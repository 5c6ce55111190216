#[cfg(target_pointer_width = "64")]
use std::mem::{offset_of, size_of};
use std::ptr;

use super::Pointer;
#[cfg(target_pointer_width = "64")]
use super::{AllocationNode, ArrayDescriptor, ArrayDescriptor3D, IpcHandle, Node};

/// Makes pointer parameters like those that a caller passes.
impl<T> Pointer<T> {
    pub(in super::super) fn at(place: &T) -> Self {
        Self(ptr::from_ref(place))
    }

    pub(in super::super) fn at_words(words: &[u64]) -> Self {
        assert!(size_of_val(words) >= size_of::<T>());
        Self(words.as_ptr().cast())
    }

    pub(in super::super) fn dangling() -> Self {
        Self(ptr::dangling())
    }

    pub(in super::super) fn null() -> Self {
        Self(ptr::null())
    }
}

/// The expected values come from a C compiler with the `cuda.h` of CUDA 11.8, 12.8 and 13.5.
#[test]
#[cfg(target_pointer_width = "64")]
fn structures_have_the_layout_of_the_header() {
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
