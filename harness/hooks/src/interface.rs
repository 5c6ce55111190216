//! The pointer through which all versions of this crate in a program find the harness.
//!
//! A program can contain several versions, each with its own statics, and the harness knows only
//! one of them. So the pointer to the harness's functions is a symbol that all versions define and
//! that the linker merges into one. It points to [`Hooks`], a type that is the same in all versions
//! and never changes. If a different type is ever needed, it gets a symbol of its own, and a
//! harness installs both.
//!
//! One compiler compiles the whole program, so primitives, plain pointers and types of `core` are
//! the same in all versions. Types of this crate are passed only by reference, and have the same
//! layout in all versions.

#![expect(
    unsafe_code,
    reason = "calls functions through a pointer that another version of this crate installed"
)]

use core::sync::atomic::{Ordering, fence};

use crate::Hooks;

/// Installs `hooks`, which are called from now on through every version of this crate. Only the
/// last installation takes effect.
pub fn install(hooks: &'static Hooks) {
    shared().store(core::ptr::from_ref(hooks).cast_mut(), Ordering::Release);
}

/// Returns the harness of this process, which any version of this crate may have installed.
#[inline]
pub(crate) fn harness() -> Option<&'static Hooks> {
    let hooks = shared().load(Ordering::Relaxed);
    if hooks.is_null() {
        return None;
    }
    // With this fence, the contents of the hooks are also visible: they were written before the
    // pointer was stored.
    fence(Ordering::Acquire);
    // SAFETY: the pointer is stored only by `install` of some version, and it points to a static
    // with the layout that `Hooks` has in all versions.
    Some(unsafe { &*hooks })
}

/// A pointer whose symbol is defined by every version and merged into one by the linker.
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

    /// Tells `cargo gpu-leak test --every-test` that a program contains allocators that report
    /// their blocks.
    #[used]
    // SAFETY: the section only holds data, and the static has the format of an ELF note.
    #[unsafe(link_section = ".note.gpu-leak-hooks")]
    static NOTE: crate::Note = crate::Note::new();

    /// This is never inlined into another crate, because a Rust library of type `dylib` that
    /// contains this crate exports its functions, but not the symbol.
    #[inline(never)]
    pub(super) fn shared() -> &'static AtomicPtr<Hooks> {
        // SAFETY: the static has the size and alignment of a pointer, is initially zero, and is
        // used with this type by all versions.
        unsafe { &INTERFACE }
    }
}

/// A pointer for this version only. The harness does not receive reports that come through other
/// versions.
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
