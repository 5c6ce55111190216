//! Subscribers and the way of an event from libcuda to them.

#![expect(
    unsafe_code,
    reason = "a subscriber is a C function with data of its own"
)]

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cuda::{Cuda, Faults};
use crate::result;

/// `CUpti_CallbackFunc`.
pub(crate) type Callback =
    unsafe extern "C" fn(userdata: *mut c_void, domain: u32, cbid: u32, data: *const c_void);

/// `CUpti_CallbackDomain`.
const DRIVER_API: u32 = 1;
const RESOURCE: u32 = 3;
const STATE: u32 = 6;
/// `CUPTI_CBID_STATE_FATAL_ERROR`.
const FATAL_ERROR: u32 = 1;

/// CUPTI of CUDA 13.0, the version that was measured.
pub(crate) const VERSION: u32 = 130_000;

/// One tool.
#[derive(Debug)]
pub(crate) struct Subscriber {
    callback: Callback,
    userdata: usize,
    pub(crate) name: String,
    pub(crate) shares: bool,
    enabled: [Box<[AtomicBool]>; DOMAINS],
}

/// Domains 0 to 6, of which 0 is none.
const DOMAINS: usize = 7;

/// Ids of a domain in a CUPTI of this version, 0 included.
fn ids(domain: usize, version: u32) -> usize {
    match domain as u32 {
        // The last id each header has: 11.8, 12.1, 12.4, 12.8, 12.9, 13.4, 13.5. In between it is the older one's.
        DRIVER_API => match version {
            ..=18 => 677,
            19..=21 => 712,
            22..=25 => 754,
            26 => 782,
            27..130_000 => 784,
            130_000..130_400 => 804,
            130_400..130_500 => 868,
            _ => 877,
        },
        RESOURCE => 26,
        STATE => 4,
        2 => 600,
        4 => 3,
        5 => 100,
        _ => 0,
    }
}

impl Subscriber {
    pub(crate) fn new(
        callback: Callback,
        userdata: *mut c_void,
        name: String,
        shares: bool,
    ) -> Self {
        let enabled = std::array::from_fn(|domain| {
            (0..ids(domain, version()))
                .map(|_| AtomicBool::new(false))
                .collect()
        });
        Self {
            callback,
            userdata: userdata as usize,
            name,
            shares,
            enabled,
        }
    }

    /// The switch of one callback; `None` for an id this version does not know.
    pub(crate) fn switch(&self, domain: u32, cbid: u32) -> Option<&AtomicBool> {
        if cbid == 0 {
            return None;
        }
        self.enabled.get(domain as usize)?.get(cbid as usize)
    }

    /// All switches of a domain.
    pub(crate) fn switches(&self, domain: u32) -> Option<&[AtomicBool]> {
        self.enabled
            .get(domain as usize)
            .filter(|ids| !ids.is_empty())
            .map(|ids| &ids[1..])
    }

    fn tell(&self, domain: u32, cbid: u32, data: *const c_void) -> bool {
        if !self
            .switch(domain, cbid)
            .is_some_and(|switch| switch.load(Ordering::Relaxed))
        {
            return false;
        }
        // SAFETY: the subscriber gave this function and this data together, and `data` is what the id promises.
        unsafe { (self.callback)(self.userdata as *mut c_void, domain, cbid, data) };
        true
    }
}

/// The tools of this process, and whether they still hear anything.
#[derive(Debug, Default)]
struct Tracer {
    subscribers: Vec<Arc<Subscriber>>,
    /// CUPTI is shut down, after a fatal error or by another tool; nothing works any more.
    finalized: bool,
}

static TRACER: Mutex<Tracer> = Mutex::new(Tracer {
    subscribers: Vec::new(),
    finalized: false,
});
/// Callbacks told so far.
static TOLD: AtomicU64 = AtomicU64::new(0);

fn tracer() -> MutexGuard<'static, Tracer> {
    TRACER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn faults() -> Option<Faults> {
    Cuda::get().map(Cuda::faults)
}

/// What `cuptiGetVersion` says.
pub(crate) fn version() -> u32 {
    faults()
        .map(|faults| faults.cupti_version)
        .filter(|&version| version != 0)
        .unwrap_or(VERSION)
}

/// Adds a tool; the handle, or a code and the name of the tool that was there first.
pub(crate) fn subscribe(subscriber: Subscriber) -> Result<usize, (u32, String)> {
    let cuda = Cuda::get().ok_or_else(|| (result::NOT_INITIALIZED, String::new()))?;
    let faults = cuda.faults();
    let mut tracer = tracer();
    // CUPTI initialises the driver itself, which fails without a device.
    if faults.devices == 0 || faults.too_old != 0 || tracer.finalized {
        return Err((result::NOT_INITIALIZED, String::new()));
    }
    if faults.taken != 0 {
        let name = CStr::from_bytes_until_nul(&faults.taken_by)
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        return Err((result::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, name));
    }
    // Several tools at once need CUDA 13.3 on both sides, and the wish of every one of them.
    let can_share = version() >= 130_300 && faults.driver_version >= 13_030;
    let first = tracer
        .subscribers
        .first()
        .map(|first| (first.name.clone(), first.shares));
    let fits = match &first {
        None => !subscriber.shares || can_share,
        Some((_, first_shares)) => can_share && *first_shares && subscriber.shares,
    };
    if !fits {
        return Err((
            result::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED,
            first.map_or_else(String::new, |(name, _)| name),
        ));
    }
    let subscriber = Arc::new(subscriber);
    let handle = Arc::as_ptr(&subscriber) as usize;
    tracer.subscribers.push(subscriber);
    drop(tracer);
    cuda.set_callback(Some(on_event));
    Ok(handle)
}

pub(crate) fn unsubscribe(handle: usize) -> bool {
    let mut tracer = tracer();
    let before = tracer.subscribers.len();
    tracer
        .subscribers
        .retain(|subscriber| Arc::as_ptr(subscriber) as usize != handle);
    tracer.subscribers.len() < before
}

/// A tool by its handle. `None` once CUPTI has shut down.
pub(crate) fn find(handle: usize) -> Option<Arc<Subscriber>> {
    let is_due = |faults: Faults| TOLD.load(Ordering::Relaxed) >= faults.finalized_after;
    let is_finalized = faults().is_some_and(is_due);
    let mut tracer = tracer();
    tracer.finalized |= is_finalized;
    if tracer.finalized {
        return None;
    }
    tracer
        .subscribers
        .iter()
        .find(|subscriber| Arc::as_ptr(subscriber) as usize == handle)
        .cloned()
}

/// Whether callbacks have silently stopped.
pub(crate) fn is_lost() -> bool {
    faults().is_some_and(|faults| TOLD.load(Ordering::Relaxed) >= faults.lost_after)
}

/// `CUpti_StateData`.
#[repr(C)]
struct StateData {
    result: u32,
    message: *const c_char,
}

/// Passes an event on to every tool that wants it, unless a fault is due.
unsafe extern "C" fn on_event(domain: u32, cbid: u32, data: *const c_void) {
    let Some(faults) = faults() else { return };
    let subscribers = {
        let tracer = tracer();
        if tracer.finalized {
            Vec::new()
        } else {
            tracer.subscribers.clone()
        }
    };
    if TOLD.load(Ordering::Relaxed) >= faults.lost_after {
        return;
    }
    if TOLD.load(Ordering::Relaxed) >= faults.finalized_after {
        tracer().finalized = true;
        return;
    }
    if TOLD.load(Ordering::Relaxed) >= faults.fatal_after {
        shut_down(&subscribers);
        return;
    }
    for subscriber in subscribers {
        if subscriber.tell(domain, cbid, data) {
            TOLD.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A fatal error: told once, then nothing works any more.
fn shut_down(subscribers: &[Arc<Subscriber>]) {
    if std::mem::replace(&mut tracer().finalized, true) {
        return;
    }
    let data = StateData {
        result: result::UNKNOWN,
        message: c"a fault was asked for".as_ptr(),
    };
    for subscriber in subscribers {
        subscriber.tell(STATE, FATAL_ERROR, ptr::from_ref(&data).cast());
    }
}
