//! How a call to the driver API runs: its body, or the fault planned for it.
//!
//! Every API function is one entry of an [`api!`] table, with its exported names, arguments and
//! body.

#![expect(
    unsafe_code,
    reason = "writes through the raw pointers of the C interface"
)]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Error;
use crate::fault;

/// Runs one call. Every exported function calls this function.
pub(crate) fn call(name: &'static CStr, body: impl FnOnce() -> Result<(), Error>) -> u32 {
    let planned = fault::planned(name);
    let result = match planned.error {
        Some(error) => error.0,
        None => body().map_or_else(|error| error.0, |()| 0),
    };
    if planned.hold {
        fault::hold(name);
    }
    result
}

/// An argument through which a call returns a value.
///
/// The exported functions are `unsafe`: their callers guarantee that such a pointer is null or
/// valid for writes.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T: Copy> Out<T> {
    /// Writes the value. Fails with `INVALID_VALUE` if the pointer is null.
    pub(crate) fn put(self, value: T) -> Result<(), Error> {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        self.offer(value);
        Ok(())
    }

    /// Writes the value if the pointer is not null.
    pub(crate) fn offer(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: the pointer is not null, so it is valid for writes (see the type).
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Returns the value that the caller has stored there, for arguments that a call reads and
    /// writes.
    pub(crate) fn value(self) -> Result<T, Error> {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: the pointer is not null, so it is valid (see the type), and callers initialise
        // what is read.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Returns the same pointer with another type, for the `void*` of an attribute query.
    pub(crate) fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// Returns the pointer to the element `index` of an array.
    pub(crate) fn at(self, index: usize) -> Out<T> {
        Out(self.0.wrapping_add(index))
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl Out<u8> {
    /// Writes a C string into `capacity` bytes, truncated if necessary.
    pub(crate) fn put_text(self, text: &str, capacity: usize) -> Result<(), Error> {
        if self.0.is_null() || capacity == 0 {
            return Err(Error::INVALID_VALUE);
        }
        let length = text.len().min(capacity - 1);
        for (index, byte) in text.bytes().take(length).enumerate() {
            self.at(index).offer(byte);
        }
        self.at(length).put(0)
    }
}

/// An argument that points to a struct or an array that the call reads. It is null or valid, as for
/// [`Out`].
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T: Copy> In<T> {
    pub(crate) fn get(self) -> Result<T, Error> {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: the pointer is not null, so it is valid for reads (see the type).
        Ok(unsafe { self.0.read_unaligned() })
    }

    pub(crate) fn at(self, index: usize) -> In<T> {
        In(self.0.wrapping_add(index))
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl In<c_char> {
    pub(crate) fn text(self) -> Result<String, Error> {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: the pointer is not null, so it is to a C string (see the type).
        Ok(unsafe { CStr::from_ptr(self.0) }
            .to_string_lossy()
            .into_owned())
    }
}

/// One exported function, for `cuGetProcAddress` and for checking the names in a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) address: *const c_void,
}

thread_local! {
    /// The number of this thread, or 0 before its first use.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// Returns a number that only the calling thread has.
pub(crate) fn thread_number() -> u64 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    THREAD.with(|number| {
        if number.get() == 0 {
            number.set(u64::from(NEXT.fetch_add(1, Ordering::Relaxed)));
        }
        number.get()
    })
}

/// Defines exported functions: `name, other_name fn(argument: type, …) { body }`.
macro_rules! api {
    ($($($name:ident),+ fn $arguments:tt $body:block)*) => {
        $($($crate::dispatch::export!($name, $arguments, $body);)+)*

        /// The functions that this table exports.
        pub(crate) const ENTRIES: &[$crate::dispatch::Entry] = &[$($(
            $crate::dispatch::Entry { name: stringify!($name), address: $name as *const std::ffi::c_void },
        )+)*];
    };
}
pub(crate) use api;

/// Defines one exported function of an [`api!`] table.
macro_rules! export {
    ($name:ident, ($($argument:ident: $type:ty),* $(,)?), $body:block) => {
        #[expect(unsafe_code, reason = "a symbol of libcuda")]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> u32 {
            const NAME: &std::ffi::CStr =
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => unreachable!(),
                };
            $crate::dispatch::call(NAME, || $body)
        }
    };
}
pub(crate) use export;
