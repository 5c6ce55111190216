//! The functions of libcuda that the harness calls, resolved by hand.
//!
//! Signatures are those of the [driver API's
//! documentation](https://docs.nvidia.com/cuda/cuda-driver-api/), except that every handle is a
//! `u64`, as in the ledger. Every CUDA platform passes a `u64` like a pointer. A driver may lack
//! newer functions. The methods for these functions then return [`NOT_FOUND`].
//!
//! `CUdevice` is an int whose value is the device's ordinal, which is a `usize` here.

#![expect(unsafe_code, reason = "calls the driver's C functions")]

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, ptr};

use crate::exit;
use crate::ledger::Place;
use crate::ledger::event::CuResult;
use crate::loader::{self, Library};
use crate::recursion_guard::quiet;
use gpu_leak_core::ledger::sticky_error;

/// `CUDA_ERROR_NOT_FOUND`, which is also the result for functions that this driver lacks.
pub(crate) const NOT_FOUND: CuResult = 500;

/// Defines [`Driver`] from a table of its functions, with the name of the method, the symbol and
/// the parameters. If the first or the last parameter is a reference, the function writes that
/// value, and it becomes the return value of the method. If there is no such parameter, the
/// parentheses around the type mean that the method returns `()`.
macro_rules! functions {
    ($(
        $(#[$what:meta])*
        $([$unsafe:tt])? $name:ident = $symbol:literal(
            $(&$first:ty;)? $($parameter:ident: $type:ty),* $(; &$last:ty)?
        );
    )*) => {
        /// The driver's functions. An older driver lacks some of them.
        #[derive(Debug, Default)]
        pub(crate) struct Driver {
            $(pub(crate) $name: Option<
                unsafe extern "C" fn($(*mut $first,)? $($type,)* $(*mut $last)?) -> CuResult
            >,)*
        }

        /// If a call fails, the methods return the driver's own result as their error.
        ///
        /// Safe methods pass only device ordinals, which the driver checks, and pointers to local
        /// variables. Methods that take the handle of a context, pool or stream are unsafe, because
        /// the driver does not define what happens if the object has been destroyed.
        #[allow(unused_parens, clippy::allow_attributes, reason = "only empty parentheses are used")]
        impl Driver {
            fn of(library: &Library) -> Self {
                exit::install();
                // SAFETY: the signatures are the documented ones. In every driver, a symbol with
                // another signature has another name (with the suffix `_v2`).
                unsafe { Self { $($name: library.function($symbol),)* } }
            }

            $(
                $(#[$what])*
                pub(crate) $($unsafe)? fn $name(
                    &self $(, $parameter: $type)*
                ) -> Result<($($first)? $($last)?), CuResult> {
                    // SAFETY: the parameters of a safe method are always valid, and the callers of
                    // an unsafe method uphold the conditions in its documentation.
                    written(self.$name, |function, _to| unsafe {
                        function($(_to as *mut $first,)? $($parameter,)* $(_to as *mut $last)?)
                    })
                }
            )*
        }
    };
}

/// Calls a function and returns the value that it writes to the pointer. Returns [`NOT_FOUND`] if
/// the driver lacks the function.
fn written<F, T: Default>(
    function: Option<F>,
    call: impl FnOnce(F, *mut T) -> CuResult,
) -> Result<T, CuResult> {
    let mut written = T::default();
    match call(function.ok_or(NOT_FOUND)?, &raw mut written) {
        0 => Ok(written),
        error => Err(error),
    }
}

functions! {
    /// Initialises the driver, without creating a context. `flags` must be 0.
    initialise = c"cuInit"(flags: c_uint);
    /// Returns the supported CUDA version as 1000 × major + 10 × minor. The driver need not be
    /// initialised.
    version = c"cuDriverGetVersion"(&u32;);
    [unsafe] name_of_error = c"cuGetErrorName"(error: CuResult, name: *mut *const c_char);
    /// Returns the number of devices. Fails before `cuInit`.
    device_count = c"cuDeviceGetCount"(&u32;);
    [unsafe] name_of_device = c"cuDeviceGetName"(name: *mut c_char, length: c_int, device: c_int);
    /// Returns the UUID of the device, or of the MIG slice that represents it.
    device_uuid = c"cuDeviceGetUuid_v2"(&[u8; 16]; device: c_int);
    /// Returns an attribute of the device by its `CUdevice_attribute`.
    device_attribute = c"cuDeviceGetAttribute"(&c_int; attribute: c_int, device: c_int);
    [unsafe] primary_state = c"cuDevicePrimaryCtxGetState"(device: c_int, flags: *mut c_uint; &c_int);
    /// Returns the handle of the context that is current to this thread, or 0.
    current_context = c"cuCtxGetCurrent"(&u64;);
    /// Returns the device of the current context.
    current_device = c"cuCtxGetDevice"(&c_int;);
    [unsafe] push_context = c"cuCtxPushCurrent_v2"(context: u64);
    pop_context = c"cuCtxPopCurrent_v2"(&u64;);
    /// Waits for the work of the current context.
    synchronise_context = c"cuCtxSynchronize"();
    /// Returns 0 if a stream of the current context is not being captured, and another value if it
    /// is.
    ///
    /// # Safety
    ///
    /// `stream` is 1 (`CU_STREAM_LEGACY`), 2 (`CU_STREAM_PER_THREAD`) or a stream that stays live
    /// during the call.
    [unsafe] stream_is_capturing = c"cuStreamIsCapturing"(stream: u64; &c_int);
    /// Waits for the work of a stream.
    ///
    /// # Safety
    ///
    /// The conditions are those of [`Self::stream_is_capturing`].
    [unsafe] synchronise_stream = c"cuStreamSynchronize"(stream: u64);
    [unsafe] capture = c"cuStreamGetCaptureInfo_v2"(
        stream: u64, status: *mut c_int, id: *mut u64, graph: *mut u64, dependencies: *mut u64,
        count: *mut usize
    );
    /// Does the same as `capture`, except that stream 0 means the thread's own stream.
    [unsafe] capture_per_thread = c"cuStreamGetCaptureInfo_v2_ptsz"(
        stream: u64, status: *mut c_int, id: *mut u64, graph: *mut u64, dependencies: *mut u64,
        count: *mut usize
    );
    [unsafe] pointer_attribute = c"cuPointerGetAttribute"(&u32; attribute: c_int, address: u64);
    [unsafe] address_range = c"cuMemGetAddressRange_v2"(base: *mut u64, size: *mut usize, address: u64);
    /// Returns the handle of the device's default pool, which cannot be destroyed.
    default_pool = c"cuDeviceGetDefaultMemPool"(&u64; device: c_int);
    /// Returns the handle of the pool from which the device's stream-ordered allocations come.
    current_pool = c"cuDeviceGetMemPool"(&u64; device: c_int);
    /// Returns the value of a pool's attribute, in bytes. `attribute` is a `CUmemPool_attribute`.
    ///
    /// # Safety
    ///
    /// `pool` stays live during the call.
    [unsafe] pool_attribute = c"cuMemPoolGetAttribute"(pool: u64, attribute: c_int; &u64);
    /// Resets the high-water mark of a pool. The function reads its last parameter, and accepts
    /// only 0.
    ///
    /// # Safety
    ///
    /// The conditions are those of [`Self::pool_attribute`].
    [unsafe] reset_pool_attribute = c"cuMemPoolSetAttribute"(pool: u64, attribute: c_int; &u64);
    /// Returns the pool's unused memory to the system, except for `kept` bytes.
    ///
    /// # Safety
    ///
    /// The conditions are those of [`Self::pool_attribute`].
    [unsafe] trim_pool = c"cuMemPoolTrimTo"(pool: u64, kept: usize);
    /// Returns an attribute of the device's graph memory, in bytes, by its `CUgraphMem_attribute`.
    graph_attribute = c"cuDeviceGetGraphMemAttribute"(device: c_int, attribute: c_int; &u64);
    /// Returns the device's unused graph memory to the system.
    trim_graphs = c"cuDeviceGraphMemTrim"(device: c_int);
    [unsafe] free_and_total = c"cuMemGetInfo_v2"(free: *mut usize, total: *mut usize);
    /// Returns a limit of the current context by its `CUlimit`.
    limit = c"cuCtxGetLimit"(&usize; limit: c_int);
}

/// The driver of this process, once it has been [found](find).
static DRIVER: OnceLock<Driver> = OnceLock::new();

/// Finds the driver if it is already loaded in the process.
pub(crate) fn find() {
    let is_libcuda = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libcuda.so")
    };
    if DRIVER.get().is_none()
        && let Some(path) = loader::modules().into_iter().find(is_libcuda)
        && let Some(library) = Library::loaded(&path)
    {
        keep(&library);
    }
}

/// Stores the functions of the driver. They are looked up before `get_or_init` is called, because a
/// thread that waits there may hold the loader's lock.
fn keep(library: &Library) -> &'static Driver {
    let functions = Driver::of(library);
    DRIVER.get_or_init(|| functions)
}

/// Finds the driver, or loads it if it is not loaded in the process.
///
/// # Errors
///
/// Returns the loader's error message.
pub(crate) fn load() -> Result<&'static Driver, String> {
    find();
    if let Some(found) = DRIVER.get() {
        return Ok(found);
    }
    let searched = env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let tried = candidates(&searched);
    let mut tried = tried.iter().map(|path| Library::open(path));
    // If all candidates fail, the error for the first one is returned, because that is the driver's
    // usual name.
    let first = tried.next().unwrap_or_else(|| Err(String::new()));
    let library = first.or_else(|why| tried.find_map(Result::ok).ok_or(why))?;
    Ok(keep(&library))
}

/// Returns the names or paths to try when opening the driver, the best candidate first. Usually
/// they are the driver's file names, for which the loader searches. However, an entry of the
/// loader's search path that is empty or relative means the working directory, and the harness must
/// not load a file that another user may have put there. If there is such an entry, the result
/// contains paths in the absolute directories of the search path and in the system's directories.
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

/// Returns the driver's name for an error, such as `CUDA_ERROR_OUT_OF_MEMORY`. If the error is not
/// one that breaks contexts and the driver may not be called, the result is a text such as
/// `CUresult 2`.
pub(crate) fn error_name(error: CuResult) -> String {
    let _quiet = quiet();
    let known = || {
        let mut name = ptr::null();
        // SAFETY: a successful call sets the pointer to null or to a constant of the driver, which
        // is never unloaded.
        unsafe {
            get()?.name_of_error(error, &raw mut name).ok()?;
            CStr::from_ptr(name.as_ref()?).to_str().ok()
        }
    };
    let name = known().or_else(|| sticky_error(error));
    name.map_or_else(|| format!("CUresult {error}"), str::to_owned)
}

pub(crate) fn device_handle(ordinal: usize) -> c_int {
    c_int::try_from(ordinal).unwrap_or(c_int::MAX)
}

impl Driver {
    /// Returns the CUDA version that the driver supports, such as `13.0`.
    pub(crate) fn cuda_version(&self) -> Result<String, CuResult> {
        let version = self.version()?;
        Ok(format!("{}.{}", version / 1000, version % 1000 / 10))
    }

    /// Returns the human-readable name of the device.
    pub(crate) fn device_name(&self, device: usize) -> Result<String, CuResult> {
        let mut name = [0_u8; 256];
        let (start, length) = (name.as_mut_ptr().cast(), name.len() as c_int);
        // SAFETY: the call writes at most that many bytes.
        unsafe { self.name_of_device(start, length, device_handle(device))? };
        let text = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    /// Whether the device's primary context is active. This does not create the context.
    pub(crate) fn primary_is_active(&self, device: usize) -> Result<bool, CuResult> {
        let mut flags = 0;
        // SAFETY: `flags` is a local variable, to which the call writes.
        Ok(unsafe { self.primary_state(device_handle(device), &raw mut flags)? } != 0)
    }

    /// Returns the graph into which a stream of the current context is captured; `None` if the
    /// stream is not being captured. The graph is 0 if it has no handle yet. `per_thread` says
    /// whether stream 0 is the thread's own stream rather than the context's.
    ///
    /// # Safety
    ///
    /// The conditions are those of [`Self::stream_is_capturing`].
    pub(crate) unsafe fn captured_into(
        &self,
        stream: u64,
        per_thread: bool,
    ) -> Result<Option<u64>, CuResult> {
        let call = match per_thread {
            true => Self::capture_per_thread,
            false => Self::capture,
        };
        let (mut status, mut id, mut graph) = (0, 0, 0);
        let (status_out, id_out, graph_out) = (&raw mut status, &raw mut id, &raw mut graph);
        // If this call asked for the dependencies, it would fail for dependencies that have edge
        // data.
        // SAFETY: the caller upholds the contract, and the pointers point to local variables or are
        // null.
        unsafe {
            let (dependencies, count) = (ptr::null_mut(), ptr::null_mut());
            call(
                self,
                stream,
                status_out,
                id_out,
                graph_out,
                dependencies,
                count,
            )?;
        }
        Ok((status != 0).then_some(graph))
    }

    /// Returns the place of the live memory at `address`.
    pub(crate) fn place_at(&self, address: u64) -> Result<Place, CuResult> {
        /// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`
        const MEMORY_TYPE: c_int = 2;
        /// `CU_MEMORYTYPE_HOST`
        const HOST: u32 = 1;
        /// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`
        const DEVICE: c_int = 9;
        // SAFETY: any address may be queried, and the values of both attributes have four bytes.
        unsafe {
            match self.pointer_attribute(MEMORY_TYPE, address)? {
                HOST => Ok(Place::HOST),
                _ => Ok(Place::cuda(
                    self.pointer_attribute(DEVICE, address)? as usize
                )),
            }
        }
    }

    /// Returns the number of bytes from `address` to the end of the allocation that contains it.
    pub(crate) fn bytes_at(&self, address: u64) -> Result<u64, CuResult> {
        let (mut base, mut size) = (0, 0);
        // SAFETY: the pointers point to local variables, and any address may be queried.
        unsafe { self.address_range(&raw mut base, &raw mut size, address)? };
        Ok((size as u64).saturating_sub(address.saturating_sub(base)))
    }

    /// Runs `body` while this context is current to this thread, and then restores the previous
    /// context.
    ///
    /// # Safety
    ///
    /// `context` is the handle of a context that stays live during the call.
    pub(crate) unsafe fn in_context<T>(
        &self,
        context: u64,
        body: impl FnOnce() -> Result<T, CuResult>,
    ) -> Result<T, CuResult> {
        // SAFETY: the caller upholds the contract.
        unsafe { self.push_context(context)? };
        let outcome = body();
        self.pop_context().and(outcome)
    }

    /// Returns the free and the total bytes of the current context's device.
    pub(crate) fn memory_info(&self) -> Result<(u64, u64), CuResult> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers point to local variables.
        unsafe { self.free_and_total(&raw mut free, &raw mut total)? };
        Ok((free as u64, total as u64))
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
