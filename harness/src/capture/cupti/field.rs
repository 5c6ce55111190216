//! Where a parameter lies in its block: the vocabulary of the [table](super::watch).

#![expect(
    unsafe_code,
    reason = "the blocks are C structs, read through their address"
)]

use std::ffi::c_void;
use std::ptr;

/// A parameter passed by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Value {
    offset: usize,
    wide: bool,
}

/// A parameter that says where the driver writes its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    offset: usize,
    wide: bool,
}

/// 4 or 8 bytes; nothing else occurs.
const fn is_wide(size: usize) -> bool {
    assert!(size == 4 || size == 8);
    size == 8
}

impl Value {
    /// The field of `S` at `offset`, which `_field` reads.
    pub(super) const fn at<S, T: Copy>(offset: usize, _field: fn(&S) -> T) -> Self {
        Self {
            offset,
            wide: is_wide(size_of::<T>()),
        }
    }
}

impl Answer {
    /// The pointer of `S` at `offset`, which `_field` reads.
    pub(super) const fn at<S, T: Copy>(offset: usize, _field: fn(&S) -> *const T) -> Self {
        Self {
            offset,
            wide: is_wide(size_of::<T>()),
        }
    }
}

/// What fuzzing has to know to make a block.
#[cfg(any(test, fuzzing))]
impl Value {
    /// The first byte behind the field.
    pub(super) const fn end(self) -> usize {
        self.offset + if self.wide { 8 } else { 4 }
    }
}

#[cfg(any(test, fuzzing))]
impl Answer {
    /// Where in its block the pointer lies, and the size of the answer.
    pub(super) const fn pointer(self) -> (usize, usize) {
        (self.offset, if self.wide { 8 } else { 4 })
    }
}

/// `value!(Allocate.bytes)`: a field passed by value.
macro_rules! value {
    ($block:ident . $field:ident) => {
        $crate::capture::cupti::field::Value::at(
            std::mem::offset_of!($block, $field),
            |block: &$block| block.$field,
        )
    };
}

/// `answer!(Allocate.pointer)`: a field that says where the answer goes.
macro_rules! answer {
    ($block:ident . $field:ident) => {
        $crate::capture::cupti::field::Answer::at(
            std::mem::offset_of!($block, $field),
            |block: &$block| block.$field,
        )
    };
}

pub(super) use {answer, value};

/// The parameter block of one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block(*const u8);

impl Block {
    pub(super) fn new(params: *const c_void) -> Self {
        Self(params.cast())
    }

    /// A field passed by value.
    ///
    /// # Safety
    ///
    /// The block is readable and has the layout that `field` was declared for.
    pub(super) unsafe fn value(self, field: Value) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { number(self.0.add(field.offset), field.wide) }
    }

    /// What the driver wrote to the place that a field names; none when the caller passed null.
    ///
    /// # Safety
    ///
    /// As for [`Self::value`], and the call has returned success: before, the answer is not
    /// written.
    pub(super) unsafe fn answer(self, field: Answer) -> Option<u64> {
        // SAFETY: the caller's promise; the field is a pointer.
        let answer = unsafe {
            self.0
                .add(field.offset)
                .cast::<*const u8>()
                .read_unaligned()
        };
        if answer.is_null() {
            return None;
        }
        // SAFETY: a successful call has written there, so it can be read during the callback.
        Some(unsafe { number(answer, field.wide) })
    }

    /// What a field points to; none when the caller passed null.
    ///
    /// # Safety
    ///
    /// As for [`Self::value`]; the field is a pointer to a `T` that the caller of the driver filled.
    pub(super) unsafe fn pointee<T: Copy>(self, offset: usize) -> Option<T> {
        // SAFETY: the caller's promise.
        unsafe {
            let pointer = self.0.add(offset).cast::<*const T>().read_unaligned();
            (!pointer.is_null()).then(|| ptr::read_unaligned(pointer))
        }
    }
}

/// # Safety
///
/// `at` is readable for 8 bytes, or 4 when not `wide`.
unsafe fn number(at: *const u8, wide: bool) -> u64 {
    // SAFETY: the caller's promise; the program's own variables may be unaligned.
    unsafe {
        if wide {
            at.cast::<u64>().read_unaligned()
        } else {
            u64::from(at.cast::<u32>().read_unaligned())
        }
    }
}
