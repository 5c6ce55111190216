//! One call of the driver API: its ENTER, its body or its fault, its EXIT, in the layout that CUPTI's
//! subscribers read (`cupti_callbacks.h`, `generated_cuda_meta.h`).
//!
//! Every API is one entry of an [`api!`] table: exported names with their callback ids, arguments, body. The
//! arguments become the `repr(C)` struct that the callbacks point at.

#![expect(
    unsafe_code,
    reason = "callbacks and out arguments are raw pointers of the C interface"
)]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::error::Error;
use crate::handle::Handle;
use crate::{context, fault};

/// `CUpti_CallbackDomain`.
const DOMAIN_DRIVER_API: u32 = 1;
const DOMAIN_RESOURCE: u32 = 3;

/// `CUpti_CallbackIdResource`, the ones this driver tells.
pub(crate) mod resource {
    pub(crate) const CONTEXT_CREATED: u32 = 1;
    pub(crate) const CONTEXT_DESTROY_STARTING: u32 = 2;
    pub(crate) const STREAM_CREATED: u32 = 3;
    pub(crate) const STREAM_DESTROY_STARTING: u32 = 4;
    pub(crate) const CU_INIT_FINISHED: u32 = 5;
    pub(crate) const MODULE_LOADED: u32 = 6;
    pub(crate) const MODULE_UNLOAD_STARTING: u32 = 7;
    pub(crate) const GRAPHNODE_CREATE_STARTING: u32 = 12;
    pub(crate) const GRAPHNODE_CREATED: u32 = 13;
}

/// What the tracer library installs: `CUpti_CallbackFunc` without its userdata.
pub(crate) type Hook = unsafe extern "C" fn(domain: u32, cbid: u32, data: *const c_void);

static HOOK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static CORRELATION: AtomicU32 = AtomicU32::new(1);

pub(crate) fn set_hook(hook: Option<Hook>) {
    HOOK.store(
        hook.map_or(ptr::null_mut(), |hook| hook as *mut c_void),
        Ordering::Release,
    );
}

fn hook() -> Option<Hook> {
    let hook = HOOK.load(Ordering::Acquire);
    // SAFETY: only `set_hook` stores here, and what it stores is null or a `Hook`.
    (!hook.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, Hook>(hook) })
}

/// `CUpti_CallbackData`.
#[repr(C)]
struct CallbackData {
    callback_site: u32,
    function_name: *const c_char,
    function_params: *const c_void,
    function_return_value: *mut u32,
    symbol_name: *const c_char,
    context: Handle,
    context_uid: u32,
    correlation_data: *mut u64,
    correlation_id: u32,
}

/// `CUpti_ResourceData`.
#[repr(C)]
struct ResourceData {
    context: Handle,
    stream: Handle,
    descriptor: *const c_void,
}

const ENTER: u32 = 0;
const EXIT: u32 = 1;

/// Runs one call: what every exported function consists of.
pub(crate) fn call(
    name: &'static CStr,
    cbid: u32,
    params: *const c_void,
    body: impl FnOnce() -> Result<(), Error>,
) -> u32 {
    // Before EXIT the result is not there yet; a reader that takes it for success or failure must be wrong.
    let mut result = 0xCDCD_CDCD;
    let mut correlation_data = 0;
    let correlation_id = CORRELATION.fetch_add(1, Ordering::Relaxed);
    let mut tell = |site, result: &mut u32| {
        let Some(hook) = hook() else { return };
        let (context, context_uid) = context::current_and_uid();
        let data = CallbackData {
            callback_site: site,
            function_name: name.as_ptr(),
            function_params: params,
            function_return_value: result,
            // The real one is not zeroed outside launches either.
            symbol_name: ptr::without_provenance(0xDEAD_BEEF),
            context,
            context_uid,
            correlation_data: &raw mut correlation_data,
            correlation_id,
        };
        // SAFETY: `data` and all it points at live until the hook returns, in the layout the ids promise.
        unsafe { hook(DOMAIN_DRIVER_API, cbid, (&raw const data).cast()) };
    };
    tell(ENTER, &mut result);
    let planned = fault::planned(name);
    result = match planned.error {
        Some(error) => error.0,
        None => body().map_or_else(|error| error.0, |()| 0),
    };
    if planned.hold {
        fault::hold(name);
    }
    tell(EXIT, &mut result);
    result
}

/// Tells a RESOURCE callback. The state must not be locked: a subscriber may call back into the driver.
pub(crate) fn tell_resource(cbid: u32, context: Handle, stream: Handle, descriptor: *const c_void) {
    let Some(hook) = hook() else { return };
    let data = ResourceData {
        context,
        stream,
        descriptor,
    };
    // SAFETY: `data` and its descriptor live until the hook returns.
    unsafe { hook(DOMAIN_RESOURCE, cbid, (&raw const data).cast()) };
}

/// An argument through which a call answers.
///
/// The exported functions are `unsafe`: their callers vouch that such a pointer is null or valid for writes.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T: Copy> Out<T> {
    /// Answers; a null pointer is `INVALID_VALUE`.
    pub(crate) fn put(self, value: T) -> Result<(), Error> {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        self.offer(value);
        Ok(())
    }

    /// Answers where the caller wants the answer: null is allowed.
    pub(crate) fn offer(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, so valid for writes (see the type).
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// What the caller has put there, for arguments that go both ways.
    pub(crate) fn value(self) -> Result<T, Error> {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: not null, so valid (see the type), and callers initialise what they ask to be read.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// The same place as another type: the `void*` of an attribute query.
    pub(crate) fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// The `index`th place of an array.
    pub(crate) fn at(self, index: usize) -> Out<T> {
        Out(self.0.wrapping_add(index))
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl Out<u8> {
    /// Writes a C string into `capacity` bytes, cut short if need be.
    pub(crate) fn put_text(self, text: &str, capacity: usize) -> Result<(), Error> {
        if self.0.is_null() || capacity == 0 {
            return Err(Error::INVALID_VALUE);
        }
        let length = text.len().min(capacity - 1);
        for (index, byte) in text.bytes().take(length).enumerate() {
            self.at(index).offer(byte);
        }
        self.at(length).put(0)
    }
}

/// An argument that points at a struct or an array the call reads. Null or valid, as for [`Out`].
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T: Copy> In<T> {
    pub(crate) fn get(self) -> Result<T, Error> {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: not null, so valid for reads (see the type).
        Ok(unsafe { self.0.read_unaligned() })
    }

    pub(crate) fn at(self, index: usize) -> In<T> {
        In(self.0.wrapping_add(index))
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl In<c_char> {
    pub(crate) fn text(self) -> Result<String, Error> {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: not null, so a C string (see the type).
        Ok(unsafe { CStr::from_ptr(self.0) }
            .to_string_lossy()
            .into_owned())
    }
}

/// One exported function, for `cuGetProcAddress` and for checking the names in a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) address: *const c_void,
}

thread_local! {
    /// What tells this thread apart; 0 until it is asked for.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// A number of the calling thread's own.
pub(crate) fn thread_number() -> u64 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    THREAD.with(|number| {
        if number.get() == 0 {
            number.set(u64::from(NEXT.fetch_add(1, Ordering::Relaxed)));
        }
        number.get()
    })
}

/// Defines exported functions: `name = cbid, other_name = cbid fn(argument: type, …) { body }`.
macro_rules! api {
    ($($($name:ident = $cbid:literal),+ fn $arguments:tt $body:block)*) => {
        $($($crate::dispatch::export!($name, $cbid, $arguments, $body);)+)*

        /// The functions of this family.
        pub(crate) const ENTRIES: &[$crate::dispatch::Entry] = &[$($(
            $crate::dispatch::Entry { name: stringify!($name), address: $name as *const std::ffi::c_void },
        )+)*];
    };
}
pub(crate) use api;

/// Defines one exported function of an [`api!`] table.
macro_rules! export {
    ($name:ident, $cbid:literal, ($($argument:ident: $type:ty),* $(,)?), $body:block) => {
        #[expect(unsafe_code, reason = "a symbol of libcuda")]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> u32 {
            #[repr(C)]
            struct Params {
                $($argument: $type,)*
            }
            let params = Params { $($argument),* };
            const NAME: &std::ffi::CStr =
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => unreachable!(),
                };
            $crate::dispatch::call(NAME, $cbid, (&raw const params).cast(), || {
                $(let $argument = params.$argument;)*
                $body
            })
        }
    };
}
pub(crate) use export;
