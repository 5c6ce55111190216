//! Where every version of this crate in a program finds the harness.
//!
//! A program can have several versions, each with statics of its own, and the harness knows one of
//! them. So the pointer to what it does with reports lies under a symbol that all versions define
//! and the linker makes one of, and what it points to is the same in all of them: [`Interface`]
//! never changes. Should it have to, it gets another symbol, and a harness installs both.
//!
//! All of a program is compiled by one compiler, so types of `core` and of nobody else, primitives
//! and plain pointers mean the same in all versions. No type of this crate passes by value.

#![expect(
    unsafe_code,
    reason = "what another version of this crate reports comes as a pointer"
)]

use core::fmt;
use core::sync::atomic::{AtomicPtr, Ordering, fence};

use crate::{Hooks, Place, Source};

/// What the harness does with reports, for callers of any version.
#[repr(C)]
pub(crate) struct Interface {
    pub(crate) begin_allow: fn(&'static str) -> u64,
    pub(crate) end_allow: fn(u64),
    pub(crate) hand_over: fn(u64),
    /// The source, the [place](AnyPlace) in its three parts, the address and the bytes.
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
        let AnyPlace { sort, number, name } = AnyPlace::of(place);
        // SAFETY: a source, which outlives the call.
        unsafe { (self.allocated)(source, sort, number, name, address, bytes) }
    }

    #[inline]
    pub(crate) fn freed(&self, source: &Source, place: AnyPlace, address: u64) {
        let AnyPlace { sort, number, name } = place;
        // SAFETY: a source, which outlives the call.
        unsafe { (self.freed)(source, sort, number, name, address) }
    }
}

/// A place as all versions write it. A later one may have sorts that this one does not know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnyPlace {
    sort: u32,
    number: u32,
    name: &'static str,
}

impl AnyPlace {
    /// No place was named.
    pub(crate) const NONE: Self = Self::new(0, 0, "");

    const fn new(sort: u32, number: u32, name: &'static str) -> Self {
        Self { sort, number, name }
    }

    pub(crate) fn of(place: Place) -> Self {
        match place {
            Place::Cuda(ordinal) => Self::new(1, ordinal, ""),
            Place::Host => Self::new(2, 0, ""),
            Place::Named(name) => Self::new(3, 0, name),
        }
    }

    fn known(self) -> Option<Place> {
        match self.sort {
            1 => Some(Place::Cuda(self.number)),
            2 => Some(Place::Host),
            3 => Some(Place::Named(self.name)),
            _ => None,
        }
    }
}

/// What the harness of this version does. Null: it is of another version, or there is none.
static HOOKS: AtomicPtr<Hooks> = AtomicPtr::new(core::ptr::null_mut());

/// Tells `hooks` from now on, whatever version of this crate a report comes by. The last call
/// counts.
pub fn install(hooks: &'static Hooks) {
    /// Only found where a harness of this version was the last to install itself.
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
    // SAFETY: the caller's promise; it is shared, for its number is atomic.
    let source = unsafe { &*source };
    // An allocation is somewhere: what this version has no word for has the source's own.
    let place = AnyPlace::new(sort, number, name).known();
    let place = place.unwrap_or(Place::Named(source.name));
    of_this_version(|hooks| (hooks.allocated)(source, place, address, bytes));
}

/// # Safety
///
/// As for [`allocated`].
unsafe fn freed(source: *const Source, sort: u32, number: u32, name: &'static str, address: u64) {
    // SAFETY: the caller's promise, as above.
    let source = unsafe { &*source };
    let place = AnyPlace::new(sort, number, name);
    let place =
        (sort != AnyPlace::NONE.sort).then(|| place.known().unwrap_or(Place::Named(source.name)));
    of_this_version(|hooks| (hooks.freed)(source, place, address));
}

/// The harness of this process, of whatever version.
#[inline]
pub(crate) fn harness() -> Option<&'static Interface> {
    let interface = shared().load(Ordering::Relaxed);
    if interface.is_null() {
        return None;
    }
    // What it points to was written before it was installed.
    fence(Ordering::Acquire);
    // SAFETY: the `install` of some version alone stores here, and stores a static of the one form
    // that `Interface` has in all of them.
    Some(unsafe { &*interface })
}

/// A pointer under a symbol that every version defines as common, so that the linker has one of it.
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

    #[inline]
    pub(super) fn shared() -> &'static AtomicPtr<Interface> {
        // SAFETY: as large and aligned as a pointer, zero at first, and used as this type by all
        // versions.
        unsafe { &INTERFACE }
    }
}

/// One of this version's own: what is reported through others is not heard.
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
