//! The libcuda stand-in of this process, reached through its private symbols.

#![expect(unsafe_code, reason = "symbols of another shared library")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

/// What libcuda calls for every event.
pub(crate) type Hook = unsafe extern "C" fn(domain: u32, cbid: u32, data: *const c_void);

/// What libcuda says of itself, and what this library is to do wrong; the layout of its `TracerFaults`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    pub(crate) devices: u32,
    pub(crate) driver_version: u32,
    /// 0 for the library's own.
    pub(crate) cupti_version: u32,
    pub(crate) too_old: u8,
    pub(crate) taken: u8,
    pub(crate) taken_by: [u8; 62],
    pub(crate) fatal_after: u64,
    pub(crate) lost_after: u64,
    pub(crate) finalized_after: u64,
}

/// The doors of libcuda that CUPTI uses.
#[derive(Debug)]
pub(crate) struct Cuda {
    set_callback: unsafe extern "C" fn(Option<Hook>),
    context_info: unsafe extern "C" fn(u64, *mut u32, *mut u32) -> u32,
    tracer_faults: unsafe extern "C" fn(*mut Faults),
    tracer_call: unsafe extern "C" fn(*const c_char) -> u32,
}

impl Cuda {
    /// The libcuda already in the process, else the one the loader finds. `None` on a machine without a driver.
    pub(crate) fn get() -> Option<&'static Self> {
        static CUDA: OnceLock<Option<Cuda>> = OnceLock::new();
        CUDA.get_or_init(|| Self::open(&loaded().unwrap_or_else(|| c"libcuda.so.1".to_owned())))
            .as_ref()
    }

    fn open(name: &CStr) -> Option<Self> {
        // SAFETY: the stand-in has no constructors; another library without its symbols is refused below.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return None;
        }
        let symbol = |name: &CStr| {
            // SAFETY: `library` is an open handle, never closed.
            let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
            (!symbol.is_null()).then_some(symbol)
        };
        let (set_callback, context_info, tracer_faults, tracer_call) = (
            symbol(c"fake_cuda_set_callback")?,
            symbol(c"fake_cuda_context_info")?,
            symbol(c"fake_cuda_tracer_faults")?,
            symbol(c"fake_cuda_tracer_call")?,
        );
        // SAFETY: these names are the stand-in's own, and it gives them exactly these signatures.
        unsafe {
            Some(Self {
                set_callback: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(Option<Hook>)>(
                    set_callback,
                ),
                context_info: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(u64, *mut u32, *mut u32) -> u32,
                >(context_info),
                tracer_faults: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut Faults)>(
                    tracer_faults,
                ),
                tracer_call: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*const c_char) -> u32,
                >(tracer_call),
            })
        }
    }

    pub(crate) fn set_callback(&self, hook: Option<Hook>) {
        // SAFETY: a hook is a plain function of this library, which its subscribers keep loaded.
        unsafe { (self.set_callback)(hook) };
    }

    /// Device and unique id of a live context.
    pub(crate) fn context_info(&self, context: u64) -> Option<(u32, u32)> {
        let (mut device, mut uid) = (0, 0);
        // SAFETY: both out pointers are locals.
        let code = unsafe { (self.context_info)(context, &raw mut device, &raw mut uid) };
        (code == 0).then_some((device, uid))
    }

    /// Counts a call of this library's; what it is to fail with, if it is.
    pub(crate) fn call(&self, name: &CStr) -> Option<u32> {
        // SAFETY: a C string that outlives the call.
        let code = unsafe { (self.tracer_call)(name.as_ptr()) };
        (code != 0).then_some(code)
    }

    pub(crate) fn faults(&self) -> Faults {
        let mut faults = Faults {
            devices: 0,
            driver_version: 0,
            cupti_version: 0,
            too_old: 0,
            taken: 0,
            taken_by: [0; 62],
            fatal_after: u64::MAX,
            lost_after: u64::MAX,
            finalized_after: u64::MAX,
        };
        // SAFETY: the out pointer is a local of the layout both libraries agree on.
        unsafe { (self.tracer_faults)(&raw mut faults) };
        faults
    }
}

/// The path of a libcuda that the process has loaded, under whatever directory and version.
fn loaded() -> Option<CString> {
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        found: *mut c_void,
    ) -> c_int {
        // SAFETY: `dl_iterate_phdr` passes a valid record, whose name is null or a C string, and `found` as given.
        let (name, found): (*const c_char, &mut Option<CString>) =
            unsafe { ((*info).dlpi_name, &mut *found.cast()) };
        if name.is_null() {
            return 0;
        }
        // SAFETY: not null, so a C string of the loader's.
        let name = unsafe { CStr::from_ptr(name) };
        let file = name
            .to_bytes()
            .rsplit(|&byte| byte == b'/')
            .next()
            .unwrap_or_default();
        if file.starts_with(b"libcuda.so") {
            *found = Some(name.to_owned());
            return 1;
        }
        0
    }
    let mut found: Option<CString> = None;
    // SAFETY: `visit` only touches what it is given; `found` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
}
