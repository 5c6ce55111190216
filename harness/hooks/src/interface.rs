//! The pointer through which all versions of this crate in a program find the harness.
//!
//! A program can contain several versions, each with its own statics, and the harness knows only
//! one of them. So the pointer to the harness's functions has a symbol that all versions define and
//! the linker merges. The type of its target, [`Hooks`], is the same in all versions and never
//! changes. If it ever has to, the new type gets another symbol, and a harness installs both.
//!
//! A program is compiled by one compiler, so primitives, plain pointers and types of `core` are the
//! same in all versions. Types of this crate are passed only by reference, and have the same layout
//! in all versions.

#![expect(
    unsafe_code,
    reason = "calls functions that another version of this crate installed as a pointer"
)]

use core::sync::atomic::{Ordering, fence};

use crate::Hooks;

/// Makes reports call `hooks` from now on, no matter through which version of this crate they come.
/// Only the last installation takes effect.
pub fn install(hooks: &'static Hooks) {
    shared().store(core::ptr::from_ref(hooks).cast_mut(), Ordering::Release);
}

/// Returns the harness of this process, which may belong to any version.
#[inline]
pub(crate) fn harness() -> Option<&'static Hooks> {
    let hooks = shared().load(Ordering::Relaxed);
    if hooks.is_null() {
        return None;
    }
    // The hooks were written before they were installed.
    fence(Ordering::Acquire);
    // SAFETY: only `install` of some version stores here, and it stores a static with the layout
    // that `Hooks` has in all versions.
    Some(unsafe { &*hooks })
}

/// A pointer with a common symbol, which every version defines and the linker merges into one.
#[cfg(all(target_os = "linux", not(miri)))]
mod symbol {
    use core::sync::atomic::AtomicPtr;

    use super::Hooks;

    core::arch::global_asm!(
        ".comm gpu_leak_hooks_interface_1,{size},{size}",
        size = const size_of::<*const ()>()
    );

    #[expect(
        improper_ctypes,
        reason = "both sides are Rust code from the same compiler; no other language is involved"
    )]
    unsafe extern "C" {
        #[link_name = "gpu_leak_hooks_interface_1"]
        static INTERFACE: AtomicPtr<Hooks>;
    }

    /// Shows `cargo gpu-leak test --every-test` that a program contains allocators that report
    /// their blocks.
    #[used]
    // SAFETY: the section only holds data, and this has the format of a note.
    #[unsafe(link_section = ".note.gpu-leak-hooks")]
    static NOTE: crate::Note = crate::Note::new();

    #[inline]
    pub(super) fn shared() -> &'static AtomicPtr<Hooks> {
        // SAFETY: it has the size and alignment of a pointer, is zero at first, and is used with
        // this type by all versions.
        unsafe { &INTERFACE }
    }
}

/// A pointer for this version only. Reports through other versions are not received.
#[cfg(not(all(target_os = "linux", not(miri))))]
mod symbol {
    use core::sync::atomic::AtomicPtr;

    use super::Hooks;

    pub(super) fn shared() -> &'static AtomicPtr<Hooks> {
        static INTERFACE: AtomicPtr<Hooks> = AtomicPtr::new(core::ptr::null_mut());
        &INTERFACE
    }
}

use self::symbol::shared;
