//! Defines driver functions as symbols, for a preloaded library.
//!
//! For everything that is linked to the driver, the preloaded library's definitions come before the
//! driver's, no matter when the driver is loaded. Each definition jumps through its own entry. At
//! first, the entry points to code that finds the function. Afterwards, it points to the wrapper
//! or, while no table has the function, to the function itself.
//!
//! If there is no driver, there is no function either. The caller then gets an error, such as the
//! error code of CUDA's stub library, and `dlsym` does not return the symbol.
#![expect(unsafe_code, reason = "defines functions whose signatures are unknown")]

use std::arch::{asm, naked_asm};
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::objects::{object_of, own_object, while_open_at};
use super::{next, process};
use crate::interface::{Trampoline, Trampolines};
use crate::loader::while_open;

/// Defines the named functions of a library and collects them for
/// [`Registration::with_trampolines`](crate::Registration::with_trampolines). Use this only in a
/// preloaded library. Anywhere else, it would make the program appear to have a driver.
///
/// ```no_run
/// gpu_leak_interpose::trampolines!(static DRIVER of c"libcuda.so.1": cuInit cuMemAlloc_v2);
/// static SHIM: gpu_leak_interpose::Registration =
///     gpu_leak_interpose::Registration::new(&[], None).with_trampolines(&DRIVER);
/// ```
#[macro_export]
macro_rules! trampolines {
    ($visibility:vis static $all:ident of $library:literal: $($name:ident)*) => {
        $visibility static $all: $crate::Trampolines = {
            $(#[allow(non_snake_case, reason = "the module has the name of the function")]
            mod $name {
                pub(super) static ENTRY: $crate::Trampoline = $crate::Trampoline::new(
                    ::core::concat!(::core::stringify!($name), "\0"),
                    $library,
                );

                #[unsafe(export_name = ::core::stringify!($name))]
                #[unsafe(naked)]
                unsafe extern "C" fn trampoline() {
                    #[cfg(target_arch = "x86_64")]
                    ::core::arch::naked_asm!(
                        "endbr64; lea r11, [rip + {}]; jmp qword ptr [r11]", sym ENTRY,
                    );
                    #[cfg(target_arch = "aarch64")]
                    ::core::arch::naked_asm!(
                        "hint #34; adrp x16, {entry}; add x16, x16, :lo12:{entry}",
                        "ldr x17, [x16]; br x17", entry = sym ENTRY,
                    );
                }
            })*
            $crate::Trampolines::new(&[$(&$name::ENTRY),*])
        };
    };
}

impl Trampoline {
    /// Creates a trampoline. `name` must end with a zero byte.
    #[doc(hidden)]
    pub const fn new(name: &'static str, library: &'static CStr) -> Self {
        Self {
            target: AtomicPtr::new((unresolved as *const ()).cast_mut()),
            name: name.as_ptr().cast(),
            library: library.as_ptr(),
        }
    }
}

impl Trampolines {
    #[doc(hidden)]
    pub const fn new(entries: &'static [&'static Trampoline]) -> Self {
        Self {
            entries: entries.as_ptr().cast(),
            count: entries.len(),
            next: behind_us,
            unresolved: unresolved as *const (),
        }
    }
}

/// Looks up a name after the library that contains this code.
unsafe extern "C" fn behind_us(_: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the caller passes a C string. The empty instruction keeps the compiler from ending
    // this function with a jump to `dlsym`. After such a jump, `dlsym` would return to the caller,
    // and `RTLD_NEXT` would begin after the caller's library.
    unsafe {
        let found = next::dlsym()(libc::RTLD_NEXT, name);
        asm!("");
        found
    }
}

/// The target of a trampoline that has not been called yet. This code finds the function and jumps
/// to it, with all arguments unchanged.
#[unsafe(naked)]
unsafe extern "C" fn unresolved() {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        ".cfi_startproc; push rbp; mov rbp, rsp; .cfi_def_cfa rbp, 16; .cfi_offset rbp, -16",
        "push rdi; push rsi; push rdx; push rcx; push r8; push r9; push rax; sub rsp, 136",
        "movups [rsp], xmm0; movups [rsp + 16], xmm1; movups [rsp + 32], xmm2",
        "movups [rsp + 48], xmm3; movups [rsp + 64], xmm4; movups [rsp + 80], xmm5",
        "movups [rsp + 96], xmm6; movups [rsp + 112], xmm7",
        "mov rdi, r11; mov rsi, [rbp + 8]; call {resolve}; mov r11, rax",
        "movups xmm0, [rsp]; movups xmm1, [rsp + 16]; movups xmm2, [rsp + 32]",
        "movups xmm3, [rsp + 48]; movups xmm4, [rsp + 64]; movups xmm5, [rsp + 80]",
        "movups xmm6, [rsp + 96]; movups xmm7, [rsp + 112]; add rsp, 136",
        "pop rax; pop r9; pop r8; pop rcx; pop rdx; pop rsi; pop rdi; pop rbp",
        ".cfi_def_cfa rsp, 8; jmp r11; .cfi_endproc",
        resolve = sym resolve,
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        ".cfi_startproc; stp x29, x30, [sp, #-224]!; mov x29, sp; .cfi_def_cfa x29, 224",
        ".cfi_offset x29, -224; .cfi_offset x30, -216; str x8, [sp, #80]",
        "stp x0, x1, [sp, #16]; stp x2, x3, [sp, #32]; stp x4, x5, [sp, #48]; stp x6, x7, [sp, #64]",
        "stp q0, q1, [sp, #96]; stp q2, q3, [sp, #128]; stp q4, q5, [sp, #160]; stp q6, q7, [sp, #192]",
        "mov x0, x16; mov x1, x30; bl {resolve}; mov x16, x0; ldr x8, [sp, #80]",
        "ldp x0, x1, [sp, #16]; ldp x2, x3, [sp, #32]; ldp x4, x5, [sp, #48]; ldp x6, x7, [sp, #64]",
        "ldp q0, q1, [sp, #96]; ldp q2, q3, [sp, #128]; ldp q4, q5, [sp, #160]; ldp q6, q7, [sp, #192]",
        "ldp x29, x30, [sp], #224; .cfi_def_cfa sp, 0; br x16; .cfi_endproc",
        resolve = sym resolve,
    );
}

/// Finds the function for a trampoline that was called with the return address `caller`. The
/// trampoline jumps to it from now on, unless the function belongs to the caller.
extern "C" fn resolve(entry: &'static Trampoline, caller: *const c_void) -> *const () {
    // SAFETY: the names in a trampoline are C strings.
    let (name, library) = unsafe { (CStr::from_ptr(entry.name), CStr::from_ptr(entry.library)) };
    let is_found = |found: &*mut c_void| !found.is_null();
    // SAFETY: the handle belongs to a loaded object.
    let look_up = |handle| Some(unsafe { next::dlsym()(handle, entry.name) }).filter(is_found);
    // SAFETY: the name is a C string, and `behind_us` ignores its first parameter.
    let real = Some(unsafe { behind_us(ptr::null_mut(), entry.name) }).filter(is_found);
    // The library is used only if it is loaded, and it stays loaded, because the caller is linked
    // to it.
    let Some(real) = real.or_else(|| while_open(library, look_up)?) else {
        // A library that loads the driver lazily may itself define the function. If the library is
        // not in the global scope, its own call reaches the trampoline.
        let own = while_open_at(caller, look_up).flatten();
        let own = own.filter(|own| object_of(*own) != Some(own_object()));
        return own.map_or(absent(name.to_bytes()), |own| own.cast_const().cast());
    };
    let before = entry.target.load(Acquire);
    // SAFETY: `real` is the driver's function with this name. The same name is the fallback, so the
    // signatures agree.
    let target = unsafe { process::wrapper_by_address(name, real.cast_const().cast(), Some(name)) };
    // If a table with a wrapper has been registered in the meantime, the target is not stored.
    let _ = entry
        .target
        .compare_exchange(before, target.cast_mut(), AcqRel, Relaxed);
    target
}

/// Returns a function that tells its caller that there is no driver.
fn absent(name: &[u8]) -> *const () {
    extern "C" fn returns<const RESULT: isize>() -> isize {
        RESULT
    }
    match (name.starts_with(b"vk"), name.ends_with(b"ProcAddr")) {
        // `CUDA_ERROR_STUB_LIBRARY`
        (false, _) => returns::<34> as *const (),
        // A null pointer to a function.
        (true, true) => returns::<0> as *const (),
        // `VK_ERROR_INITIALIZATION_FAILED`
        (true, false) => returns::<-3> as *const (),
    }
}
