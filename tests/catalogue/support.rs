//! What the programs allocate: blocks of an allocator that reports them, and driver resources.

/// The program's own allocator, which reports the blocks that it hands out.
pub(crate) mod heap {
    use std::sync::atomic::{AtomicU64, Ordering};

    use gpu_leak_check::Place;
    use gpu_leak_check::observe::Source;

    /// The distance between the addresses of blocks, so that they do not overlap.
    const SPACING: u64 = 1 << 20;

    static SOURCE: Source = Source::new("heap", &[]);

    pub(crate) fn allocate(bytes: u64) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0x5_0000_0000_0000);
        assert!(bytes <= SPACING, "a small block");
        let address = NEXT.fetch_add(SPACING, Ordering::Relaxed);
        SOURCE.allocated(Place::named("npu:0"), address, bytes);
        address
    }

    pub(crate) fn free(address: u64) {
        SOURCE.freed(address);
    }
}

/// Wrappers for the driver's functions, like those of programs that use raw handles.
pub(crate) mod cuda {
    #![expect(unsafe_code, reason = "calls the driver")]

    use std::ffi::c_void;
    use std::mem::MaybeUninit;
    use std::ptr;
    use std::sync::{Arc, OnceLock};

    use cudarc::driver::result::stream;
    use cudarc::driver::{CudaContext, DriverError, sys};

    /// The size of a page of physical memory.
    pub(crate) const PAGE: usize = 2 << 20;

    /// A kernel that does nothing.
    const IMAGE: &std::ffi::CStr =
        c".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n";

    /// The primary context of device 0, which is kept.
    pub(crate) fn context() -> &'static Arc<CudaContext> {
        static CONTEXT: OnceLock<Arc<CudaContext>> = OnceLock::new();
        CONTEXT.get_or_init(|| CudaContext::new(0).expect("device 0 has a context"))
    }

    /// Makes the primary context current unless this thread has entered another context.
    fn enter() {
        if OWN_CONTEXTS.get() == 0 {
            context().bind_to_thread().expect("a live context");
        }
    }

    thread_local! {
        /// The number of contexts that this thread has created and entered.
        static OWN_CONTEXTS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }

    /// Creates a context and makes it current on this thread.
    pub(crate) fn create_context() -> sys::CUcontext {
        enter();
        let mut out = ptr::null_mut();
        // SAFETY: no parameters are needed.
        done(unsafe { sys::cuCtxCreate_v4(&mut out, ptr::null_mut(), 0, 0) });
        OWN_CONTEXTS.set(OWN_CONTEXTS.get() + 1);
        out
    }

    /// Destroys the current context of this thread.
    pub(crate) fn destroy_context(own: sys::CUcontext) {
        OWN_CONTEXTS.set(OWN_CONTEXTS.get() - 1);
        // SAFETY: the caller created the context and no longer uses it.
        done(unsafe { sys::cuCtxDestroy_v2(own) });
    }

    fn done(result: sys::CUresult) {
        result.result().expect("a call that succeeds");
    }

    pub(crate) fn alloc(bytes: usize) -> u64 {
        enter();
        let mut out = 0;
        // SAFETY: the call writes the address to a local variable.
        done(unsafe { sys::cuMemAlloc_v2(&mut out, bytes) });
        out
    }

    pub(crate) fn free(address: u64) {
        enter();
        // SAFETY: the driver refuses an address that it did not hand out.
        done(unsafe { sys::cuMemFree_v2(address) });
    }

    /// Like [`free`], but returns an error instead of panicking.
    pub(crate) fn try_free(address: u64) -> Result<(), DriverError> {
        enter();
        // SAFETY: the driver refuses an address that it did not hand out.
        unsafe { sys::cuMemFree_v2(address) }.result()
    }

    pub(crate) fn alloc_async(bytes: usize) -> u64 {
        enter();
        let mut out = 0;
        // SAFETY: the call writes to a local variable, and the null stream always exists.
        done(unsafe { sys::cuMemAllocAsync(&mut out, bytes, stream::null()) });
        out
    }

    pub(crate) fn free_async(address: u64) {
        enter();
        // SAFETY: the caller allocated the memory on the null stream and no longer uses it.
        done(unsafe { sys::cuMemFreeAsync(address, stream::null()) });
    }

    pub(crate) fn pinned(bytes: usize) -> *mut c_void {
        enter();
        let mut out = ptr::null_mut();
        // SAFETY: the call writes the address to a local variable.
        done(unsafe { sys::cuMemHostAlloc(&mut out, bytes, 0) });
        out
    }

    pub(crate) fn free_pinned(start: *mut c_void) {
        enter();
        // SAFETY: the driver refuses an address that it did not hand out.
        done(unsafe { sys::cuMemFreeHost(start) });
    }

    /// Like [`free_pinned`], but returns an error instead of panicking.
    pub(crate) fn try_free_pinned(start: *mut c_void) -> Result<(), DriverError> {
        enter();
        // SAFETY: the driver refuses an address that it did not hand out.
        unsafe { sys::cuMemFreeHost(start) }.result()
    }

    pub(crate) fn register(buffer: &mut [u8]) {
        enter();
        let start = buffer.as_mut_ptr().cast();
        // SAFETY: the stand-in never accesses the memory.
        done(unsafe { sys::cuMemHostRegister_v2(start, buffer.len(), 0) });
    }

    pub(crate) fn create_page() -> u64 {
        // SAFETY: zero is a valid value of every field.
        let mut properties: sys::CUmemAllocationProp =
            unsafe { MaybeUninit::zeroed().assume_init() };
        properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        enter();
        let mut out = 0;
        // SAFETY: the call only reads the properties.
        done(unsafe { sys::cuMemCreate(&mut out, PAGE, &raw const properties, 0) });
        out
    }

    pub(crate) fn release_page(page: u64) {
        enter();
        // SAFETY: the caller created the memory and no longer uses it.
        done(unsafe { sys::cuMemRelease(page) });
    }

    pub(crate) fn create_stream() -> sys::CUstream {
        enter();
        let mut out = ptr::null_mut();
        // SAFETY: the call writes the handle to a local variable.
        done(unsafe { sys::cuStreamCreate(&mut out, 0) });
        out
    }

    pub(crate) fn destroy_stream(stream: sys::CUstream) {
        enter();
        // SAFETY: the caller created the stream and no longer uses it.
        done(unsafe { sys::cuStreamDestroy_v2(stream) });
    }

    pub(crate) fn create_event() -> sys::CUevent {
        enter();
        let mut out = ptr::null_mut();
        // SAFETY: the call writes the handle to a local variable.
        done(unsafe { sys::cuEventCreate(&mut out, 0) });
        out
    }

    pub(crate) fn destroy_event(event: sys::CUevent) {
        enter();
        // SAFETY: the caller created the event and no longer uses it.
        done(unsafe { sys::cuEventDestroy_v2(event) });
    }

    pub(crate) fn load_module() -> sys::CUmodule {
        enter();
        let mut out = ptr::null_mut();
        // SAFETY: the image is a C string.
        done(unsafe { sys::cuModuleLoadData(&mut out, IMAGE.as_ptr().cast()) });
        out
    }

    pub(crate) fn unload_module(module: sys::CUmodule) {
        enter();
        // SAFETY: the caller loaded the module and no longer uses it.
        done(unsafe { sys::cuModuleUnload(module) });
    }

    pub(crate) fn create_graph() -> sys::CUgraph {
        enter();
        let mut out = ptr::null_mut();
        // SAFETY: the call has no flags, and writes to a local variable.
        done(unsafe { sys::cuGraphCreate(&mut out, 0) });
        out
    }

    pub(crate) fn destroy_graph(graph: sys::CUgraph) {
        enter();
        // SAFETY: the caller created the graph and no longer uses it.
        done(unsafe { sys::cuGraphDestroy(graph) });
    }

    pub(crate) fn instantiate(graph: sys::CUgraph) -> sys::CUgraphExec {
        enter();
        let mut out = ptr::null_mut();
        // SAFETY: the graph is live.
        done(unsafe { sys::cuGraphInstantiateWithFlags(&mut out, graph, 0) });
        out
    }

    pub(crate) fn launch(executable: sys::CUgraphExec) {
        enter();
        // SAFETY: the executable graph and the null stream are live.
        done(unsafe { sys::cuGraphLaunch(executable, stream::null()) });
    }

    pub(crate) fn destroy_executable(executable: sys::CUgraphExec) {
        enter();
        // SAFETY: the caller created the executable graph and no longer uses it.
        done(unsafe { sys::cuGraphExecDestroy(executable) });
    }

    /// Creates a one-dimensional array of floats.
    pub(crate) fn create_array(length: usize) -> sys::CUarray {
        let description = sys::CUDA_ARRAY_DESCRIPTOR {
            Width: length,
            Height: 0,
            Format: sys::CUarray_format::CU_AD_FORMAT_FLOAT,
            NumChannels: 1,
        };
        enter();
        let mut out = ptr::null_mut();
        // SAFETY: the call only reads the description.
        done(unsafe { sys::cuArrayCreate_v2(&mut out, &raw const description) });
        out
    }
}
