//! The driver's calls, one line each, on a chosen device.

#![expect(unsafe_code, reason = "calls the driver")]

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Arc, OnceLock};

use cudarc::driver::result::{self, mem_pool, stream};
use cudarc::driver::{CudaContext, sys};

pub(super) type Pointer = sys::CUdeviceptr;

/// The primary context of a device, created once and kept.
fn context(device: usize) -> &'static Arc<CudaContext> {
    static CONTEXTS: [OnceLock<Arc<CudaContext>>; 2] = [OnceLock::new(), OnceLock::new()];
    CONTEXTS[device].get_or_init(|| CudaContext::new(device).expect("a context"))
}

/// Makes the primary context of a device current on this thread.
pub(super) fn use_device(device: usize) {
    context(device).bind_to_thread().expect("a live context");
}

/// Whether the primary context of a device exists. The query does not create it.
pub(super) fn is_active(device: i32) -> bool {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: the call writes to both local variables.
    let done = unsafe { sys::cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) };
    done.result().expect("a device");
    active != 0
}

pub(super) fn allocate(bytes: usize) -> Pointer {
    // SAFETY: a context is current.
    unsafe { result::malloc_sync(bytes) }.expect("memory")
}

pub(super) fn free(pointer: Pointer) {
    // SAFETY: the caller allocated the memory and no longer uses it.
    unsafe { result::free_sync(pointer) }.expect("a free");
}

pub(super) fn allocate_async(bytes: usize) -> Pointer {
    // SAFETY: the null stream always exists.
    unsafe { result::malloc_async(stream::null(), bytes) }.expect("memory")
}

/// Sets a location to this device.
fn locate(location: &mut sys::CUmemLocation, device: i32) {
    location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    let number = (&raw mut *location).cast::<i32>();
    // SAFETY: the device's ordinal follows the type. The name of its field in cudarc depends on the
    // version of CUDA.
    unsafe { number.add(1).write(device) };
}

pub(super) fn create_pool(device: i32) -> sys::CUmemoryPool {
    // SAFETY: zero is a valid value of every field.
    let mut properties: sys::CUmemPoolProps = unsafe { MaybeUninit::zeroed().assume_init() };
    properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    locate(&mut properties.location, device);
    let mut pool = ptr::null_mut();
    // SAFETY: the call writes the pool to a local variable and reads the properties.
    let done = unsafe { sys::cuMemPoolCreate(&mut pool, &raw const properties) };
    done.result().expect("a pool");
    pool
}

pub(super) fn allocate_from(pool: sys::CUmemoryPool, bytes: usize) -> Pointer {
    // SAFETY: the pool is live, and the null stream always exists.
    unsafe { mem_pool::alloc_async(pool, bytes, stream::null()) }.expect("memory")
}

/// Allocates 2 MiB of physical memory.
pub(super) fn create_physical(device: i32) {
    // SAFETY: zero is a valid value of every field.
    let mut properties: sys::CUmemAllocationProp = unsafe { MaybeUninit::zeroed().assume_init() };
    properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    locate(&mut properties.location, device);
    let mut handle = 0;
    // SAFETY: the call writes the handle to a local variable and reads the properties.
    let done = unsafe { sys::cuMemCreate(&mut handle, 2 << 20, &raw const properties, 0) };
    done.result().expect("physical memory");
}

/// Lets the current context access a device's memory.
pub(super) fn enable_peer_access(device: usize) {
    // SAFETY: the other context is never destroyed.
    let done = unsafe { sys::cuCtxEnablePeerAccess(context(device).cu_ctx(), 0) };
    match done {
        sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => {}
        done => done.result().expect("devices that reach each other"),
    }
}

pub(super) fn disable_peer_access(device: usize) {
    // SAFETY: the other context is never destroyed.
    let done = unsafe { sys::cuCtxDisablePeerAccess(context(device).cu_ctx()) };
    done.result().expect("it was enabled");
}

/// Copies this number of bytes from device 0 to device 1.
pub(super) fn copy_from_one_to_the_other(from: Pointer, to: Pointer, bytes: usize) {
    let (source, target) = (context(0).cu_ctx(), context(1).cu_ctx());
    // SAFETY: the caller upholds the contract.
    let done = unsafe { sys::cuMemcpyPeer(to, target, from, source, bytes) };
    done.result().expect("a copy");
}
