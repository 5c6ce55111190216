//! Callbacks by which the driver allocates host memory. They can fail.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use ash::vk;

unsafe extern "C" {
    fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void;
    fn malloc_usable_size(pointer: *mut c_void) -> usize;
    fn free(pointer: *mut c_void);
}

thread_local! {
    /// The number of further allocations on this thread that succeed.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Runs `work`, during which only this many allocations on this thread succeed.
pub(super) fn with_allocations<T>(count: usize, work: impl FnOnce() -> T) -> T {
    LEFT.set(count);
    let result = work();
    LEFT.set(usize::MAX);
    result
}

pub(super) fn callbacks() -> vk::AllocationCallbacks<'static> {
    vk::AllocationCallbacks::default()
        .pfn_allocation(Some(allocate))
        .pfn_reallocation(Some(reallocate))
        .pfn_free(Some(deallocate))
}

unsafe extern "system" fn allocate(
    _data: *mut c_void,
    bytes: usize,
    alignment: usize,
    _scope: vk::SystemAllocationScope,
) -> *mut c_void {
    let left = LEFT.get();
    if left == 0 {
        return ptr::null_mut();
    }
    LEFT.set(left - 1);
    // SAFETY: Vulkan's alignments are powers of two.
    unsafe { aligned_alloc(alignment.max(16), bytes) }
}

unsafe extern "system" fn reallocate(
    data: *mut c_void,
    old: *mut c_void,
    bytes: usize,
    alignment: usize,
    scope: vk::SystemAllocationScope,
) -> *mut c_void {
    // SAFETY: `old` is null or comes from `allocate`, and is no longer used if this succeeds.
    unsafe {
        let new = match bytes {
            0 => ptr::null_mut(),
            _ => allocate(data, bytes, alignment, scope),
        };
        if !old.is_null() && !new.is_null() {
            ptr::copy_nonoverlapping(
                old.cast::<u8>(),
                new.cast(),
                bytes.min(malloc_usable_size(old)),
            );
        }
        if bytes == 0 || !new.is_null() {
            free(old);
        }
        new
    }
}

unsafe extern "system" fn deallocate(_data: *mut c_void, memory: *mut c_void) {
    // SAFETY: the memory comes from `allocate`, or is null.
    unsafe { free(memory) };
}
