//! The interposer of this copy of the crate: its `dlsym`, and the services that it offers to other
//! copies, which find the interposer by its marker. For names that are not in tables, `dlsym` jumps
//! to the next definition.
//!
//! `dlsym` may be called before `main`, in constructors and while the loader is running. So the
//! code that decides how to resolve a name allocates nothing, takes no lock, uses no thread-local
//! and cannot panic.
#![expect(unsafe_code, reason = "replaces functions of the C library")]

use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use super::next::{self, Dlsym};
use super::objects::while_open_at;
use super::{bindings, registry, thunks};
use crate::interface::Registration;

/// Looks up a symbol, with the contract and result of
/// [`dlsym(3)`](https://man7.org/linux/man-pages/man3/dlsym.3.html).
///
/// # Safety
///
/// The conditions are those of the manual page: `handle` is a handle from `dlopen` or a special
/// handle, and `name` is a C string.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // Any library may define this symbol, but only we define the function behind it.
    #[cfg(target_arch = "x86_64")]
    naked_asm!("endbr64; jmp {}", sym interposed);
    #[cfg(target_arch = "aarch64")]
    naked_asm!("hint #34; b {}", sym interposed);
}

/// Calls `decide` with the return address as the third argument. Then either returns the answer, or
/// jumps to the next `dlsym` as if the caller had called that function.
#[unsafe(naked)]
unsafe extern "C" fn interposed(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        ".cfi_startproc; endbr64",
        "push rdi; push rsi; sub rsp, 8; .cfi_adjust_cfa_offset 24",
        "mov rdx, [rsp + 24]; call {decide}",
        "add rsp, 8; pop rsi; pop rdi; .cfi_adjust_cfa_offset -24",
        "test rdx, rdx; jnz 2f; jmp rax",
        "2: mov rax, rdx; ret; .cfi_endproc",
        decide = sym decide,
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        ".cfi_startproc; hint #34",
        "stp x29, x30, [sp, #-32]!; mov x29, sp; stp x0, x1, [sp, #16]",
        ".cfi_def_cfa_offset 32; .cfi_offset x29, -32; .cfi_offset x30, -24",
        "mov x2, x30; bl {decide}; mov x16, x0; mov x17, x1",
        "ldp x0, x1, [sp, #16]; ldp x29, x30, [sp], #32",
        ".cfi_def_cfa_offset 0; .cfi_restore x29; .cfi_restore x30",
        "cbnz x17, 2f; br x16",
        "2: mov x0, x17; ret; .cfi_endproc",
        decide = sym decide,
    );
}

/// Returned in two registers: the answer and, if that is null, the address to jump to.
#[repr(C)]
struct Decision {
    jump: Dlsym,
    answer: *const c_void,
}

extern "C" fn decide(handle: *mut c_void, name: *const c_char, caller: *const c_void) -> Decision {
    let jump = next::dlsym();
    let mut decision = Decision {
        jump,
        answer: ptr::null(),
    };
    // A library that asks for the next definition wraps the function itself, and it is the
    // library's wrapper that the program looks up.
    if handle == libc::RTLD_NEXT || name.is_null() {
        return decision;
    }
    // SAFETY: the caller of `dlsym` passes a C string.
    let name = unsafe { CStr::from_ptr(name) };
    if registry::is_wanted(name) {
        if registry::is_for_itself(name, caller) {
            return decision;
        }
        match real(jump, handle, name, caller) {
            Ok(real) => decision.answer = registry::by_name(name, real.cast()).cast(),
            Err(absent) => decision.jump = absent,
        }
    } else if name == MARKER {
        decision.answer = (&raw const OWN).cast();
    }
    decision
}

/// Returns the function that the caller would have found without us. If there is none, returns the
/// `dlsym` to jump to, which then reports the error to the caller.
fn real(
    next: Dlsym,
    handle: *mut c_void,
    name: &CStr,
    caller: *const c_void,
) -> Result<*mut c_void, Dlsym> {
    let look_up = |handle| {
        // SAFETY: the handle comes from the caller of `dlsym` or belongs to a loaded object.
        let found = unsafe { next(handle, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    };
    // The C library searches the global scope, and then the libraries loaded with the caller. If
    // its `dlsym` were called from here, it would take this code for the caller.
    let is_default = handle == libc::RTLD_DEFAULT;
    let beside_the_caller = || {
        is_default
            .then(|| while_open_at(caller, look_up))
            .flatten()?
    };
    let found = look_up(handle).or_else(beside_the_caller).ok_or(next)?;
    let Some(behind) = registry::behind_trampolines(found) else {
        return Ok(found);
    };
    // SAFETY: `behind` is a look-up function that ignores its handle, and the name is a C string.
    let found = unsafe { behind(ptr::null_mut(), name.as_ptr()) };
    (!found.is_null()).then_some(found).ok_or(behind)
}

/// Returns our `dlsym`, even if the process finds another one by that name.
pub(crate) fn ours() -> *const c_void {
    interposed as *const c_void
}

/// Makes the linker keep `dlsym`, for the same reason as `pthread_create`.
pub(crate) fn link() {
    std::hint::black_box(dlsym as Dlsym);
}

/// Passes one result to another copy. The arguments are the receiver, a library, a symbol and a
/// number.
pub(crate) type Report = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, u64);

/// The functions that a copy of this crate provides to other copies.
#[repr(C)]
pub(crate) struct Interposer {
    size: usize,
    /// Returns 0 if the table was accepted.
    pub(crate) register: unsafe extern "C" fn(*const Registration) -> u32,
    pub(crate) wrapper: unsafe extern "C" fn(*const c_char, *const (), *const c_char) -> *const (),
    pub(crate) bindings: unsafe extern "C" fn(usize, Report, *mut c_void) -> usize,
    pub(crate) missed: unsafe extern "C" fn(Report, *mut c_void),
}

/// The functions that this copy provides.
pub(crate) static OWN: Interposer = Interposer {
    size: size_of::<Interposer>(),
    register: accept,
    wrapper,
    bindings: report_bindings,
    missed: report_missed,
};

/// The name for which our `dlsym` returns this copy of the crate. No symbol has this name. A change
/// that an older copy would not understand requires a new name.
pub(crate) const MARKER: &CStr = c"gpu_leak_interpose_v1";

unsafe extern "C" fn accept(table: *const Registration) -> u32 {
    // SAFETY: only `process::register` calls this, in this or another copy of the crate, and it
    // passes a pointer to a static table.
    u32::from(!registry::register(unsafe { &*table }))
}

unsafe extern "C" fn wrapper(
    name: *const c_char,
    real: *const (),
    fallback: *const c_char,
) -> *const () {
    // SAFETY: the copy that calls this passes C strings, the second of which may be null.
    unsafe {
        let fallback = (!fallback.is_null()).then(|| CStr::from_ptr(fallback));
        registry::by_address(CStr::from_ptr(name), real, fallback)
    }
}

unsafe extern "C" fn report_bindings(since: usize, report: Report, receiver: *mut c_void) -> usize {
    bindings::past_us(ours(), since, reporter(report, receiver))
}

unsafe extern "C" fn report_missed(report: Report, receiver: *mut c_void) {
    thunks::missed_calls(reporter(report, receiver));
}

/// Returns a closure that passes a library, a symbol and a number to another copy.
fn reporter(report: Report, receiver: *mut c_void) -> impl Fn(&CStr, &CStr, u64) {
    // SAFETY: the other copy has passed `report` together with the receiver that it expects, and
    // both names are C strings.
    move |library, symbol, number| unsafe {
        report(receiver, library.as_ptr(), symbol.as_ptr(), number);
    }
}
