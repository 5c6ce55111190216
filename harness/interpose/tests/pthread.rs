//! Tests the contract of `pthread_create` as C code uses it.
#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "calls the C library as C code does")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

use gpu_leak_interpose::{inherits, set_token, token};

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
    static FREED: Cell<usize> = const { Cell::new(0) };
}

/// Counts what each thread allocates and frees.
struct Counting;

// SAFETY: every call is forwarded unchanged to the system's allocator. Counting uses thread-locals
// that neither allocate nor have destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + 1);
        // SAFETY: the caller upholds the contract of the same method.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        FREED.set(FREED.get() + 1);
        // SAFETY: the caller upholds the contract of the same method.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns how many blocks `body` allocates and frees on this thread.
fn counted(body: impl FnOnce()) -> (usize, usize) {
    let before = (ALLOCATED.get(), FREED.get());
    body();
    (ALLOCATED.get() - before.0, FREED.get() - before.1)
}

type Routine = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

unsafe extern "C-unwind" {
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        routine: Routine,
        argument: *mut c_void,
    ) -> c_int;
    fn pthread_exit(value: *mut c_void) -> !;
}

/// Starts a thread as C code would. Returns the error if it does not start.
fn create(
    attributes: *const libc::pthread_attr_t,
    routine: Routine,
    argument: usize,
) -> Result<libc::pthread_t, c_int> {
    let mut thread = 0;
    // SAFETY: `thread` is writable, callers pass null or initialised attributes, and the routines
    // of these tests accept any argument.
    let result = unsafe {
        pthread_create(
            &raw mut thread,
            attributes,
            routine,
            std::ptr::without_provenance_mut(argument),
        )
    };
    if result == 0 { Ok(thread) } else { Err(result) }
}

/// Runs a routine on a new thread and returns its result.
fn run(routine: Routine, argument: usize) -> usize {
    let thread = create(null(), routine, argument).expect("a thread");
    let mut result = null_mut();
    // SAFETY: the thread was started above and is joined once; `result` is writable.
    let joined = unsafe { libc::pthread_join(thread, &raw mut result) };
    assert_eq!(joined, 0);
    result.addr()
}

extern "C-unwind" fn returns_token_and_argument(argument: *mut c_void) -> *mut c_void {
    let token = usize::try_from(token()).expect("a small token");
    std::ptr::without_provenance_mut(token << 8 | argument.addr())
}

extern "C-unwind" fn exits(argument: *mut c_void) -> *mut c_void {
    // SAFETY: no frame of this thread has a destructor to run.
    unsafe { pthread_exit(argument) }
}

#[test]
fn argument_and_result_pass_through() {
    let before = set_token(0);
    assert_eq!(run(returns_token_and_argument, 7), 7);
    set_token(3);
    let token = if inherits() { 3 } else { 0 };
    assert_eq!(run(returns_token_and_argument, 7), token << 8 | 7);
    set_token(before);
}

#[test]
fn a_thread_may_end_by_pthread_exit() {
    let before = set_token(4);
    assert_eq!(run(exits, 9), 9);
    set_token(before);
}

#[test]
fn without_a_token_nothing_is_allocated() {
    let before = set_token(0);
    let (allocated, _) = counted(|| {
        run(returns_token_and_argument, 1);
    });
    assert_eq!(allocated, 0);
    set_token(before);
}

#[test]
fn a_thread_that_cannot_start_is_an_error_and_leaves_nothing() {
    let before = set_token(5);
    // The first thread with a token allocates space that all threads share, so it is started before
    // anything is counted.
    run(returns_token_and_argument, 1);
    let mut attributes = std::mem::MaybeUninit::uninit();
    // SAFETY: the attributes are initialised by the first call and used by the second, and this
    // stack size is valid.
    let set = unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr())
            + libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), 1 << 60)
    };
    assert_eq!(set, 0);
    let mut result = Ok(0);
    let (allocated, freed) = counted(|| {
        result = create(attributes.as_ptr(), returns_token_and_argument, 1);
    });
    assert!(result.is_err());
    assert_eq!(allocated, usize::from(inherits()));
    assert_eq!(freed, allocated);
    set_token(before);
}
