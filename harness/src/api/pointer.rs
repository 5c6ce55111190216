//! Parameters of C functions that point to results or inputs.

#![expect(unsafe_code, reason = "reads the targets of pointer parameters")]

use std::ptr;

/// A parameter that is a pointer.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Pointer<T>(pub(super) *const T);

/// A pointer to which the driver writes its result.
pub(super) type Out<T = u64> = Pointer<T>;
/// A pointer from which the driver reads an input.
pub(super) type In<T> = Pointer<T>;

impl<T> Pointer<T> {
    /// Returns the same address as a pointer to another type.
    pub(super) fn cast<U>(self) -> Pointer<U> {
        Pointer(self.0.cast())
    }
}

impl<T: Copy> Pointer<T> {
    /// Returns the target; `None` if the caller passed null.
    ///
    /// # Safety
    /// The call with this parameter has returned. If the parameter is a result, the call was
    /// successful; if it is an input, the call did not reject it.
    pub(super) unsafe fn read(self) -> Option<T> {
        // SAFETY: the caller upholds the contract.
        unsafe { self.read_at(0) }
    }

    /// Returns the elements of an array of this length; none if the caller passed null.
    ///
    /// # Safety
    ///
    /// The conditions are those of [`Self::read`] for each element, and must hold until the last
    /// element has been returned.
    pub(super) unsafe fn read_all(self, count: u32) -> impl Iterator<Item = T> + Clone {
        // SAFETY: the caller upholds the contract.
        (0..count as usize).map_while(move |index| unsafe { self.read_at(index) })
    }

    /// Returns the element with this index of an array; `None` if the caller passed null.
    ///
    /// # Safety
    ///
    /// The conditions are those of [`Self::read`], and the array must have that element.
    unsafe fn read_at(self, index: usize) -> Option<T> {
        // SAFETY: as the caller promises, the driver has written or read the target, or `T` is the
        // first part of the target. A program's own variables may be unaligned.
        (!self.0.is_null()).then(|| unsafe { ptr::read_unaligned(self.0.add(index)) })
    }
}
