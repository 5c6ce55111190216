//! Counts calls to watched functions that have no wrapper: variants that are in no table, and
//! functions of a second driver. A thunk is handed out for each such function. It counts the call
//! and jumps to the function, no matter what the function's signature is.
#![expect(unsafe_code, reason = "defines functions that jump through a table")]

use std::arch::naked_asm;
use std::ffi::{CStr, c_char};
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

const COUNT: usize = 256;
/// The size of the code of each thunk in bytes.
const STEP: usize = 16;

/// The counter and the target of a thunk.
#[repr(C)]
struct Thunk {
    target: AtomicPtr<()>,
    calls: AtomicU64,
    /// The function's name, which is never freed.
    name: AtomicPtr<c_char>,
}

static THUNKS: [Thunk; COUNT] = [const {
    Thunk {
        target: AtomicPtr::new(ptr::null_mut()),
        calls: AtomicU64::new(0),
        name: AtomicPtr::new(ptr::null_mut()),
    }
}; COUNT];

/// How many thunks have been requested, which may be more than there are.
static WANTED: AtomicUsize = AtomicUsize::new(0);

/// The code of all thunks, `STEP` bytes each. It must not change a register that carries an
/// argument, but may use the registers that linkers use between a call and the called function.
#[unsafe(naked)]
unsafe extern "C" fn thunks() {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        ".set .Lthunk, 0; .rept {count}; .balign {step}; endbr64",
        ".byte 0x68; .long .Lthunk",
        "jmp 2f; .set .Lthunk, .Lthunk + 1; .endr",
        "2: pop r11; imul r11, r11, {size}; lea r10, [rip + {slots}]; add r11, r10",
        "lock inc qword ptr [r11 + {calls}]; jmp qword ptr [r11 + {target}]",
        count = const COUNT, step = const STEP, size = const size_of::<Thunk>(), slots = sym THUNKS,
        calls = const offset_of!(Thunk, calls), target = const offset_of!(Thunk, target),
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        ".set .Lthunk, 0; .rept {count}; .balign {step}; hint #34",
        "movz w16, #.Lthunk",
        "b 2f; .set .Lthunk, .Lthunk + 1; .endr",
        "2: mov w17, {size}; adrp x9, {slots}; add x9, x9, :lo12:{slots}; madd x16, x16, x17, x9",
        "add x17, x16, {calls}",
        "3: ldxr x9, [x17]; add x9, x9, 1; stxr w10, x9, [x17]; cbnz w10, 3b",
        "ldr x16, [x16, {target}]; br x16",
        count = const COUNT, step = const STEP, size = const size_of::<Thunk>(), slots = sym THUNKS,
        calls = const offset_of!(Thunk, calls), target = const offset_of!(Thunk, target),
    );
}

fn code(at: usize) -> *const () {
    (thunks as *const ()).wrapping_byte_add(at * STEP)
}

pub(crate) fn is_thunk(function: *const ()) -> bool {
    (code(0)..code(COUNT)).contains(&function)
}

/// Returns the address to hand out for a function whose calls are to be counted.
pub(crate) fn thunk(name: &CStr, real: *const ()) -> *const () {
    let leads_there = |thunk: &Thunk| thunk.target.load(Ordering::Acquire).cast_const() == real;
    let at = THUNKS.iter().position(leads_there).unwrap_or_else(|| {
        let at = WANTED.fetch_add(1, Ordering::Relaxed);
        if let Some(thunk) = THUNKS.get(at) {
            let name = name.to_owned().into_raw();
            thunk.name.store(name, Ordering::Release);
            thunk.target.store(real.cast_mut(), Ordering::Release);
        }
        at
    });
    // If no thunk is left, a function is assumed to be called as soon as it is looked up.
    if at < COUNT { code(at) } else { real }
}

/// Reports each function that was called through its thunk, and how many times.
pub(crate) fn missed_calls(each: impl Fn(&CStr, &CStr, u64)) {
    let wanted = WANTED.load(Ordering::Relaxed);
    for thunk in THUNKS.iter().take(wanted) {
        let calls = thunk.calls.load(Ordering::Relaxed);
        let name = thunk.name.load(Ordering::Acquire);
        if calls != 0 && !name.is_null() {
            // SAFETY: the name is a C string that `thunk` has leaked.
            each(c"", unsafe { CStr::from_ptr(name) }, calls);
        }
    }
    if wanted > COUNT {
        let name = c"(more functions than can be counted separately)";
        each(c"", name, (wanted - COUNT) as u64);
    }
}
