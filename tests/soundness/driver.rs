//! Driver calls, for what the allocators here do not have: handles, and frees that fail.

#![expect(
    unsafe_code,
    reason = "calls the driver, so that each leak is one call"
)]

use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::{CUdeviceptr, CUevent, CUevent_flags, CUresult};
use cudarc::driver::{CudaContext, result, sys};

/// The address of device memory.
pub(super) type Pointer = CUdeviceptr;

/// The primary context of device 0, created once, kept, and current on this thread.
pub(super) fn context() {
    static CONTEXT: OnceLock<Arc<CudaContext>> = OnceLock::new();
    let context = CONTEXT.get_or_init(|| CudaContext::new(0).expect("the stand-in"));
    context.bind_to_thread().expect("its context");
}

#[inline(never)]
pub(super) fn take(bytes: u64) -> Pointer {
    let bytes = usize::try_from(bytes).expect("an address space of 64 bits");
    // SAFETY: a context is current.
    unsafe { result::malloc_sync(bytes) }.expect("memory") // here: taken
}

pub(super) fn free(pointer: Pointer) {
    // SAFETY: the caller allocated the memory and no longer uses it.
    unsafe { result::free_sync(pointer) }.expect("a free"); // here: freed
}

/// Makes a free call that the driver rejects.
pub(super) fn rejected_free(pointer: Pointer) {
    // SAFETY: no memory begins at this address, and the driver returns an error.
    let answer = unsafe { sys::cuMemFree_v2(pointer) };
    assert_ne!(answer, CUresult::CUDA_SUCCESS);
}

/// Allocates pinned memory and returns its address.
pub(super) fn take_pinned(bytes: usize) -> Pointer {
    // SAFETY: a context is current.
    let start = unsafe { result::malloc_host(bytes, 0) }.expect("memory"); // here: pinned
    start.addr() as Pointer
}

/// Makes a free call that the driver rejects.
pub(super) fn rejected_pinned_free(pointer: Pointer) {
    let address = std::ptr::without_provenance_mut(pointer as usize);
    // SAFETY: no pinned memory begins at this address, and the driver returns an error.
    let answer = unsafe { sys::cuMemFreeHost(address) };
    assert_ne!(answer, CUresult::CUDA_SUCCESS);
}

pub(super) fn event() -> CUevent {
    result::event::create(CUevent_flags::CU_EVENT_DEFAULT).expect("an event")
}

pub(super) fn destroy(event: CUevent) {
    // SAFETY: the caller created the event and no longer uses it.
    unsafe { result::event::destroy(event) }.expect("a free");
}

/// Destroys an event that has already been destroyed.
pub(super) fn rejected_destroy(event: CUevent) {
    // SAFETY: the stand-in looks up the handle, and returns an error because it is invalid.
    let answer = unsafe { sys::cuEventDestroy_v2(event) };
    assert_ne!(answer, CUresult::CUDA_SUCCESS);
}

/// Allocates memory from the default pool, on the null stream.
pub(super) fn take_of_the_pool(bytes: usize) -> Pointer {
    // SAFETY: a context is current, and the null stream always exists.
    unsafe { result::malloc_async(result::stream::null(), bytes) }.expect("memory")
}

/// Sets the release threshold so that the pool keeps all freed memory, as is usual in programs that
/// soon allocate again.
pub(super) fn keep_what_is_freed_to_the_pool() {
    let mut pool = std::ptr::null_mut();
    let mut keep = u64::MAX;
    let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the pool is that of a device, and the pointers are to local variables of the right
    // types.
    unsafe {
        sys::cuDeviceGetDefaultMemPool(&raw mut pool, 0)
            .result()
            .expect("the device's pool");
        sys::cuMemPoolSetAttribute(pool, threshold, (&raw mut keep).cast())
            .result()
            .expect("a threshold");
    }
}

pub(super) fn free_to_the_pool(pointer: Pointer) {
    // SAFETY: the caller allocated the memory on the null stream and no longer uses it.
    unsafe { result::free_async(pointer, result::stream::null()) }.expect("a free");
}

/// Waits for the device, at which point the pool releases its unused memory.
pub(super) fn wait() {
    // SAFETY: a context is current, and the null stream always exists.
    unsafe { result::stream::synchronize(result::stream::null()) }.expect("the null stream");
}
