//! The driver calls whose cost is measured.

#![expect(unsafe_code, reason = "calls the driver's C functions")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use cudarc::driver::sys;

/// An empty kernel, for the oldest GPUs that current drivers support.
const KERNEL: &CStr = c".version 6.3
.target sm_75
.address_size 64
.visible .entry empty() { ret; }
";

/// The number of times the program allocates, launches and frees.
const ROUNDS: u32 = 2500;
/// The size of each allocation.
const BYTES: usize = 1 << 20;

/// The first device, with its primary context current on this thread.
#[derive(Debug)]
pub(crate) struct Device {
    name: String,
    version: c_int,
    kernel: sys::CUfunction,
    context: sys::CUcontext,
}

// SAFETY: the driver's handles of a context and of a kernel can be used on any thread.
unsafe impl Sync for Device {}

/// An event from [`Device::event`].
#[derive(Debug)]
pub(crate) struct Event(sys::CUevent);

fn check(result: sys::CUresult) {
    assert_eq!(result, sys::CUresult::CUDA_SUCCESS, "a call to the driver");
}

impl Device {
    /// Opens the device. Its pool keeps freed memory, so that the next allocation reuses it.
    pub(crate) fn open() -> Self {
        let (mut device, mut version, mut context) = (0, 0, ptr::null_mut());
        let mut name = [0_u8; 128];
        let (mut pool, mut keep) = (ptr::null_mut(), u64::MAX);
        let (mut module, mut kernel) = (ptr::null_mut(), ptr::null_mut());
        let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: every pointer is to a local variable of the type that the call fills or reads,
        // and every string ends with a zero byte.
        unsafe {
            check(sys::cuInit(0));
            check(sys::cuDriverGetVersion(&raw mut version));
            check(sys::cuDeviceGet(&raw mut device, 0));
            let length = name.len() as c_int;
            check(sys::cuDeviceGetName(
                name.as_mut_ptr().cast(),
                length,
                device,
            ));
            check(sys::cuDevicePrimaryCtxRetain(&raw mut context, device));
            check(sys::cuCtxSetCurrent(context));
            check(sys::cuDeviceGetDefaultMemPool(&raw mut pool, device));
            let value = (&raw mut keep).cast::<c_void>();
            check(sys::cuMemPoolSetAttribute(pool, threshold, value));
            check(sys::cuModuleLoadData(
                &raw mut module,
                KERNEL.as_ptr().cast(),
            ));
            check(sys::cuModuleGetFunction(
                &raw mut kernel,
                module,
                c"empty".as_ptr(),
            ));
        }
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Self {
            name: name.to_string_lossy().into_owned(),
            version,
            kernel,
            context,
        }
    }

    /// The name of the device, and the CUDA version of its driver.
    pub(crate) fn description(&self) -> String {
        let (major, minor) = (self.version / 1000, self.version % 1000 / 10);
        format!("{}, driver for CUDA {major}.{minor}", self.name)
    }

    /// Allocates from the device's pool and frees the memory.
    pub(crate) fn pool_pair(&self) {
        let mut pointer = 0;
        // SAFETY: the call writes an address to a local variable. The memory is freed and never
        // used.
        unsafe {
            check(sys::cuMemAllocAsync(
                &raw mut pointer,
                BYTES,
                ptr::null_mut(),
            ));
            check(sys::cuMemFreeAsync(pointer, ptr::null_mut()));
        }
    }

    /// Makes the context current on this thread, as it is on the thread that opened the device.
    pub(crate) fn enter(&self) {
        // SAFETY: the primary context is retained.
        check(unsafe { sys::cuCtxSetCurrent(self.context) });
    }

    /// Like [`Self::pool_pair`], but on the default stream of the calling thread. Runs
    /// `before_call` before each call.
    pub(crate) fn pair_of_thread(&self, before_call: impl Fn()) {
        /// `CU_STREAM_PER_THREAD`
        const PER_THREAD: usize = 2;
        let (mut pointer, stream) = (0, ptr::without_provenance_mut(PER_THREAD));
        // SAFETY: the call writes an address to a local variable. The memory is freed and never
        // used.
        unsafe {
            before_call();
            check(sys::cuMemAllocAsync(&raw mut pointer, BYTES, stream));
            before_call();
            check(sys::cuMemFreeAsync(pointer, stream));
        }
    }

    pub(crate) fn event_pair(&self) {
        self.destroy(self.event());
    }

    pub(crate) fn event(&self) -> Event {
        let mut event = ptr::null_mut();
        // SAFETY: the call writes a handle to a local variable.
        check(unsafe { sys::cuEventCreate(&raw mut event, 0) });
        Event(event)
    }

    pub(crate) fn destroy(&self, event: Event) {
        // SAFETY: `event` is not used any longer.
        check(unsafe { sys::cuEventDestroy_v2(event.0) });
    }

    /// Allocates, launches and frees repeatedly.
    pub(crate) fn program(&self) {
        for _ in 0..ROUNDS {
            let mut pointer = 0;
            // SAFETY: the address is written to a local variable; the kernel takes no parameters
            // and touches no memory; the allocation is freed and never used.
            unsafe {
                check(sys::cuMemAlloc_v2(&raw mut pointer, BYTES));
                self.launch();
                check(sys::cuMemFree_v2(pointer));
            }
        }
        self.synchronize();
    }

    fn launch(&self) {
        let none = ptr::null_mut();
        // SAFETY: the module of the kernel stays loaded, and the kernel takes no parameters.
        let result = unsafe {
            sys::cuLaunchKernel(
                self.kernel,
                1,
                1,
                1,
                1,
                1,
                1,
                0,
                ptr::null_mut(),
                ptr::null_mut(),
                none,
            )
        };
        check(result);
    }

    /// Waits until the device has finished all work.
    pub(crate) fn synchronize(&self) {
        // SAFETY: a context is current on this thread.
        check(unsafe { sys::cuCtxSynchronize() });
    }
}
