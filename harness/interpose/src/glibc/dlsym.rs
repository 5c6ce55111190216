//! `dlsym`, which jumps to the next definition except for the names of tables.
//!
//! It may be called before `main`, in constructors and while the loader works. So the code that
//! decides about a name allocates nothing, takes no lock, uses no thread-local and cannot panic.
#![expect(unsafe_code, reason = "stands between the program and the C library")]

use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::{mem, ptr};

use super::{process, registry};
use crate::interface::function;
use crate::loader::while_open;

/// Makes `dladdr1` return the object.
const RTLD_DL_LINKMAP: c_int = 2;

pub(crate) type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// The first fields of glibc's `struct link_map`, to which a handle of `dlopen` points as well.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct LinkMap {
    pub(crate) base: usize,
    pub(crate) name: *const c_char,
    pub(crate) dynamic: *const c_void,
    pub(crate) next: *const LinkMap,
}

/// Looks up a symbol, with the contract and result of
/// [`dlsym(3)`](https://man7.org/linux/man-pages/man3/dlsym.3.html).
///
/// # Safety
///
/// As in the manual page: `handle` is a handle of `dlopen` or a special one, `name` a C string.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // Any library may define this symbol, but only we define the function behind it.
    #[cfg(target_arch = "x86_64")]
    naked_asm!("endbr64; jmp {}", sym interposed);
    #[cfg(target_arch = "aarch64")]
    naked_asm!("hint #34; b {}", sym interposed);
}

/// Calls `decide` with the return address as third argument. Then it either returns the answer, or
/// jumps on as if the caller had called the next `dlsym`.
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

/// Two registers: the answer or, if that is null, where to jump.
#[repr(C)]
struct Decision {
    jump: Dlsym,
    answer: *const c_void,
}

extern "C" fn decide(handle: *mut c_void, name: *const c_char, caller: *const c_void) -> Decision {
    let jump = next();
    let mut decision = Decision {
        jump,
        answer: ptr::null(),
    };
    // A library that asks for the next definition wraps the function itself, and the program looks
    // up its wrapper.
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
    } else if name == process::MARKER {
        decision.answer = process::marker();
    }
    decision
}

/// Returns what the caller would have got without us, or what tells it that there is nothing.
fn real(
    next: Dlsym,
    handle: *mut c_void,
    name: &CStr,
    caller: *const c_void,
) -> Result<*mut c_void, Dlsym> {
    let look_up = |handle| {
        // SAFETY: the caller of `dlsym` passes a handle, or it is that of a loaded object.
        let found = unsafe { next(handle, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    };
    // The C library searches the global scope, and then what was loaded with the caller, for which
    // it would take us here.
    let beside_the_caller = || {
        let map = object_of(caller).filter(|_| handle == libc::RTLD_DEFAULT)?;
        // SAFETY: the caller's object is loaded, and its name is a C string.
        let name = unsafe { CStr::from_ptr((*map).name) };
        while_open(name, look_up).flatten()
    };
    let found = look_up(handle).or_else(beside_the_caller).ok_or(next)?;
    let Some(behind) = registry::behind_trampolines(found) else {
        return Ok(found);
    };
    // SAFETY: `behind` looks up a name and gets the caller's.
    let found = unsafe { behind(ptr::null_mut(), name.as_ptr()) };
    if found.is_null() {
        Err(behind)
    } else {
        Ok(found)
    }
}

/// Returns the `dlsym` behind ours.
pub(crate) fn next() -> Dlsym {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

    // A preloaded `dlsym` may lie between ours and the C library's.
    // SAFETY: the name is a C string, and the function has this name.
    unsafe { once(&NEXT, || of_libc()(libc::RTLD_NEXT, c"dlsym".as_ptr())) }.unwrap_or(of_libc())
}

/// Returns the C library's `dlsym`, looked up by its version: to find it by its name alone, `dlsym`
/// would be needed.
pub(crate) fn of_libc() -> Dlsym {
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

    // The version of the processor's first glibc, which all later ones have, in libc or in
    // libdl. A missing version would cause an error message to be allocated, possibly by an
    // interposed `malloc` that is calling this.
    let version = if cfg!(target_arch = "x86_64") {
        c"GLIBC_2.2.5"
    } else {
        c"GLIBC_2.17"
    };
    let name = c"dlsym".as_ptr();
    // SAFETY: both are C strings, and the function has this name.
    unsafe {
        once(&FOUND, || {
            libc::dlvsym(libc::RTLD_NEXT, name, version.as_ptr())
        })
    }
    .unwrap_or(finds_nothing)
}

/// Returns the function of the type `F` that `find` returns, which is called once and whose result is kept
/// in `known`. Threads that race find the same function.
///
/// # Safety
///
/// As for [`function`].
pub(crate) unsafe fn once<F: Copy>(
    known: &AtomicPtr<c_void>,
    find: impl FnOnce() -> *mut c_void,
) -> Option<F> {
    let mut found = known.load(Ordering::Relaxed);
    if found.is_null() {
        found = find();
        known.store(found, Ordering::Relaxed);
    }
    // SAFETY: the caller keeps the contract.
    unsafe { function(found) }
}

/// Replaces the C library's `dlsym` if there is none.
unsafe extern "C" fn finds_nothing(_: *mut c_void, _: *const c_char) -> *mut c_void {
    ptr::null_mut()
}

/// Returns the loaded object that contains `address`.
pub(crate) fn object_of(address: *const c_void) -> Option<*const LinkMap> {
    let mut info = mem::MaybeUninit::uninit();
    let mut map = ptr::null_mut();
    // SAFETY: both results are writable; any address may be queried.
    let found = unsafe { libc::dladdr1(address, info.as_mut_ptr(), &raw mut map, RTLD_DL_LINKMAP) };
    (found != 0 && !map.is_null()).then_some(map.cast::<LinkMap>().cast_const())
}

/// Returns the loaded object that contains this copy of the crate.
pub(crate) fn own_object() -> Option<*const LinkMap> {
    object_of(ours())
}

/// Returns our `dlsym`, whichever one the process finds by that name.
pub(crate) fn ours() -> *const c_void {
    interposed as *const c_void
}

/// Makes the linker keep `dlsym`, as for `pthread_create`.
pub(crate) fn link() {
    std::hint::black_box(dlsym as Dlsym);
}
