//! The pointer through which all versions of this crate in a program find the harness.
//!
//! A program can contain several versions, each with its own statics, and the harness knows one of
//! them. So the pointer to the harness's functions is under a symbol that all versions define and
//! the linker merges. What it points to is the same for all of them: [`Interface`] never changes.
//! If it has to, it gets another symbol, and a harness installs both.
//!
//! A program is compiled by one compiler, so primitives, plain pointers and types of `core` are the
//! same in all versions. No type of this crate is passed by value.

#![expect(
    unsafe_code,
    reason = "what another version of this crate reports comes as a pointer"
)]

use core::fmt;
use core::sync::atomic::{AtomicPtr, Ordering, fence};

use crate::{Hooks, Place, Source};

/// The harness's functions, for callers of any version.
#[repr(C)]
pub(crate) struct Interface {
    pub(crate) begin_allow: fn(&'static str) -> u64,
    pub(crate) end_allow: fn(u64),
    pub(crate) hand_over: fn(u64),
    /// The source, the [`Place`] in its three parts, the address and the bytes.
    allocated: unsafe fn(*const Source, u32, u32, &'static str, u64, u64),
    /// As above, without bytes.
    freed: unsafe fn(*const Source, u32, u32, &'static str, u64),
}

impl fmt::Debug for Interface {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Interface").finish_non_exhaustive()
    }
}

impl Interface {
    #[inline]
    pub(crate) fn allocated(&self, source: &Source, place: Place, address: u64, bytes: u64) {
        let Place { sort, number, name } = place;
        // SAFETY: a reference to a source, which outlives the call.
        unsafe { (self.allocated)(source, sort, number, name, address, bytes) }
    }

    #[inline]
    pub(crate) fn freed(&self, source: &Source, place: Place, address: u64) {
        let Place { sort, number, name } = place;
        // SAFETY: a reference to a source, which outlives the call.
        unsafe { (self.freed)(source, sort, number, name, address) }
    }
}

/// The functions of a harness of this version; null if there is none, or if it has another version.
static HOOKS: AtomicPtr<Hooks> = AtomicPtr::new(core::ptr::null_mut());

/// Calls `hooks` from now on, whichever version of this crate a report comes through. Only the last
/// installation takes effect.
pub fn install(hooks: &'static Hooks) {
    /// Used only if a harness of this version was the last to be installed.
    static INTERFACE: Interface = Interface {
        begin_allow: |reason| of_this_version(|hooks| (hooks.begin_allow)(reason)),
        end_allow: |token| of_this_version(|hooks| (hooks.end_allow)(token)),
        hand_over: |address| of_this_version(|hooks| (hooks.hand_over)(address)),
        allocated,
        freed,
    };
    HOOKS.store(core::ptr::from_ref(hooks).cast_mut(), Ordering::Release);
    let interface = core::ptr::from_ref(&INTERFACE).cast_mut();
    shared().store(interface, Ordering::Release);
}

fn of_this_version<T: Default>(call: impl FnOnce(&'static Hooks) -> T) -> T {
    let hooks = HOOKS.load(Ordering::Acquire);
    // SAFETY: null, or a shared reference that `install` was given and that is never freed.
    unsafe { hooks.as_ref() }.map_or_else(T::default, call)
}

/// # Safety
///
/// `source` points to a `Source` of some version, which all have the fields of this one.
unsafe fn allocated(
    source: *const Source,
    sort: u32,
    number: u32,
    name: &'static str,
    address: u64,
    bytes: u64,
) {
    // SAFETY: the caller's promise; only its atomic number is ever modified.
    let source = unsafe { &*source };
    let place = known_place(source, Place::new(sort, number, name));
    of_this_version(|hooks| (hooks.allocated)(source, place, address, bytes));
}

/// # Safety
///
/// As for [`allocated`].
unsafe fn freed(source: *const Source, sort: u32, number: u32, name: &'static str, address: u64) {
    // SAFETY: the caller's promise, as above.
    let source = unsafe { &*source };
    let place = Place::new(sort, number, name);
    let place = (place != Place::NONE).then(|| known_place(source, place));
    of_this_version(|hooks| (hooks.freed)(source, place, address));
}

/// Returns `place`, or a place named after the source for a sort that only a later version knows: an
/// allocation must have a place.
fn known_place(source: &Source, place: Place) -> Place {
    match place.is_known() {
        true => place,
        false => Place::named(source.name),
    }
}

/// Returns the harness of this process, of whatever version.
#[inline]
pub(crate) fn harness() -> Option<&'static Interface> {
    let interface = shared().load(Ordering::Relaxed);
    if interface.is_null() {
        return None;
    }
    // The interface was written before it was installed.
    fence(Ordering::Acquire);
    // SAFETY: only `install` of some version stores here, and it stores a static with the layout
    // that `Interface` has in all versions.
    Some(unsafe { &*interface })
}

/// A pointer under a common symbol, which every version defines and the linker merges into one.
#[cfg(all(target_os = "linux", not(miri)))]
mod symbol {
    use core::sync::atomic::AtomicPtr;

    use super::Interface;

    core::arch::global_asm!(
        ".comm gpu_leak_hooks_interface_1,{size},{size}",
        size = const size_of::<*const ()>()
    );

    #[expect(
        improper_ctypes,
        reason = "only programs of one compiler share it, and nothing of another language does"
    )]
    unsafe extern "C" {
        #[link_name = "gpu_leak_hooks_interface_1"]
        static INTERFACE: AtomicPtr<Interface>;
    }

    /// Shows `cargo gpu-leak test --every-test` that a program contains allocators that report.
    #[used]
    // SAFETY: the section only holds data, and this has the format of a note.
    #[unsafe(link_section = ".note.gpu-leak-hooks")]
    static NOTE: crate::Note = crate::Note::new();

    #[inline]
    pub(super) fn shared() -> &'static AtomicPtr<Interface> {
        // SAFETY: it has the size and alignment of a pointer, is zero at first, and is used with
        // this type by all versions.
        unsafe { &INTERFACE }
    }
}

/// A pointer for this version only: reports through other versions are not received.
#[cfg(not(all(target_os = "linux", not(miri))))]
mod symbol {
    use core::sync::atomic::AtomicPtr;

    use super::Interface;

    pub(super) fn shared() -> &'static AtomicPtr<Interface> {
        static INTERFACE: AtomicPtr<Interface> = AtomicPtr::new(core::ptr::null_mut());
        &INTERFACE
    }
}

use self::symbol::shared;
