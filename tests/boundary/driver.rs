//! The driver's calls, one line each, for the bodies of the boundary tests.

#![expect(unsafe_code, reason = "calls the driver")]

use std::sync::{Arc, OnceLock};

use cudarc::driver::result::{self, DriverError, stream};
use cudarc::driver::{CudaContext, sys};

pub(super) type Pointer = sys::CUdeviceptr;

/// The primary context of device 0, created once, kept, and current on this thread.
pub(super) fn context() -> &'static Arc<CudaContext> {
    static CONTEXT: OnceLock<Arc<CudaContext>> = OnceLock::new();
    let context = CONTEXT.get_or_init(|| CudaContext::new(0).expect("device 0 has a context"));
    context.bind_to_thread().expect("a live context");
    context
}

pub(super) fn allocate(bytes: usize) -> Result<Pointer, DriverError> {
    // SAFETY: the caller made a context current.
    unsafe { result::malloc_sync(bytes) }
}

/// Like [`allocate`], but returns 0 if the driver returns no address.
pub(super) fn request(bytes: usize) -> Pointer {
    let mut pointer = 0;
    // SAFETY: the out pointer is valid, and the caller made a context current.
    let done = unsafe { sys::cuMemAlloc_v2(&raw mut pointer, bytes) };
    done.result().expect("success");
    pointer
}

pub(super) fn free(pointer: Pointer) -> Result<(), DriverError> {
    // SAFETY: the driver checks the address, and nothing uses the memory any longer.
    unsafe { result::free_sync(pointer) }
}

pub(super) fn allocate_async(bytes: usize) -> Pointer {
    // SAFETY: the null stream always exists.
    unsafe { result::malloc_async(stream::null(), bytes) }.expect("memory")
}

pub(super) fn free_async(pointer: Pointer) {
    // SAFETY: the memory was allocated on the null stream, and nothing uses it any longer.
    unsafe { result::free_async(pointer, stream::null()) }.expect("a free");
}

/// Creates a context on device 0 and makes it current on this thread.
pub(super) fn create_context() -> sys::CUcontext {
    result::init().expect("a driver");
    let mut context = std::ptr::null_mut();
    // SAFETY: the out pointer is valid, and no parameters are needed.
    let done = unsafe { sys::cuCtxCreate_v4(&raw mut context, std::ptr::null_mut(), 0, 0) };
    done.result().expect("a context");
    context
}

pub(super) fn destroy_context(context: sys::CUcontext) {
    // SAFETY: `create_context` created the context, and nothing in it is used any longer.
    unsafe { sys::cuCtxDestroy_v2(context) }
        .result()
        .expect("a live context");
}

pub(super) fn retain_primary() {
    result::init().expect("a driver");
    // SAFETY: the device exists, and the context is not used.
    unsafe { result::primary_ctx::retain(0) }.expect("a primary context");
}

pub(super) fn release_primary() {
    // SAFETY: `retain_primary` retained the context, and its caller no longer uses it.
    unsafe { result::primary_ctx::release(0) }.expect("a retained context");
}

/// Creates a green context with all multiprocessors of device 0. Also returns the handle that makes
/// it current.
pub(super) fn create_green() -> (sys::CUgreenCtx, sys::CUcontext) {
    result::init().expect("a driver");
    let processors = sys::CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM;
    let flags = sys::CUgreenCtxCreate_flags::CU_GREEN_CTX_DEFAULT_STREAM as u32;
    let (mut green, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
    let mut description = std::ptr::null_mut();
    // SAFETY: the out pointers are valid; zero is a valid value of every field of the resource, and
    // each call uses the result of the previous one.
    unsafe {
        let mut all: sys::CUdevResource = std::mem::zeroed();
        sys::cuDeviceGetDevResource(0, &raw mut all, processors)
            .result()
            .and_then(|()| {
                sys::cuDevResourceGenerateDesc(&raw mut description, &raw mut all, 1).result()
            })
            .and_then(|()| sys::cuGreenCtxCreate(&raw mut green, description, 0, flags).result())
            .and_then(|()| sys::cuCtxFromGreenCtx(&raw mut context, green).result())
    }
    .expect("a green context");
    (green, context)
}

pub(super) fn destroy_green(green: sys::CUgreenCtx) {
    // SAFETY: `create_green` created the context, and nothing uses it any longer.
    unsafe { sys::cuGreenCtxDestroy(green) }
        .result()
        .expect("a live green context");
}

pub(super) fn make_current(context: sys::CUcontext) {
    // SAFETY: the context is live.
    unsafe { result::ctx::set_current(context) }.expect("a live context");
}

pub(super) fn create_stream() -> sys::CUstream {
    stream::create(stream::StreamKind::NonBlocking).expect("a stream")
}

pub(super) fn destroy_stream(stream: sys::CUstream) {
    // SAFETY: `create_stream` created the stream, and nothing uses it any longer.
    unsafe { stream::destroy(stream) }.expect("a live stream");
}

/// A texture object over 256 floats at `memory`, in the current context.
pub(super) fn create_texture(memory: Pointer) -> sys::CUtexObject {
    // SAFETY: zero is a valid value of every field of both structures.
    let (mut floats, sampling): (sys::CUDA_RESOURCE_DESC, sys::CUDA_TEXTURE_DESC) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    floats.resType = sys::CUresourcetype::CU_RESOURCE_TYPE_LINEAR;
    floats.res.linear.devPtr = memory;
    floats.res.linear.format = sys::CUarray_format::CU_AD_FORMAT_FLOAT;
    floats.res.linear.numChannels = 1;
    floats.res.linear.sizeInBytes = 1024;
    let (mut texture, no_view) = (0, std::ptr::null());
    // SAFETY: the out pointer is valid, and the call only reads the two descriptions.
    unsafe {
        sys::cuTexObjectCreate(
            &raw mut texture,
            &raw const floats,
            &raw const sampling,
            no_view,
        )
    }
    .result()
    .expect("a texture");
    texture
}

pub(super) fn destroy_texture(texture: sys::CUtexObject) {
    // SAFETY: `create_texture` created the texture, and nothing uses it any longer.
    unsafe { sys::cuTexObjectDestroy(texture) }
        .result()
        .expect("a live texture");
}

pub(super) fn reset_device() {
    // SAFETY: nothing uses the device any longer.
    unsafe { sys::cuDevicePrimaryCtxReset_v2(0) }
        .result()
        .expect("a reset");
}

/// Allocates and frees 100 bytes in a captured graph, and launches the graph.
pub(super) fn run_captured_graph() {
    let context = context();
    let stream = context.new_stream().expect("a stream");
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    stream.begin_capture(mode).expect("a capture");
    // SAFETY: the stream is live, and the address is freed in the capture that allocated it.
    unsafe {
        let inside = result::malloc_async(stream.cu_stream(), 100).expect("a node");
        result::free_async(inside, stream.cu_stream()).expect("a node");
    }
    let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream
        .end_capture(flags)
        .expect("a capture")
        .expect("a graph with nodes");
    graph.launch().expect("a launch");
    stream.synchronize().expect("an end");
}

/// Makes the default pool keep freed memory.
pub(super) fn keep_reserve() {
    let mut keep = u64::MAX;
    let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    let mut pool = std::ptr::null_mut();
    // SAFETY: the out pointers are valid, and the threshold is 64 bits wide.
    unsafe {
        sys::cuDeviceGetDefaultMemPool(&raw mut pool, 0)
            .result()
            .expect("a pool");
        sys::cuMemPoolSetAttribute(pool, threshold, (&raw mut keep).cast())
            .result()
            .expect("a threshold");
    }
}

/// Forks. Returns `None` in the child.
pub(super) fn fork() -> Option<libc::pid_t> {
    // SAFETY: the child uses nothing that another thread may have locked, except the locks of the
    // stand-in and of the allocator, which no other thread of the test uses.
    let child = unsafe { libc::fork() };
    assert_ne!(child, -1, "no fork");
    (child != 0).then_some(child)
}

/// Returns the exit code of a child.
pub(super) fn wait_for(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: the process is a child of this one, and the pointer is to a local variable.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert!(libc::WIFEXITED(status), "{status:#x}");
    libc::WEXITSTATUS(status)
}
