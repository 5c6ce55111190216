//! The functions of libcuda that the harness calls, resolved by hand.
//!
//! Signatures are those of the [driver API's
//! documentation](https://docs.nvidia.com/cuda/cuda-driver-api/), with every handle as the `u64`
//! that the ledger stores, which every CUDA platform passes like a pointer. A driver may lack the
//! newer functions: the methods then return [`NOT_FOUND`].
//!
//! `CUdevice` is an int whose value is the device's ordinal, here a `usize`.

#![expect(unsafe_code, reason = "the driver's interface is C")]

use std::env;
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::dl::{self, Library};
use super::exit;
use crate::ledger::event::CuResult;
use crate::recursion_guard::quiet;
use gpu_leak_core::ledger::sticky_error;

/// `CUDA_ERROR_NOT_FOUND`: the result of a function that this driver lacks.
pub(crate) const NOT_FOUND: CuResult = 500;

/// Defines [`Driver`] from a table of its functions: what each is called here, its symbol and its
/// parameters.
macro_rules! functions {
    ($($(#[$what:meta])* $name:ident = $symbol:literal($($parameter:ty),*),)*) => {
        /// The driver's functions; an older driver lacks some of them.
        #[derive(Debug, Default)]
        pub(crate) struct Driver {
            $(
                $(#[$what])*
                pub(crate) $name: Option<unsafe extern "C" fn($($parameter),*) -> CuResult>,
            )*
        }

        impl Driver {
            fn of(library: &Library) -> Self {
                exit::install();
                // SAFETY: the signatures are the documented ones; in every driver, a symbol with
                // another signature has another name (`_v2`).
                unsafe { Self { $($name: library.function($symbol),)* } }
            }
        }
    };
}

functions! {
    initialise = c"cuInit"(c_uint),
    version = c"cuDriverGetVersion"(*mut u32),
    error_name = c"cuGetErrorName"(CuResult, *mut *const c_char),
    device_count = c"cuDeviceGetCount"(*mut u32),
    device_name = c"cuDeviceGetName"(*mut c_char, c_int, c_int),
    device_uuid = c"cuDeviceGetUuid_v2"(*mut [u8; 16], c_int),
    device_attribute = c"cuDeviceGetAttribute"(*mut c_int, c_int, c_int),
    primary_state = c"cuDevicePrimaryCtxGetState"(c_int, *mut c_uint, *mut c_int),
    current_context = c"cuCtxGetCurrent"(*mut u64),
    current_device = c"cuCtxGetDevice"(*mut c_int),
    push_context = c"cuCtxPushCurrent_v2"(u64),
    pop_context = c"cuCtxPopCurrent_v2"(*mut u64),
    synchronise_context = c"cuCtxSynchronize"(),
    stream_is_capturing = c"cuStreamIsCapturing"(u64, *mut c_int),
    synchronise_stream = c"cuStreamSynchronize"(u64),
    /// Stream, status, id of the capture, graph, dependencies and their number.
    capture = c"cuStreamGetCaptureInfo_v2"(
        u64, *mut c_int, *mut u64, *mut u64, *mut u64, *mut usize
    ),
    /// Like `capture`, where stream 0 is the thread's own.
    capture_per_thread = c"cuStreamGetCaptureInfo_v2_ptsz"(
        u64, *mut c_int, *mut u64, *mut u64, *mut u64, *mut usize
    ),
    address_range = c"cuMemGetAddressRange_v2"(*mut u64, *mut usize, u64),
    default_pool = c"cuDeviceGetDefaultMemPool"(*mut u64, c_int),
    current_pool = c"cuDeviceGetMemPool"(*mut u64, c_int),
    pool_attribute = c"cuMemPoolGetAttribute"(u64, c_int, *mut u64),
    set_pool_attribute = c"cuMemPoolSetAttribute"(u64, c_int, *mut u64),
    trim_pool = c"cuMemPoolTrimTo"(u64, usize),
    graph_attribute = c"cuDeviceGetGraphMemAttribute"(c_int, c_int, *mut u64),
    trim_graphs = c"cuDeviceGraphMemTrim"(c_int),
    memory_info = c"cuMemGetInfo_v2"(*mut usize, *mut usize),
    limit = c"cuCtxGetLimit"(*mut usize, c_int),
}

/// The driver of this process, once it has been [found](find).
static DRIVER: OnceLock<Driver> = OnceLock::new();

/// Finds the driver if it is loaded in the process.
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

/// Like [`find`], but loads the driver if necessary.
///
/// # Errors
///
/// The loader's message.
pub(crate) fn load() -> Result<&'static Driver, String> {
    find();
    if DRIVER.get().is_none() {
        let searched = env::var("LD_LIBRARY_PATH").unwrap_or_default();
        let tried = candidates(&searched);
        let mut tried = tried.iter().map(|path| Library::open(path));
        // The first error is about the driver's usual name.
        let first = tried.next().unwrap_or_else(|| Err(String::new()));
        let library = first.or_else(|why| tried.find_map(Result::ok).ok_or(why))?;
        DRIVER.get_or_init(|| Driver::of(&library));
    }
    DRIVER.get().ok_or_else(String::new)
}

/// Returns what to open as the driver, best first: its name, for which the loader searches, unless
/// an entry of the loader's search path is empty or relative. Such an entry means the working
/// directory, from which the harness must not load a file that somebody may have put there. In that
/// case the absolute directories of the path and the system's directories are returned.
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
    let directories = entries().filter(is_absolute).chain(SYSTEM);
    let directories = directories.map(Path::new);
    let files = directories.flat_map(|directory| NAMES.map(|name| directory.join(name)));
    files.collect()
}

/// Returns the driver, if it has been [found](find) and may be called.
pub(crate) fn get() -> Option<&'static Driver> {
    DRIVER.get().filter(|_| exit::may_call_driver())
}

/// Returns the driver's name of an error: `CUDA_ERROR_OUT_OF_MEMORY`, or `CUresult 2` if no driver
/// can be asked and it is not one that breaks contexts.
pub(crate) fn error_name(error: CuResult) -> String {
    let _quiet = quiet();
    let name = get().and_then(|driver| driver.error_name(error));
    let name = name.or_else(|| sticky_error(error));
    name.map_or_else(|| format!("CUresult {error}"), str::to_owned)
}

/// Converts an ordinal to a `CUdevice`.
fn device_handle(ordinal: usize) -> c_int {
    c_int::try_from(ordinal).unwrap_or(c_int::MAX)
}

/// Calls a function; a missing one returns [`NOT_FOUND`].
macro_rules! call {
    ($driver:ident.$function:ident($($argument:expr),*)) => {
        match $driver.$function {
            // SAFETY: each method states why.
            Some(function) => match unsafe { function($($argument),*) } {
                0 => Ok(()),
                error => Err(error),
            },
            None => Err(NOT_FOUND),
        }
    };
}

/// Returns what a call writes to the pointer that it gets.
fn answer<T: Default>(call: impl FnOnce(*mut T) -> Result<(), CuResult>) -> Result<T, CuResult> {
    let mut answer = T::default();
    call(&raw mut answer)?;
    Ok(answer)
}

/// The methods return the driver's own result as their error.
///
/// Safe methods pass only device ordinals, which the driver checks, and pointers to local
/// variables. Methods that take the handle of a context, pool or stream are unsafe, because the
/// driver does not define what happens if the object has been destroyed.
impl Driver {
    /// `cuInit`, which creates no context.
    pub(crate) fn initialise(&self) -> Result<(), CuResult> {
        call!(self.initialise(0))
    }

    /// Returns the supported CUDA version as 1000 × major + 10 × minor. Needs no initialisation.
    pub(crate) fn version(&self) -> Result<u32, CuResult> {
        answer(|version| call!(self.version(version)))
    }

    /// Returns the name of an error; `None` if this driver does not know it.
    fn error_name(&self, error: CuResult) -> Option<&'static str> {
        let mut name = std::ptr::null();
        call!(self.error_name(error, &raw mut name)).ok()?;
        // SAFETY: a successful call sets the address of a constant of the driver, which is never
        // unloaded.
        let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
        name?.to_str().ok()
    }

    /// Returns the number of devices. Fails before `cuInit`.
    pub(crate) fn device_count(&self) -> Result<usize, CuResult> {
        Ok(answer(|count| call!(self.device_count(count)))? as usize)
    }

    /// Returns the device's name for people.
    pub(crate) fn device_name(&self, device: usize) -> Result<String, CuResult> {
        let mut name = [0_u8; 256];
        let length = name.len() as c_int;
        call!(self.device_name(name.as_mut_ptr().cast(), length, device_handle(device)))?;
        let text = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    /// Returns the UUID of the device, or of the MIG slice that represents it.
    pub(crate) fn device_uuid(&self, device: usize) -> Result<[u8; 16], CuResult> {
        answer(|uuid| call!(self.device_uuid(uuid, device_handle(device))))
    }

    /// Returns an attribute of the device by its `CUdevice_attribute`; 0 if the driver does not
    /// provide it.
    pub(crate) fn device_attribute(&self, device: usize, attribute: c_int) -> u64 {
        let device = device_handle(device);
        let asked = answer(|value| call!(self.device_attribute(value, attribute, device)));
        asked.map_or(0, |value| u64::try_from(value).unwrap_or(0))
    }

    /// Whether the device's primary context is active. Does not create it.
    pub(crate) fn primary_is_active(&self, device: usize) -> Result<bool, CuResult> {
        let (mut flags, device) = (0, device_handle(device));
        Ok(answer(|active| call!(self.primary_state(device, &raw mut flags, active)))? != 0)
    }

    /// Returns the handle of the context current to this thread, or 0.
    pub(crate) fn current_context(&self) -> Result<u64, CuResult> {
        answer(|context| call!(self.current_context(context)))
    }

    /// Returns the device of that context.
    pub(crate) fn current_device(&self) -> Result<i32, CuResult> {
        answer(|device| call!(self.current_device(device)))
    }

    /// Returns the graph into which a stream of the current context is captured, 0 if it has no
    /// handle yet, or `None` if the stream is not being captured. `per_thread`: whether stream 0 is
    /// the thread's own, not the context's.
    ///
    /// # Safety
    ///
    /// As for [`Self::stream_is_capturing`].
    pub(crate) unsafe fn captured_into(
        &self,
        stream: u64,
        per_thread: bool,
    ) -> Result<Option<u64>, CuResult> {
        let (mut status, mut id, mut graph, mut nodes, mut count) = (0, 0, 0, 0, 0);
        let (status_out, id, graph_out) = (&raw mut status, &raw mut id, &raw mut graph);
        let (nodes, count) = (&raw mut nodes, &raw mut count);
        if per_thread {
            call!(self.capture_per_thread(stream, status_out, id, graph_out, nodes, count))?;
        } else {
            call!(self.capture(stream, status_out, id, graph_out, nodes, count))?;
        }
        Ok((status != 0).then_some(graph))
    }

    /// Returns the size from the beginning of the allocation that contains `address`.
    pub(crate) fn bytes_at(&self, address: u64) -> Result<u64, CuResult> {
        let (mut base, mut size) = (0, 0);
        call!(self.address_range(&raw mut base, &raw mut size, address))?;
        Ok((size as u64).saturating_sub(address.saturating_sub(base)))
    }

    /// Runs `body` with a context current to this thread, and restores the previous one.
    ///
    /// # Safety
    ///
    /// `context` is the handle of a context that stays live during the call.
    pub(crate) unsafe fn in_context<T>(
        &self,
        context: u64,
        body: impl FnOnce() -> Result<T, CuResult>,
    ) -> Result<T, CuResult> {
        call!(self.push_context(context))?;
        let outcome = body();
        answer(|popped| call!(self.pop_context(popped))).and(outcome)
    }

    /// Waits for the work of the current context.
    pub(crate) fn synchronise_context(&self) -> Result<(), CuResult> {
        call!(self.synchronise_context())
    }

    /// Returns the free and the total bytes of the current context's device.
    pub(crate) fn memory_info(&self) -> Result<(u64, u64), CuResult> {
        let (mut free, mut total) = (0, 0);
        call!(self.memory_info(&raw mut free, &raw mut total))?;
        Ok((free as u64, total as u64))
    }

    /// Returns a limit of the current context by its `CUlimit`; 0 if the driver does not provide
    /// it.
    pub(crate) fn limit(&self, limit: c_int) -> u64 {
        answer(|value| call!(self.limit(value, limit))).unwrap_or(0) as u64
    }

    /// Whether a stream of the current context is being captured.
    ///
    /// # Safety
    ///
    /// `stream` is 1 (`CU_STREAM_LEGACY`), 2 (`CU_STREAM_PER_THREAD`) or a stream that stays live
    /// during the call.
    pub(crate) unsafe fn stream_is_capturing(&self, stream: u64) -> Result<bool, CuResult> {
        Ok(answer(|status| call!(self.stream_is_capturing(stream, status)))? != 0)
    }

    /// Waits for the work of a stream.
    ///
    /// # Safety
    ///
    /// As for [`Self::stream_is_capturing`].
    pub(crate) unsafe fn synchronise_stream(&self, stream: u64) -> Result<(), CuResult> {
        call!(self.synchronise_stream(stream))
    }

    /// Returns the handle of the device's default pool, which cannot be destroyed.
    pub(crate) fn default_pool(&self, device: usize) -> Result<u64, CuResult> {
        answer(|pool| call!(self.default_pool(pool, device_handle(device))))
    }

    /// Returns the handle of the pool that the device's stream-ordered allocations come from.
    pub(crate) fn current_pool(&self, device: usize) -> Result<u64, CuResult> {
        answer(|pool| call!(self.current_pool(pool, device_handle(device))))
    }

    /// Returns an attribute of a pool, in bytes, by its `CUmemPool_attribute`.
    ///
    /// # Safety
    ///
    /// `pool` stays live during the call.
    pub(crate) unsafe fn pool_attribute(
        &self,
        pool: u64,
        attribute: c_int,
    ) -> Result<u64, CuResult> {
        answer(|value| call!(self.pool_attribute(pool, attribute, value)))
    }

    /// Resets a pool's high-water mark.
    ///
    /// # Safety
    ///
    /// As for [`Self::pool_attribute`].
    pub(crate) unsafe fn restart(&self, pool: u64, attribute: c_int) -> Result<(), CuResult> {
        // The only value that the driver accepts.
        let mut zero = 0;
        call!(self.set_pool_attribute(pool, attribute, &raw mut zero))
    }

    /// Returns the pool's unused memory to the system.
    ///
    /// # Safety
    ///
    /// As for [`Self::pool_attribute`].
    pub(crate) unsafe fn trim_pool(&self, pool: u64) -> Result<(), CuResult> {
        call!(self.trim_pool(pool, 0))
    }

    /// Returns an attribute of the device's graph memory, in bytes, by its `CUgraphMem_attribute`.
    pub(crate) fn graph_attribute(&self, device: usize, attribute: c_int) -> Result<u64, CuResult> {
        answer(|value| call!(self.graph_attribute(device_handle(device), attribute, value)))
    }

    /// Returns the device's unused graph memory to the system.
    pub(crate) fn trim_graphs(&self, device: usize) -> Result<(), CuResult> {
        call!(self.trim_graphs(device_handle(device)))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::candidates;

    #[test]
    fn nothing_is_looked_for_in_the_working_directory() {
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
