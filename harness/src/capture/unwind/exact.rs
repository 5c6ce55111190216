//! The exact engine: the unwinder that panics use. Every program has it, for std links it.
//!
//! Declared by hand as the [C++ ABI] has it, whose level I is not about C++.
//!
//! [C++ ABI]: https://itanium-cxx-abi.github.io/cxx-abi/abi-eh.html#base-abi

use std::ffi::{c_int, c_void};

const CONTINUE: c_int = 0;
const STOP: c_int = 9;

/// The unwinder's own.
#[repr(C)]
struct UnwindContext {
    _private: [u8; 0],
}

type Visit = unsafe extern "C" fn(*mut UnwindContext, *mut c_void) -> c_int;

unsafe extern "C" {
    fn _Unwind_Backtrace(visit: Visit, argument: *mut c_void) -> c_int;
    fn _Unwind_GetIP(frame: *mut UnwindContext) -> usize;
    fn _Unwind_GetCFA(frame: *mut UnwindContext) -> usize;
}

/// Calls `visit` with the stack pointer and the return address of each frame of the calling thread,
/// innermost first, as long as it says so. It must not panic.
///
/// Any number of threads may be here at once: the loader's lock is taken where unwind tables are
/// looked for, and nothing else is shared.
pub(crate) fn trace<F: FnMut(usize, usize) -> bool>(mut visit: F) {
    unsafe extern "C" fn each<F: FnMut(usize, usize) -> bool>(
        frame: *mut UnwindContext,
        visit: *mut c_void,
    ) -> c_int {
        // SAFETY: the closure below, which outlives the walk and is not used elsewhere meanwhile.
        let visit = unsafe { &mut *visit.cast::<F>() };
        // SAFETY: the unwinder passes a frame that is valid during this call.
        let (stack, address) = unsafe { (_Unwind_GetCFA(frame), _Unwind_GetIP(frame)) };
        if visit(stack, address) {
            CONTINUE
        } else {
            STOP
        }
    }
    // SAFETY: `each` has the callback's signature and is told which closure it gets; what panics in
    // it ends the process.
    unsafe { _Unwind_Backtrace(each::<F>, (&raw mut visit).cast()) };
}
