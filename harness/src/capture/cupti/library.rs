//! A copy of CUPTI: its functions, resolved by hand, in safe clothes.

#![expect(unsafe_code, reason = "CUPTI's interface is C")]

use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::ffi::{self, Callback, CuptiResult, SubscriberHandle, SubscriberParams};
use super::version::CuptiVersion;
use crate::device::dl::{self, Library};
use crate::ledger::Place;

/// What tools are told of us when they find the subscription taken.
const NAME: &CStr = c"gpu-leak-check";

type Subscribe = unsafe extern "C" fn(*mut SubscriberHandle, Callback, *mut c_void) -> CuptiResult;
type SubscribeV2 = unsafe extern "C" fn(
    *mut SubscriberHandle,
    Callback,
    *mut c_void,
    *mut SubscriberParams,
) -> CuptiResult;

#[derive(Debug)]
struct Functions {
    version: unsafe extern "C" fn(*mut u32) -> CuptiResult,
    subscribe: Subscribe,
    /// From 13.0 on.
    subscribe_v2: Option<SubscribeV2>,
    unsubscribe: unsafe extern "C" fn(SubscriberHandle) -> CuptiResult,
    enable: unsafe extern "C" fn(u32, SubscriberHandle, u32, u32) -> CuptiResult,
    state: unsafe extern "C" fn(*mut u32, SubscriberHandle, u32, u32) -> CuptiResult,
    result_string: unsafe extern "C" fn(CuptiResult, *mut *const c_char) -> CuptiResult,
    device_id: unsafe extern "C" fn(*const c_void, *mut u32) -> CuptiResult,
}

/// A copy of CUPTI in this process.
#[derive(Debug)]
pub(super) struct Cupti {
    functions: Functions,
    path: PathBuf,
    version: CuptiVersion,
}

/// The CUPTI subscribed to. A static, because callbacks come before the start has returned.
static KEPT: OnceLock<Cupti> = OnceLock::new();

/// One subscription. CUPTI wants the calls that name it one at a time, hence `&mut`.
#[derive(Debug)]
pub(super) struct Subscription(SubscriberHandle);

// SAFETY: the handle is a number for CUPTI, whose functions take it on any thread.
unsafe impl Send for Subscription {}

/// Why CUPTI refused to work.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The function that was called.
    pub(super) call: &'static str,
    /// What it returned.
    pub(super) code: CuptiResult,
    /// Who holds the subscription, where CUPTI tells.
    pub(super) holder: Option<String>,
}

impl Cupti {
    /// Opens a copy by its path, or by a name that the loader finds.
    ///
    /// # Errors
    ///
    /// What the loader says, or that it is not CUPTI.
    pub(super) fn open(file: &Path) -> Result<Self, String> {
        let library = Library::open(file)?;
        let functions = Self::functions(&library).ok_or("it lacks functions of CUPTI")?;
        Ok(Self {
            functions,
            path: found_at(file),
            version: CuptiVersion(0),
        })
    }

    /// Keeps this copy for callbacks; the first one kept stays.
    pub(super) fn keep(self) -> &'static Self {
        KEPT.get_or_init(|| self)
    }

    /// The copy that is kept.
    pub(super) fn kept() -> Option<&'static Self> {
        KEPT.get()
    }

    /// Connects CUPTI to the driver, which its first call does, and asks which version it is.
    pub(super) fn connect(&mut self) -> Result<(), Refusal> {
        let mut version = 0;
        // SAFETY: writes a number to a place of ours.
        let code = unsafe { (self.functions.version)(&raw mut version) };
        if code != ffi::SUCCESS {
            return Err(Refusal {
                call: "cuptiGetVersion",
                code,
                holder: None,
            });
        }
        self.version = CuptiVersion(version);
        Ok(())
    }

    fn functions(library: &Library) -> Option<Functions> {
        // SAFETY: the signatures are those of CUPTI's headers for these names.
        unsafe {
            Some(Functions {
                version: library.function(c"cuptiGetVersion")?,
                subscribe: library.function(c"cuptiSubscribe")?,
                subscribe_v2: library.function(c"cuptiSubscribe_v2"),
                unsubscribe: library.function(c"cuptiUnsubscribe")?,
                enable: library.function(c"cuptiEnableCallback")?,
                state: library.function(c"cuptiGetCallbackState")?,
                result_string: library.function(c"cuptiGetResultString")?,
                device_id: library.function(c"cuptiGetDeviceId")?,
            })
        }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Which it is, once [connected](Self::connect).
    pub(super) fn version(&self) -> CuptiVersion {
        self.version
    }

    /// CUPTI's name for a result.
    pub(super) fn result_name(&self, result: CuptiResult) -> String {
        let mut text = std::ptr::null();
        // SAFETY: writes the address of a constant to a place of ours.
        let known = unsafe { (self.functions.result_string)(result, &raw mut text) };
        if known != ffi::SUCCESS || text.is_null() {
            return "an unknown error".to_owned();
        }
        // SAFETY: not null, so it is that constant, which ends with a zero byte.
        unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned()
    }

    /// Subscribes `callback`, beside others where CUPTI and the driver serve several, else alone.
    ///
    /// The second version of the call is preferred, because it names whoever is in the way.
    /// [Which versions serve several](https://docs.nvidia.com/cupti/main/main.html).
    pub(super) fn subscribe(&self, callback: Callback) -> Result<Subscription, Refusal> {
        let Some(subscribe) = self.functions.subscribe_v2 else {
            return self.subscribe_v1(callback);
        };
        if self.version >= CuptiVersion::SERVES_SEVERAL
            && let Ok(subscription) = request(subscribe, callback, ffi::SUBSCRIBER_PARAMS_SIZE, 1)
        {
            return Ok(subscription);
        }
        let (known, older) = (
            ffi::SUBSCRIBER_PARAMS_SIZE,
            ffi::SUBSCRIBER_PARAMS_SIZE_13_0,
        );
        let sizes = if self.version >= CuptiVersion::SAYS_HOW_MANY {
            [known, older]
        } else {
            [older, known]
        };
        let mut outcome = request(subscribe, callback, sizes[0], 0);
        if is_refused_for(&outcome, ffi::INVALID_PARAMETER) {
            outcome = request(subscribe, callback, sizes[1], 0);
        }
        if is_refused_for(&outcome, ffi::API_NOT_IMPLEMENTED) {
            return self.subscribe_v1(callback);
        }
        outcome
    }

    fn subscribe_v1(&self, callback: Callback) -> Result<Subscription, Refusal> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes a handle to a place of ours; `callback` stays for the life of the process
        // and needs no user data.
        let code =
            unsafe { (self.functions.subscribe)(&raw mut handle, callback, std::ptr::null_mut()) };
        subscribed("cuptiSubscribe", code, handle, None)
    }

    /// Ends a subscription through which nothing has been enabled for good.
    pub(super) fn unsubscribe(&self, subscription: Subscription) {
        // SAFETY: the handle is that of a subscription, which is not used again.
        unsafe { (self.functions.unsubscribe)(subscription.0) };
    }

    /// Asks to be called back for one id.
    pub(super) fn enable(
        &self,
        subscription: &mut Subscription,
        domain: u32,
        id: u32,
    ) -> CuptiResult {
        // SAFETY: the handle is that of a subscription, and `&mut` keeps other calls that name it
        // away; CUPTI checks the numbers.
        unsafe { (self.functions.enable)(1, subscription.0, domain, id) }
    }

    /// Whether CUPTI still calls back for one id.
    pub(super) fn is_enabled(&self, subscription: &mut Subscription, domain: u32, id: u32) -> bool {
        let mut enabled = 0;
        // SAFETY: as for `enable`; CUPTI also checks the handle, should another tool have taken
        // the subscription down.
        let result =
            unsafe { (self.functions.state)(&raw mut enabled, subscription.0, domain, id) };
        result == ffi::SUCCESS && enabled != 0
    }

    /// The device of a context. The one function here that may be called inside a callback.
    ///
    /// # Safety
    ///
    /// `context` is live.
    pub(super) unsafe fn device_of(&self, context: *const c_void) -> Place {
        let mut device = 0;
        // SAFETY: the caller's promise, and `device` is a place of ours.
        let result = unsafe { (self.functions.device_id)(context, &raw mut device) };
        if result == ffi::SUCCESS {
            Place::cuda(device as usize)
        } else {
            Place::UNKNOWN
        }
    }
}

/// Subscribes by the second version of the call, with parameters of `size` bytes.
fn request(
    subscribe: SubscribeV2,
    callback: Callback,
    size: usize,
    allow_multiple: u8,
) -> Result<Subscription, Refusal> {
    let mut handle = std::ptr::null_mut();
    let mut holder = [0_u8; ffi::OLD_SUBSCRIBER_NAME_LENGTH];
    let mut params = SubscriberParams {
        struct_size: size,
        subscriber_name: NAME.as_ptr(),
        old_subscriber_name: holder.as_mut_ptr().cast(),
        old_subscriber_size: holder.len(),
        allow_multiple_subscribers: allow_multiple,
        padding: [0; 7],
    };
    // SAFETY: writes a handle, and a name that ends with a zero byte, to places of ours of the
    // sizes that `params` states; `callback` stays for the life of the process.
    let code = unsafe {
        subscribe(
            &raw mut handle,
            callback,
            std::ptr::null_mut(),
            &raw mut params,
        )
    };
    let holder = CStr::from_bytes_until_nul(&holder).unwrap_or_default();
    let holder = holder.to_string_lossy().into_owned();
    // Tools that subscribe the old way have no name; CUPTI then gives this for one.
    let holder = Some(holder).filter(|name| !name.is_empty() && name != "<not provided>");
    subscribed("cuptiSubscribe_v2", code, handle, holder)
}

fn subscribed(
    call: &'static str,
    code: CuptiResult,
    handle: SubscriberHandle,
    holder: Option<String>,
) -> Result<Subscription, Refusal> {
    if code == ffi::SUCCESS {
        return Ok(Subscription(handle));
    }
    Err(Refusal { call, code, holder })
}

fn is_refused_for(outcome: &Result<Subscription, Refusal>, code: CuptiResult) -> bool {
    matches!(outcome, Err(refusal) if refusal.code == code)
}

/// The file behind a name that the loader found by itself.
fn found_at(file: &Path) -> PathBuf {
    let same = |module: &PathBuf| module.file_name() == file.file_name();
    if file.is_absolute() {
        return file.to_owned();
    }
    let found = dl::modules().into_iter().find(same);
    found.unwrap_or_else(|| file.to_owned())
}
