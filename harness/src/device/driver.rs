//! The functions of libcuda that the harness calls, resolved by hand.
//!
//! Signatures are those of the
//! [driver API's documentation](https://docs.nvidia.com/cuda/cuda-driver-api/). A driver may lack
//! the newer ones: the methods then answer with [`NOT_FOUND`].
//!
//! `CUdevice` is an int whose value is the device's ordinal, here a `usize`.

#![expect(unsafe_code, reason = "the driver's interface is C")]

use std::env;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::dl::{self, Library};
use super::exit;
use crate::ledger::event::CuResult;

/// `CUDA_ERROR_NOT_FOUND`: what a function that this driver lacks returns here.
pub(crate) const NOT_FOUND: CuResult = 500;

/// Declares the table of functions, each under the name its symbol has.
macro_rules! functions {
    ($($field:ident: $symbol:literal, fn($($argument:ty),*);)*) => {
        #[derive(Debug)]
        struct Functions {
            $($field: Option<unsafe extern "C" fn($($argument),*) -> CuResult>,)*
        }

        impl Functions {
            fn of(library: &Library) -> Self {
                Self {
                    // SAFETY: the signatures are the documented ones of these symbols; a symbol
                    // with another signature has another name (`_v2`), in every driver.
                    $($field: unsafe { library.function($symbol) },)*
                }
            }
        }
    };
}

functions! {
    initialise: c"cuInit", fn(c_uint);
    version: c"cuDriverGetVersion", fn(*mut c_int);
    error_name: c"cuGetErrorName", fn(CuResult, *mut *const c_char);
    device_count: c"cuDeviceGetCount", fn(*mut c_int);
    device_name: c"cuDeviceGetName", fn(*mut c_char, c_int, c_int);
    device_uuid: c"cuDeviceGetUuid_v2", fn(*mut [u8; 16], c_int);
    primary_state: c"cuDevicePrimaryCtxGetState", fn(c_int, *mut c_uint, *mut c_int);
    current_context: c"cuCtxGetCurrent", fn(*mut *mut c_void);
    current_device: c"cuCtxGetDevice", fn(*mut c_int);
    push_context: c"cuCtxPushCurrent_v2", fn(*mut c_void);
    pop_context: c"cuCtxPopCurrent_v2", fn(*mut *mut c_void);
    synchronise_context: c"cuCtxSynchronize", fn();
    stream_is_capturing: c"cuStreamIsCapturing", fn(*mut c_void, *mut c_int);
    capture: c"cuStreamGetCaptureInfo_v2",
        fn(*mut c_void, *mut c_int, *mut u64, *mut *mut c_void, *mut *const c_void, *mut usize);
    capture_per_thread: c"cuStreamGetCaptureInfo_v2_ptsz",
        fn(*mut c_void, *mut c_int, *mut u64, *mut *mut c_void, *mut *const c_void, *mut usize);
    address_range: c"cuMemGetAddressRange_v2", fn(*mut u64, *mut usize, u64);
    synchronise_stream: c"cuStreamSynchronize", fn(*mut c_void);
    default_pool: c"cuDeviceGetDefaultMemPool", fn(*mut *mut c_void, c_int);
    current_pool: c"cuDeviceGetMemPool", fn(*mut *mut c_void, c_int);
    pool_attribute: c"cuMemPoolGetAttribute", fn(*mut c_void, c_int, *mut c_void);
    set_pool_attribute: c"cuMemPoolSetAttribute", fn(*mut c_void, c_int, *mut c_void);
    trim_pool: c"cuMemPoolTrimTo", fn(*mut c_void, usize);
    graph_attribute: c"cuDeviceGetGraphMemAttribute", fn(c_int, c_int, *mut c_void);
    trim_graphs: c"cuDeviceGraphMemTrim", fn(c_int);
    memory_info: c"cuMemGetInfo_v2", fn(*mut usize, *mut usize);
    limit: c"cuCtxGetLimit", fn(*mut usize, c_int);
    device_attribute: c"cuDeviceGetAttribute", fn(*mut c_int, c_int, c_int);
}

/// The driver in this process.
#[derive(Debug)]
pub(crate) struct Driver {
    functions: Functions,
}

/// The driver of this process, once it was [found](find).
static DRIVER: OnceLock<Driver> = OnceLock::new();

impl Driver {
    fn of(library: &Library) -> Self {
        exit::install();
        Self {
            functions: Functions::of(library),
        }
    }
}

/// Finds the driver, if it is in the process.
pub(crate) fn find() {
    let is_libcuda = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libcuda.so")
    };
    if DRIVER.get().is_none()
        && let Some(path) = dl::modules().into_iter().find(is_libcuda)
        && let Some(library) = Library::loaded(&path)
    {
        DRIVER.get_or_init(|| Driver::of(&library));
    }
}

/// As [`find`]; brings the driver into the process where it is not there yet.
///
/// # Errors
///
/// Why there is none, in the loader's words.
pub(crate) fn load() -> Result<&'static Driver, String> {
    find();
    if DRIVER.get().is_none() {
        let searched = env::var("LD_LIBRARY_PATH").unwrap_or_default();
        let mut tried = candidates(&searched)
            .into_iter()
            .map(|path| Library::open(&path));
        // The first refusal is about the driver's own name.
        let first = tried.next().unwrap_or_else(|| Err(String::new()));
        let library = first.or_else(|why| tried.find_map(Result::ok).ok_or(why))?;
        DRIVER.get_or_init(|| Driver::of(&library));
    }
    DRIVER.get().ok_or_else(String::new)
}

/// What to open as the driver, the best first: its name, which the loader searches for, unless an entry of
/// the loader's search path is empty or relative. Such a one means the working folder, and the harness is
/// not to load what somebody has put there; then it is the folders of the path that have a place, and the
/// system's.
fn candidates(searched: &str) -> Vec<PathBuf> {
    const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
    const SYSTEM: [&str; 5] = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib/wsl/lib",
        "/usr/local/nvidia/lib64",
    ];
    let is_absolute = |entry: &&str| Path::new(entry).is_absolute();
    let entries = || searched.split([':', ';']);
    if searched.is_empty() || entries().all(|entry| is_absolute(&entry)) {
        return NAMES.map(PathBuf::from).to_vec();
    }
    let folders = entries().filter(is_absolute).chain(SYSTEM);
    let folders = folders.map(Path::new);
    let files = folders.flat_map(|folder| NAMES.map(|name| folder.join(name)));
    files.collect()
}

/// The driver, once it was [found](find) and as long as it may be called.
pub(crate) fn get() -> Option<&'static Driver> {
    let driver = DRIVER.get()?;
    exit::may_call_driver().then_some(driver)
}

/// A pool attribute: `CUmemPool_attribute`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PoolAttribute {
    /// `CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT`
    Reserved = 5,
    /// `CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH`: the most since it was last restarted.
    MostReserved = 6,
    /// `CU_MEMPOOL_ATTR_USED_MEM_CURRENT`
    Used = 7,
}

/// An attribute of a device's graph memory: `CUgraphMem_attribute`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GraphAttribute {
    /// `CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT`
    Used = 0,
    /// `CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT`
    Reserved = 2,
}

/// A size that a context has set apart on its device: `CUlimit`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// `CU_LIMIT_STACK_SIZE`: local memory of one thread. The driver raises it by itself when a
    /// kernel needs more, and never lowers it.
    Stack = 0,
    /// `CU_LIMIT_PRINTF_FIFO_SIZE`
    Printf = 1,
    /// `CU_LIMIT_MALLOC_HEAP_SIZE`
    Heap = 2,
}

/// What a device is like: `CUdevice_attribute`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeviceAttribute {
    /// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`
    Multiprocessors = 16,
    /// `CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR`
    ThreadsPerMultiprocessor = 39,
}

/// A `CUdevice`.
fn device_handle(ordinal: usize) -> c_int {
    c_int::try_from(ordinal).unwrap_or(c_int::MAX)
}

/// A handle as the ledger keeps it, as C has it.
fn pointer(handle: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(handle as usize)
}

/// A handle as C has it, as the ledger keeps it.
fn number(handle: *mut c_void) -> u64 {
    handle.expose_provenance() as u64
}

/// Calls a function of the table; one that is missing answers [`NOT_FOUND`].
macro_rules! call {
    ($self:ident.$field:ident($($argument:expr),*)) => {
        match $self.functions.$field {
            // SAFETY: said by each method.
            Some(function) => match unsafe { function($($argument),*) } {
                0 => Ok(()),
                error => Err(error),
            },
            None => Err(NOT_FOUND),
        }
    };
}

/// Every method returns the driver's own result as its error.
///
/// Safe ones pass only out-pointers to their own locals and device ordinals, which the driver
/// checks. Those that take the handle of a context, pool or stream are unsafe: the driver does not
/// say what it does with one that is no longer live.
impl Driver {
    /// `cuInit`. Creates no context.
    pub(crate) fn initialise(&self) -> Result<(), CuResult> {
        call!(self.initialise(0))
    }

    /// The CUDA version it supports, as 1000 × major + 10 × minor. Needs no initialisation.
    pub(crate) fn version(&self) -> Result<u32, CuResult> {
        let mut version = 0;
        call!(self.version(&raw mut version))?;
        Ok(u32::try_from(version).unwrap_or(0))
    }

    /// The name of an error; none for a number that this driver does not know.
    pub(crate) fn error_name(&self, error: CuResult) -> Option<&'static str> {
        let mut name = std::ptr::null();
        call!(self.error_name(error, &raw mut name)).ok()?;
        if name.is_null() {
            return None;
        }
        // SAFETY: a successful call sets the address of a constant of the driver, which stays in
        // the process.
        unsafe { CStr::from_ptr(name) }.to_str().ok()
    }

    /// The number of devices. An error before anybody has called `cuInit`.
    pub(crate) fn device_count(&self) -> Result<usize, CuResult> {
        let mut count = 0;
        call!(self.device_count(&raw mut count))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// The device's name for people.
    pub(crate) fn device_name(&self, device: usize) -> Result<String, CuResult> {
        let mut name = [0_u8; 256];
        let length = name.len() as c_int;
        call!(self.device_name(name.as_mut_ptr().cast(), length, device_handle(device)))?;
        let text = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    /// The device's own number, or that of the MIG slice which stands for it.
    pub(crate) fn device_uuid(&self, device: usize) -> Result<[u8; 16], CuResult> {
        let mut uuid = [0; 16];
        call!(self.device_uuid(&raw mut uuid, device_handle(device)))?;
        Ok(uuid)
    }

    /// Whether the device's primary context is live. Does not create it.
    pub(crate) fn primary_is_active(&self, device: usize) -> Result<bool, CuResult> {
        let (mut flags, mut active) = (0, 0);
        call!(self.primary_state(device_handle(device), &raw mut flags, &raw mut active))?;
        Ok(active != 0)
    }

    /// One of the device's properties; 0 where the driver does not tell.
    pub(crate) fn device_attribute(&self, device: usize, attribute: DeviceAttribute) -> u64 {
        let mut value = 0;
        let asked =
            call!(self.device_attribute(&raw mut value, attribute as c_int, device_handle(device)));
        asked.map_or(0, |()| u64::try_from(value).unwrap_or(0))
    }

    /// The handle of the context current to this thread; 0 for none.
    pub(crate) fn current_context(&self) -> Result<u64, CuResult> {
        let mut context = std::ptr::null_mut();
        call!(self.current_context(&raw mut context))?;
        Ok(number(context))
    }

    /// The device of that context.
    pub(crate) fn current_device(&self) -> Result<i32, CuResult> {
        let mut device = 0;
        call!(self.current_device(&raw mut device))?;
        Ok(device)
    }

    /// The graph that a stream of the current context is captured into, 0 for one without a name; none
    /// where it is not being captured. `per_thread` says whose stream 0 is: the thread's own or the
    /// context's.
    ///
    /// # Safety
    ///
    /// As for [`Self::stream_is_capturing`].
    pub(crate) unsafe fn captured_into(
        &self,
        stream: u64,
        per_thread: bool,
    ) -> Result<Option<u64>, CuResult> {
        let (mut status, mut id, mut count) = (0, 0, 0);
        let (mut graph, mut dependencies) = (std::ptr::null_mut(), std::ptr::null());
        let (status_out, id_out, count_out) = (&raw mut status, &raw mut id, &raw mut count);
        let (graph_out, nodes_out) = (&raw mut graph, &raw mut dependencies);
        let stream = pointer(stream);
        if per_thread {
            call!(
                self.capture_per_thread(
                    stream, status_out, id_out, graph_out, nodes_out, count_out
                )
            )?;
        } else {
            call!(self.capture(stream, status_out, id_out, graph_out, nodes_out, count_out))?;
        }
        Ok((status != 0).then(|| number(graph)))
    }

    /// The bytes of the range of memory that `address` lies in, from there on.
    pub(crate) fn bytes_at(&self, address: u64) -> Result<u64, CuResult> {
        let (mut base, mut size) = (0, 0);
        call!(self.address_range(&raw mut base, &raw mut size, address))?;
        Ok((size as u64).saturating_sub(address.saturating_sub(base)))
    }

    /// Runs `body` with a context current to this thread; afterwards the one before is again.
    ///
    /// # Safety
    ///
    /// `context` is the handle of a context that stays live meanwhile.
    pub(crate) unsafe fn in_context<T>(
        &self,
        context: u64,
        body: impl FnOnce(Current<'_>) -> Result<T, CuResult>,
    ) -> Result<T, CuResult> {
        call!(self.push_context(pointer(context)))?;
        let outcome = body(Current(self));
        let mut popped = std::ptr::null_mut();
        call!(self.pop_context(&raw mut popped)).and(outcome)
    }

    /// Waits for the work of the current context.
    pub(crate) fn synchronise_context(&self) -> Result<(), CuResult> {
        call!(self.synchronise_context())
    }

    /// Whether a stream of the current context is being captured.
    ///
    /// # Safety
    ///
    /// `stream` is 1 (`CU_STREAM_LEGACY`), 2 (`CU_STREAM_PER_THREAD`) or a stream that stays live
    /// meanwhile.
    pub(crate) unsafe fn stream_is_capturing(&self, stream: u64) -> Result<bool, CuResult> {
        let mut status = 0;
        call!(self.stream_is_capturing(pointer(stream), &raw mut status))?;
        Ok(status != 0)
    }

    /// Waits for the work of a stream.
    ///
    /// # Safety
    ///
    /// As for [`Self::stream_is_capturing`].
    pub(crate) unsafe fn synchronise_stream(&self, stream: u64) -> Result<(), CuResult> {
        call!(self.synchronise_stream(pointer(stream)))
    }

    /// The handle of the device's default pool, which nobody can destroy.
    pub(crate) fn default_pool(&self, device: usize) -> Result<u64, CuResult> {
        let mut pool = std::ptr::null_mut();
        call!(self.default_pool(&raw mut pool, device_handle(device)))?;
        Ok(number(pool))
    }

    /// The handle of the pool that stream-ordered allocations on the device come from.
    pub(crate) fn current_pool(&self, device: usize) -> Result<u64, CuResult> {
        let mut pool = std::ptr::null_mut();
        call!(self.current_pool(&raw mut pool, device_handle(device)))?;
        Ok(number(pool))
    }

    /// One figure of a pool, in bytes.
    ///
    /// # Safety
    ///
    /// `pool` stays live meanwhile.
    pub(crate) unsafe fn pool_attribute(
        &self,
        pool: u64,
        attribute: PoolAttribute,
    ) -> Result<u64, CuResult> {
        let mut value = 0_u64;
        let out = (&raw mut value).cast();
        call!(self.pool_attribute(pointer(pool), attribute as c_int, out))?;
        Ok(value)
    }

    /// Lets the figure of [`PoolAttribute::MostReserved`] begin anew at what is reserved now.
    ///
    /// # Safety
    ///
    /// The pool is live.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub(crate) unsafe fn restart_most_reserved(&self, pool: u64) -> Result<(), CuResult> {
        // The one value that the driver takes.
        let mut zero = 0_u64;
        let value = (&raw mut zero).cast();
        let attribute = PoolAttribute::MostReserved as c_int;
        call!(self.set_pool_attribute(pointer(pool), attribute, value))
    }

    /// Gives back what the pool holds and nobody uses.
    ///
    /// # Safety
    ///
    /// `pool` stays live meanwhile.
    pub(crate) unsafe fn trim_pool(&self, pool: u64) -> Result<(), CuResult> {
        call!(self.trim_pool(pointer(pool), 0))
    }

    /// One figure of the device's graph memory, in bytes.
    pub(crate) fn graph_attribute(
        &self,
        device: usize,
        attribute: GraphAttribute,
    ) -> Result<u64, CuResult> {
        let mut value = 0_u64;
        let out = (&raw mut value).cast();
        call!(self.graph_attribute(device_handle(device), attribute as c_int, out))?;
        Ok(value)
    }

    /// Gives back the device's graph memory that no graph uses.
    pub(crate) fn trim_graphs(&self, device: usize) -> Result<(), CuResult> {
        call!(self.trim_graphs(device_handle(device)))
    }
}

/// A live context is current to this thread. [`Driver::in_context`] alone hands one out, so that
/// what is asked of a context never needs one to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Current<'driver>(&'driver Driver);

impl Current<'_> {
    /// The bytes of the whole device that are free, and all it has.
    pub(crate) fn memory_info(self) -> Result<(u64, u64), CuResult> {
        let Self(driver) = self;
        let (mut free, mut total) = (0, 0);
        call!(driver.memory_info(&raw mut free, &raw mut total))?;
        Ok((free as u64, total as u64))
    }

    /// A size that the context has set apart, in bytes; 0 where the driver does not tell.
    pub(crate) fn limit(self, limit: Limit) -> u64 {
        let Self(driver) = self;
        let mut value = 0;
        let asked = call!(driver.limit(&raw mut value, limit as c_int));
        asked.map_or(0, |()| value as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::candidates;

    #[test]
    fn nothing_is_looked_for_in_the_working_folder() {
        for plain in ["", "/opt/cuda/lib64", "/opt/a:/opt/b"] {
            assert_eq!(candidates(plain)[0], Path::new("libcuda.so.1"), "{plain}");
        }
        for odd in [
            ":",
            "/opt/a:",
            ":/opt/a",
            "lib:/opt/a",
            "/opt/a::/opt/b",
            "./lib",
        ] {
            let all = candidates(odd);
            assert!(all.iter().all(|path| path.is_absolute()), "{odd}: {all:?}");
            let has_a = all.contains(&Path::new("/opt/a/libcuda.so.1").to_owned());
            assert_eq!(has_a, odd.contains("/opt/a"), "{odd}");
        }
    }
}
