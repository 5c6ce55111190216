//! The bounds of this thread's stack.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Range;

thread_local! {
    /// The lowest and the highest address of this thread's stack; `None` until they are queried,
    /// and empty if the system does not provide them. This has no destructor, because a wrapper can
    /// be called from the destructor of another thread-local.
    static BOUNDS: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// Returns the bounds of this thread's stack; `None` if `pointer` is not on that stack, as in a
/// fibre.
pub(super) fn stack_of(pointer: usize) -> Option<Range<usize>> {
    let (low, high) = BOUNDS.get().unwrap_or_else(|| {
        let bounds = ask().unwrap_or_default();
        BOUNDS.set(Some(bounds));
        bounds
    });
    let stack = low..high;
    stack.contains(&pointer).then_some(stack)
}

fn ask() -> Option<(usize, usize)> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: this thread is alive, and the attributes are writable.
    let error = unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) };
    if error != 0 {
        return None;
    }
    let mut low = std::ptr::null_mut();
    let mut size = 0;
    // SAFETY: the call above has initialised the attributes, and they are destroyed once, at the
    // end.
    let error = unsafe {
        let error = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut low, &raw mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        error
    };
    let low = low.expose_provenance();
    (error == 0).then_some((low, low.checked_add(size)?))
}
