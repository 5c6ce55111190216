//! What a harness hands in and gets back.
//!
//! Types with `repr(C)` pass between copies of this crate in one process, which may be of different
//! versions: their fields stay as they are. What is added comes last and is read only where `size`
//! says that it is there.
#![expect(
    unsafe_code,
    reason = "tables point at names and slots, and are shared between threads"
)]

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Where the real function behind a wrapper is kept: one for each row of a table.
#[repr(transparent)]
#[derive(Debug)]
pub struct Slot(AtomicPtr<()>);

impl Slot {
    /// A slot of a function that nobody has looked up.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The real function, never null: one relaxed load.
    ///
    /// Only for the slot's own wrapper. It is handed out after the slot was filled, and a thread that
    /// runs it without having synchronised with that moment waits until it sees what was filled in.
    #[must_use]
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

    /// What it holds; null before the function was looked up.
    #[cfg(lookups)]
    pub(crate) fn get(&self) -> *const () {
        self.0.load(Ordering::Relaxed)
    }

    /// Has the slot hold `target`, which forwards to `real` or is `real`, unless it holds something
    /// that does not: whether it holds `target` now.
    #[cfg(lookups)]
    pub(crate) fn fill(&self, target: *const (), real: *const ()) -> bool {
        let mut before = self.get();
        while before.is_null() || before == real {
            let put = self.0.compare_exchange(
                before.cast_mut(),
                target.cast_mut(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            match put {
                Ok(_) => return true,
                Err(now) => before = now,
            }
        }
        before == target
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self::new()
    }
}

/// One row of a table: a function whose look-ups are answered by a wrapper.
#[repr(C)]
#[derive(Debug)]
pub struct WatchedFunction {
    pub(crate) name: *const c_char,
    pub(crate) wrapper: *const (),
    pub(crate) slot: *const Slot,
}

// SAFETY: the pointers are made of references to what is static and shared, and of a function.
unsafe impl Sync for WatchedFunction {}

impl WatchedFunction {
    /// The function exported as `name`. `wrapper` has its signature and calls what `slot` holds.
    #[must_use]
    pub const fn new(name: &'static CStr, wrapper: *const (), slot: &'static Slot) -> Self {
        Self {
            name: name.as_ptr(),
            wrapper,
            slot,
        }
    }

    /// A function that is known and has no wrapper: its look-ups are reported to
    /// [`OnLookup`] and answered with the real function, whatever variants of it have wrappers.
    #[must_use]
    pub const fn known(name: &'static CStr) -> Self {
        Self {
            name: name.as_ptr(),
            wrapper: ptr::null(),
            slot: ptr::null(),
        }
    }

    #[cfg(lookups)]
    pub(crate) fn slot(&self) -> Option<&'static Slot> {
        // SAFETY: null, or made of a static reference.
        unsafe { self.slot.as_ref() }
    }
}

/// Is called with a name and its real function before a wrapper is handed out.
///
/// It may be called before `main`, in constructors, inside of `dlopen`, and on any thread. It must not
/// panic, wait for another thread, or look up by `dlsym` what a table has. It may register tables: they
/// answer the same look-up.
pub type OnLookup = unsafe extern "C" fn(name: *const c_char, real: *const c_void);

/// A table of functions, and who is called when one of them is looked up.
#[repr(C)]
#[derive(Debug)]
pub struct Registration {
    pub(crate) size: usize,
    pub(crate) functions: *const WatchedFunction,
    pub(crate) count: usize,
    pub(crate) on_lookup: Option<OnLookup>,
    pub(crate) trampolines: *const Trampolines,
}

// SAFETY: the pointers are made of references to what is static and shared.
unsafe impl Sync for Registration {}

impl Registration {
    /// The rows may stand in any order; each name only once.
    #[must_use]
    pub const fn new(functions: &'static [WatchedFunction], on_lookup: Option<OnLookup>) -> Self {
        Self {
            size: size_of::<Self>(),
            functions: functions.as_ptr(),
            count: functions.len(),
            on_lookup,
            trampolines: ptr::null(),
        }
    }

    /// The same of a library that defines the functions themselves, by
    /// [`trampolines!`](crate::trampolines).
    #[must_use]
    pub const fn with_trampolines(mut self, trampolines: &'static Trampolines) -> Self {
        self.trampolines = trampolines;
        self
    }
}

/// A function of the driver that a preloaded library defines: it jumps to `target`.
#[repr(C)]
#[derive(Debug)]
pub struct Trampoline {
    pub(crate) target: AtomicPtr<()>,
    pub(crate) name: *const c_char,
    pub(crate) library: *const c_char,
}

// SAFETY: the pointers are made of references to what is static and never written.
unsafe impl Sync for Trampoline {}

/// The trampolines of one library.
#[repr(C)]
#[derive(Debug)]
pub struct Trampolines {
    pub(crate) entries: *const *const Trampoline,
    pub(crate) count: usize,
    /// Looks a name up behind the library that has the trampolines; what comes first is ignored.
    pub(crate) next: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void,
    /// The target of a trampoline that has to find its function first.
    pub(crate) unresolved: *const (),
}

// SAFETY: the pointers are made of references to what is static and shared, and of functions.
unsafe impl Sync for Trampolines {}

/// What of a process's look-ups is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All: the first `dlsym` of the process is ours, or that of another copy of this crate, which
    /// answers for this one too.
    EveryLookup,
    /// The first `dlsym` is the C library's: the harness is in a library that was loaded late, or
    /// the linker does not show the program's definition. Heard is what [`bindings_past_us`] has
    /// rebound.
    ///
    /// [`bindings_past_us`]: crate::bindings_past_us
    ReboundOnly,
    /// None: not built in, or the process is served by a copy of this crate that does not know this sort
    /// of table.
    Nothing,
}

/// Bindings of loaded libraries to `dlsym` or to functions of a table that led past us.
#[derive(Clone, Debug, Default)]
pub struct BindingsPastUs {
    /// To be given to [`bindings_past_us`](crate::bindings_past_us) as `since`, for what is found later.
    pub now: usize,
    /// What was found since, and all that could not be rebound.
    pub found: Vec<BindingPastUs>,
}

/// A binding past us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingPastUs {
    /// The file that was loaded; empty for the program itself.
    pub library: String,
    /// The function.
    pub symbol: String,
    /// Whether it leads to us from now on.
    pub rebound: bool,
}

/// Calls of a function that no wrapper stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnheardCalls {
    /// As it was looked up.
    pub name: String,
    /// Since the process began.
    pub calls: u64,
}
