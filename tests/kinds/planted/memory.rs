//! Memory that is allocated by one call: device, pool and host memory.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use cudarc::driver::result::{self, mem_pool, stream};
use cudarc::driver::sys;

use super::{Pointer, done, driver_function, made, zeroed};

pub(crate) fn linear() -> Pointer {
    // SAFETY: a context is current.
    unsafe { made(|out| sys::cuMemAlloc_v2(out, 1000)) } // leak: linear
}

pub(crate) fn one_byte() -> Pointer {
    // SAFETY: a context is current.
    unsafe { made(|out| sys::cuMemAlloc_v2(out, 1)) } // leak: one_byte
}

pub(crate) fn pitched() -> Pointer {
    let mut pitch = 0;
    // SAFETY: 3 rows of 100 bytes with 4-byte elements; the call writes to two local variables.
    unsafe { made(|out| sys::cuMemAllocPitch_v2(out, &mut pitch, 100, 3, 4)) } // leak: pitched
}

pub(crate) fn managed() -> Pointer {
    let global = sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as u32;
    // SAFETY: a context is current.
    unsafe { made(|out| sys::cuMemAllocManaged(out, 5000, global)) } // leak: managed
}

pub(crate) fn free(pointer: Pointer) {
    // SAFETY: the caller allocated the memory and no longer uses it.
    done(unsafe { sys::cuMemFree_v2(pointer) });
}

pub(crate) fn from_default_pool() -> Pointer {
    // SAFETY: the null stream always exists.
    unsafe { made(|out| sys::cuMemAllocAsync(out, 400, stream::null())) } // leak: from_default_pool
}

pub(crate) fn one_mebibyte() -> Pointer {
    // SAFETY: the null stream always exists.
    unsafe { made(|out| sys::cuMemAllocAsync(out, 1 << 20, stream::null())) } // leak: one_mebibyte
}

pub(crate) fn from_explicit_pool() -> Pointer {
    let (pool, stream) = (shared_pool(), stream::null());
    // SAFETY: the pool is never destroyed.
    unsafe { made(|out| sys::cuMemAllocFromPoolAsync(out, 4096, pool, stream)) } // leak: from_explicit_pool
}

pub(crate) fn free_async(pointer: Pointer) {
    // SAFETY: the caller allocated the memory on the null stream and no longer uses it.
    unsafe { result::free_async(pointer, stream::null()) }.expect("a free");
}

type AllocateAsync = unsafe extern "C" fn(*mut Pointer, usize, sys::CUstream) -> sys::CUresult;
type FreeAsync = unsafe extern "C" fn(Pointer, sys::CUstream) -> sys::CUresult;

/// Calls the variant that a build with per-thread default streams would call.
pub(crate) fn per_thread() -> Pointer {
    let allocate: AllocateAsync = driver_function("cuMemAllocAsync_ptsz");
    // SAFETY: the thread's own stream always exists.
    unsafe { made(|out| allocate(out, 2000, stream::null())) } // leak: per_thread
}

pub(crate) fn free_per_thread(pointer: Pointer) {
    let free: FreeAsync = driver_function("cuMemFreeAsync_ptsz");
    // SAFETY: the caller allocated the memory on the thread's own stream and no longer uses it.
    done(unsafe { free(pointer, stream::null()) });
}

pub(crate) fn pool() -> sys::CUmemoryPool {
    let properties = pool_properties();
    // SAFETY: the call only reads the properties.
    unsafe { made(|out| sys::cuMemPoolCreate(out, &raw const properties)) } // leak: pool
}

/// The properties of a pool for device 0 that cannot be shared.
pub(super) fn pool_properties() -> sys::CUmemPoolProps {
    // SAFETY: zero is a valid value of every field.
    let mut properties: sys::CUmemPoolProps = unsafe { zeroed() };
    properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    properties
}

pub(crate) fn destroy_pool(pool: sys::CUmemoryPool) {
    // SAFETY: the caller created the pool and no longer uses it.
    unsafe { mem_pool::destroy(pool) }.expect("a pool");
}

/// Returns a pool that is created once and kept.
pub(crate) fn shared_pool() -> sys::CUmemoryPool {
    static POOL: OnceLock<usize> = OnceLock::new();
    let pool = *POOL.get_or_init(|| pool().expose_provenance());
    std::ptr::with_exposed_provenance_mut(pool)
}

pub(crate) fn pinned() -> *mut c_void {
    // SAFETY: a context is current.
    unsafe { made(|out| sys::cuMemHostAlloc(out, 777, 0)) } // leak: pinned
}

pub(crate) fn pinned_by_the_other_call() -> *mut c_void {
    // SAFETY: a context is current.
    unsafe { made(|out| sys::cuMemAllocHost_v2(out, 778)) } // leak: pinned_by_the_other_call
}

pub(crate) fn free_pinned(pointer: *mut c_void) {
    // SAFETY: the caller allocated the memory and no longer uses it.
    unsafe { result::free_host(pointer) }.expect("a free");
}

pub(crate) fn registered() -> Box<[MaybeUninit<u8>]> {
    let mut buffer = Box::new_uninit_slice(10_000);
    let start = buffer.as_mut_ptr().cast();
    // SAFETY: the buffer does not move until it is unregistered.
    done(unsafe { sys::cuMemHostRegister_v2(start, 10_000, 0) }); // leak: registered
    buffer
}

#[expect(
    clippy::boxed_local,
    reason = "the registered memory belongs to the box"
)]
pub(crate) fn unregister(mut buffer: Box<[MaybeUninit<u8>]>) {
    // SAFETY: `registered` registered this memory.
    done(unsafe { sys::cuMemHostUnregister(buffer.as_mut_ptr().cast()) });
}
