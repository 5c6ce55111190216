//! One leak of each kind, and beside each the same work done properly.
//!
//! The line that takes something is marked `// leak: NAME`; the tests find its number here. All
//! are ignored: `detects` and `quiet` run them in processes of their own.

#![expect(
    unsafe_code,
    reason = "the driver's own calls, so that each leak is one call"
)]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::{Arc, OnceLock};

use cudarc::cublas::result as cublas;
use cudarc::driver::CudaContext;
use cudarc::driver::result::{self, event, mem_pool, stream};
use cudarc::driver::sys;
use gpu_leak_check::gpu_leak_check;

/// The primary context of device 0, made once and current to this thread. Were it made by each
/// test, the last one to let go of it would free what the test leaked.
pub(crate) fn context() -> &'static Arc<CudaContext> {
    static CONTEXT: OnceLock<Arc<CudaContext>> = OnceLock::new();
    let context = CONTEXT.get_or_init(|| CudaContext::new(0).expect("device 0 has a context"));
    context
        .bind_to_thread()
        .expect("the context can be made current");
    context
}

/// Never gives it back.
fn keep<T>(taken: T) {
    std::mem::forget(taken);
}

/// The whole table: a name, how to take one, and how to give it back.
macro_rules! planted {
    ($($name:ident: $take:expr, $give_back:expr;)*) => {
        $(mod $name {
            use super::*;

            #[gpu_leak_check]
            #[ignore = "leaks on purpose"]
            #[test]
            fn leaks() {
                context();
                keep(($take)());
            }

            #[gpu_leak_check]
            #[ignore = "the body of the quiet test"]
            #[test]
            pub(crate) fn is_mended() {
                context();
                let taken = ($take)();
                ($give_back)(taken);
            }

            #[gpu_leak_check]
            #[ignore = "run in a process of its own"]
            #[test]
            fn stays_quiet() {
                for _ in 0..100 {
                    is_mended();
                }
            }
        })*
    };
}

planted! {
    linear: take_linear, free;
    stream_ordered_400_bytes: || take_stream_ordered(400), free_async;
    stream_ordered_1_mib: || take_stream_ordered(1 << 20), free_async;
    from_an_explicit_pool: take_from_pool, free_async;
    pitched: take_pitched, free;
    managed: take_managed, free;
    pinned: take_pinned, free_pinned;
    registered: take_registered, unregister;
    a_stream: take_stream, destroy_stream;
    an_event: take_event, destroy_event;
    a_pool: take_pool, destroy_pool;
    a_cublas_handle: take_cublas_handle, destroy_cublas_handle;
}

type Pointer = sys::CUdeviceptr;

fn take_linear() -> Pointer {
    // SAFETY: the caller made a context current.
    unsafe { result::malloc_sync(1) }.unwrap() // leak: linear
}

fn free(pointer: Pointer) {
    // SAFETY: the caller took it and uses it no more.
    unsafe { result::free_sync(pointer) }.unwrap();
}

fn take_stream_ordered(bytes: usize) -> Pointer {
    // SAFETY: the null stream always exists.
    unsafe { result::malloc_async(stream::null(), bytes) }.unwrap() // leak: stream_ordered
}

fn free_async(pointer: Pointer) {
    // SAFETY: the caller took it on the null stream and uses it no more.
    unsafe { result::free_async(pointer, stream::null()) }.unwrap();
}

fn take_from_pool() -> Pointer {
    static POOL: OnceLock<usize> = OnceLock::new();
    // Made once and kept: told as first use, and none of this leak's business.
    let pool = *POOL.get_or_init(|| take_pool().expose_provenance()) as sys::CUmemoryPool;
    // SAFETY: the pool is kept for ever.
    unsafe { mem_pool::alloc_async(pool, 4096, stream::null()) }.unwrap() // leak: from_pool
}

fn take_pitched() -> Pointer {
    let (mut pointer, mut pitch) = (0, 0);
    // SAFETY: both are written; 100 bytes by 3 rows of 4-byte elements.
    let done = unsafe { sys::cuMemAllocPitch_v2(&mut pointer, &mut pitch, 100, 3, 4) }; // leak: pitched
    done.result().unwrap();
    pointer
}

fn take_managed() -> Pointer {
    let flags = sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL;
    // SAFETY: the caller made a context current.
    unsafe { result::malloc_managed(5000, flags) }.unwrap() // leak: managed
}

fn take_pinned() -> *mut c_void {
    // SAFETY: the caller made a context current.
    unsafe { result::malloc_host(777, 0) }.unwrap() // leak: pinned
}

fn free_pinned(pointer: *mut c_void) {
    // SAFETY: the caller took it and uses it no more.
    unsafe { result::free_host(pointer) }.unwrap();
}

fn take_registered() -> Box<[MaybeUninit<u8>]> {
    let mut buffer = Box::new_uninit_slice(10_000);
    let start = buffer.as_mut_ptr().cast();
    // SAFETY: the buffer stays where it is until it is unregistered.
    let done = unsafe { sys::cuMemHostRegister_v2(start, 10_000, 0) }; // leak: registered
    done.result().unwrap();
    buffer
}

#[expect(
    clippy::boxed_local,
    reason = "what was registered is the box's memory"
)]
fn unregister(mut buffer: Box<[MaybeUninit<u8>]>) {
    // SAFETY: `take_registered` registered it.
    unsafe { sys::cuMemHostUnregister(buffer.as_mut_ptr().cast()) }
        .result()
        .unwrap();
}

fn take_stream() -> sys::CUstream {
    stream::create(stream::StreamKind::NonBlocking).unwrap() // leak: stream
}

fn destroy_stream(stream: sys::CUstream) {
    // SAFETY: the caller took it and uses it no more.
    unsafe { stream::destroy(stream) }.unwrap();
}

fn take_event() -> sys::CUevent {
    event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).unwrap() // leak: event
}

fn destroy_event(event: sys::CUevent) {
    // SAFETY: the caller took it and uses it no more.
    unsafe { event::destroy(event) }.unwrap();
}

fn take_pool() -> sys::CUmemoryPool {
    // SAFETY: zero is a valid value of every field.
    let mut properties: sys::CUmemPoolProps = unsafe { std::mem::zeroed() };
    properties.allocType = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    let mut pool = std::ptr::null_mut();
    // SAFETY: `pool` is written and the properties are read.
    let done = unsafe { sys::cuMemPoolCreate(&mut pool, &properties) }; // leak: pool
    done.result().unwrap();
    pool
}

fn destroy_pool(pool: sys::CUmemoryPool) {
    // SAFETY: the caller took it and uses it no more.
    unsafe { mem_pool::destroy(pool) }.unwrap();
}

fn take_cublas_handle() -> cudarc::cublas::sys::cublasHandle_t {
    cublas::create_handle().unwrap() // leak: cublas
}

fn destroy_cublas_handle(handle: cudarc::cublas::sys::cublasHandle_t) {
    // SAFETY: the caller took it and uses it no more.
    unsafe { cublas::destroy_handle(handle) }.unwrap();
}
