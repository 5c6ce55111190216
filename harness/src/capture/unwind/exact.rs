//! The exact unwinder, which panics also use. std links it into every program.
//!
//! Its functions are declared by hand as in the [C++ ABI], whose level I is independent of C++.
//!
//! [C++ ABI]: https://itanium-cxx-abi.github.io/cxx-abi/abi-eh.html#base-abi

use std::ffi::{c_int, c_void};

const CONTINUE: c_int = 0;
const STOP: c_int = 9;

/// The unwinder's opaque frame type.
#[repr(C)]
struct UnwindContext {
    _private: [u8; 0],
}

type Visit = unsafe extern "C" fn(*mut UnwindContext, *mut c_void) -> c_int;

unsafe extern "C" {
    fn _Unwind_Backtrace(visit: Visit, argument: *mut c_void) -> c_int;
    fn _Unwind_GetIP(frame: *mut UnwindContext) -> usize;
    fn _Unwind_GetCFA(frame: *mut UnwindContext) -> usize;
    fn _Unwind_GetGR(frame: *mut UnwindContext, register: c_int) -> usize;
}

/// The number of the frame pointer in unwind tables.
const FRAME_POINTER: c_int = if cfg!(target_arch = "x86_64") { 6 } else { 29 };

/// Calls `visit` with the stack pointer, the return address and the frame pointer of each frame of
/// the calling thread, innermost first, until it returns false. `visit` must not panic.
///
/// Any number of threads may call this at the same time. The only thing that they share is the
/// loader's lock, which is taken to find unwind tables.
pub(crate) fn trace<F: FnMut(usize, usize, usize) -> bool>(mut visit: F) {
    unsafe extern "C" fn each<F: FnMut(usize, usize, usize) -> bool>(
        frame: *mut UnwindContext,
        visit: *mut c_void,
    ) -> c_int {
        // SAFETY: `visit` points to the closure below, which outlives the walk and is not used
        // elsewhere during the walk.
        let visit = unsafe { &mut *visit.cast::<F>() };
        // SAFETY: the unwinder passes a frame that is valid during this call, and it knows the frame
        // pointer of every frame.
        let (stack, address, frame_pointer) = unsafe {
            let frame_pointer = _Unwind_GetGR(frame, FRAME_POINTER);
            (_Unwind_GetCFA(frame), _Unwind_GetIP(frame), frame_pointer)
        };
        if visit(stack, address, frame_pointer) {
            CONTINUE
        } else {
            STOP
        }
    }
    // SAFETY: `each` has the signature of a callback and gets a pointer to its closure. A panic in
    // `each` aborts the process.
    unsafe { _Unwind_Backtrace(each::<F>, (&raw mut visit).cast()) };
}
