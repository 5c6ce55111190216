//! The types of the data exchanged with a harness.
//!
//! Types with `repr(C)` are passed between copies of this crate in one process. The copies may have
//! different versions, so existing fields of these types never change. New fields are added at the
//! end, and are read only if `size` shows that they exist.
#![expect(unsafe_code, reason = "shares tables of raw pointers between threads")]

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::{mem, ptr};

/// Holds the real function behind a wrapper. Each row of a table has its own slot.
#[repr(transparent)]
#[derive(Debug)]
pub struct Slot(pub(crate) AtomicPtr<()>);

impl Slot {
    /// Creates an empty slot.
    pub const fn empty() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Returns the real function, which is never null, with one relaxed load.
    ///
    /// Only the slot's own wrapper may call this. The wrapper is handed out only after the slot has
    /// been filled. A thread that does not see the stored function yet spins until it does.
    #[inline]
    pub fn real(&self) -> *const () {
        loop {
            let real = self.0.load(Ordering::Relaxed);
            if !real.is_null() {
                return real;
            }
            std::hint::spin_loop();
        }
    }

    /// Returns the value of the slot, which is null before the function is looked up.
    pub(crate) fn get(&self) -> *const () {
        self.0.load(Ordering::Relaxed)
    }
}

/// One row of a table: a function whose look-ups return a wrapper.
#[repr(C)]
#[derive(Debug)]
pub struct WatchedFunction {
    pub(crate) name: *const c_char,
    pub(crate) wrapper: *const (),
    pub(crate) slot: *const Slot,
}

// SAFETY: the pointers come from references to shared statics and from a function.
unsafe impl Sync for WatchedFunction {}

impl WatchedFunction {
    /// Creates a row for the function exported as `name`. `wrapper` must have the function's
    /// signature and call the function in `slot`.
    pub const fn new(name: &'static CStr, wrapper: *const (), slot: &'static Slot) -> Self {
        Self {
            name: name.as_ptr(),
            wrapper,
            slot,
        }
    }

    /// Creates a row for a known function without a wrapper. Its look-ups are reported to
    /// [`OnLookup`] and return the real function, even if other variants of the name have wrappers.
    pub const fn known(name: &'static CStr) -> Self {
        Self {
            name: name.as_ptr(),
            wrapper: ptr::null(),
            slot: ptr::null(),
        }
    }

    /// Whether the process has looked up the function, other than by
    /// [`real_symbol`](crate::real_symbol), or was bound to it.
    pub fn is_looked_up(&self) -> bool {
        self.slot().is_some_and(|slot| !slot.get().is_null())
    }

    pub(crate) fn slot(&self) -> Option<&'static Slot> {
        // SAFETY: the pointer is null or comes from a static reference.
        unsafe { self.slot.as_ref() }
    }
}

/// A callback that gets a name and its real function before a wrapper is handed out.
///
/// It may be called before `main`, in constructors, inside `dlopen`, and on any thread. It must not
/// panic, wait for another thread, or look up a name of a table with `dlsym`. It may register
/// tables, which then answer the same look-up.
pub type OnLookup = unsafe extern "C" fn(name: *const c_char, real: *const c_void);

/// A callback that is called with `false` before `dlclose`, and with `true` after it if a library
/// was unloaded. It must not panic or wait for another thread.
pub type OnClose = extern "C" fn(has_unloaded: bool);

/// A table of functions, and the callback for their look-ups.
#[repr(C)]
#[derive(Debug)]
pub struct Registration {
    pub(crate) size: usize,
    pub(crate) functions: *const WatchedFunction,
    pub(crate) count: usize,
    pub(crate) on_lookup: Option<OnLookup>,
    pub(crate) trampolines: *const Trampolines,
    /// Not 0 if the libraries that provide the functions must get them unchanged.
    pub(crate) only_for_others: u32,
    on_close: Option<OnClose>,
}

// SAFETY: the pointers come from references to shared statics.
unsafe impl Sync for Registration {}

impl Registration {
    /// Creates a registration. The rows can be in any order.
    pub const fn new(functions: &'static [WatchedFunction], on_lookup: Option<OnLookup>) -> Self {
        Self {
            size: size_of::<Self>(),
            functions: functions.as_ptr(),
            count: functions.len(),
            on_lookup,
            trampolines: ptr::null(),
            only_for_others: 0,
            on_close: None,
        }
    }

    /// The size in the first release.
    pub(crate) const FIRST_SIZE: usize = std::mem::offset_of!(Self, on_close);

    /// Adds a callback for each `dlclose` of the process.
    pub const fn with_on_close(mut self, on_close: OnClose) -> Self {
        self.on_close = Some(on_close);
        self
    }

    pub(crate) fn on_close(&self) -> Option<OnClose> {
        (self.size >= size_of::<Self>()).then_some(self.on_close)?
    }

    /// Excludes the libraries whose functions were handed out: their own look-ups return the real
    /// functions. The loader of an API needs this, because it looks up the same names in layers and
    /// drivers and passes each call on to them.
    pub const fn only_for_others(mut self) -> Self {
        self.only_for_others = 1;
        self
    }

    /// Adds the trampolines of a library that itself defines the functions with
    /// [`trampolines!`](crate::trampolines).
    pub const fn with_trampolines(mut self, trampolines: &'static Trampolines) -> Self {
        self.trampolines = trampolines;
        self
    }
}

/// A driver function that a preloaded library defines. It jumps to `target`.
#[repr(C)]
#[derive(Debug)]
pub struct Trampoline {
    pub(crate) target: AtomicPtr<()>,
    pub(crate) name: *const c_char,
    pub(crate) library: *const c_char,
}

// SAFETY: the pointers come from references to statics that are never written.
unsafe impl Sync for Trampoline {}

/// The trampolines of one library.
#[repr(C)]
#[derive(Debug)]
pub struct Trampolines {
    pub(crate) entries: *const *const Trampoline,
    pub(crate) count: usize,
    /// Looks up a name after the library that contains the trampolines. The first parameter is
    /// ignored.
    pub(crate) next: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void,
    /// The target of a trampoline that has not found its function yet.
    pub(crate) unresolved: *const (),
}

// SAFETY: the pointers come from references to shared statics and from functions.
unsafe impl Sync for Trampolines {}

impl Trampolines {
    /// Makes each trampoline find its function again.
    #[cfg(interpose)]
    pub(crate) fn reset(&self) {
        // SAFETY: the pointer and the count come from such a slice in `Trampolines::new`.
        let entries: &[&Trampoline] =
            unsafe { std::slice::from_raw_parts(self.entries.cast(), self.count) };
        for Trampoline { target, .. } in entries {
            target.store(self.unresolved.cast_mut(), Ordering::Release);
        }
    }
}

/// A watcher of the program's heap blocks. Its functions are called on the thread that allocates or
/// frees a block.
///
/// They must not panic. Their own allocations and frees are also reported.
#[derive(Clone, Copy, Debug)]
pub struct HeapWatch {
    /// Gets the address and the size of a block that was allocated. Returns whether the watcher is
    /// interested in the block. If so, data that earlier owners left in the first [`CLEARED`] bytes
    /// of the block is overwritten with zeros.
    pub allocated: fn(usize, usize) -> bool,
    /// Gets a block that is about to be freed, and whether its contents are being moved to
    /// another block. Returns whether the watcher was interested in the block.
    pub freed: fn(&FreedBlock, bool) -> bool,
}

/// The largest number of bytes of a block that are overwritten with zeros. The rest of a larger
/// block is left alone, because the program may never use it.
pub const CLEARED: usize = 1 << 20;

/// A heap block that is about to be freed.
#[derive(Debug)]
pub struct FreedBlock {
    /// The words of the block that can be read.
    pub(crate) words: *const [u64],
}

impl FreedBlock {
    /// Returns the block's address.
    pub fn address(&self) -> usize {
        self.words.addr()
    }

    /// Returns the words in its first `bytes` bytes.
    pub fn words(&self, bytes: usize) -> impl Iterator<Item = u64> {
        let words = self.words.cast::<u64>();
        let count = self.words.len().min(bytes / size_of::<u64>());
        // SAFETY: the word is inside the block, which is not freed before the watcher returns. The
        // read is volatile, because the word may not have been written to.
        (0..count).map(move |at| unsafe { words.add(at).read_volatile() })
    }
}

/// A live thread that inherited a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkedThread {
    /// The thread's ID in the Linux kernel (`gettid`).
    pub id: i32,
    /// The token that the thread inherited; `u64::MAX` if a driver started the thread for itself.
    pub token: u64,
    /// The mark that was made when the thread was started; 0 if there is none.
    pub started: u64,
    /// The mark that was made when the thread was detached, after which nobody can join it; 0 if it
    /// was not detached.
    pub detached: u64,
}

impl MarkedThread {
    /// The token of threads that drivers started for themselves. No thread inherits it.
    pub(crate) const OF_A_DRIVER: u64 = u64::MAX;

    /// Whether a driver started the thread for itself.
    pub fn is_drivers(&self) -> bool {
        self.token == Self::OF_A_DRIVER
    }
}

/// Returns an address as the function pointer `F`; `None` if it is null.
///
/// # Safety
///
/// `F` is a function pointer type with the signature of the function at this address.
pub unsafe fn function<F: Copy>(address: *mut c_void) -> Option<F> {
    const {
        assert!(size_of::<F>() == size_of::<*mut c_void>());
    }
    // SAFETY: the sizes are equal, and the caller vouches for the signature.
    (!address.is_null()).then(|| unsafe { mem::transmute_copy::<*mut c_void, F>(&address) })
}

/// Which look-ups of a process are intercepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All look-ups. The first `dlsym` in the process's lookup order is ours, or belongs to another
    /// copy of this crate that also serves this copy.
    EveryLookup,
    /// Only look-ups through bindings that [`bindings_past_us`] has rebound. The first `dlsym` is
    /// the C library's, because the harness is in a library that was loaded late, or the linker
    /// does not export the program's definition.
    ///
    /// [`bindings_past_us`]: crate::bindings_past_us
    ReboundOnly,
    /// No look-ups. This crate defines no symbols in this build, or the process is served by a copy
    /// of it that does not know this kind of table.
    Nothing,
}

/// Bindings of loaded libraries that bypassed us: bindings to `dlsym` or to functions of a table.
#[derive(Clone, Debug, Default)]
pub struct BindingsPastUs {
    /// The value to pass as `since` in the next call to
    /// [`bindings_past_us`](crate::bindings_past_us).
    pub now: usize,
    /// The bindings found after `since`, and all bindings that could not be rebound.
    pub found: Vec<BindingPastUs>,
}

/// A binding that bypassed us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingPastUs {
    /// The file that contains the binding; empty for the program itself.
    pub library: String,
    /// The bound function.
    pub symbol: String,
    /// Whether the binding was changed, so that calls reach us from now on.
    pub rebound: bool,
}

/// Calls to a function that has no wrapper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedCalls {
    /// The name that was looked up.
    pub name: String,
    /// The number of calls since the process began.
    pub calls: u64,
}
