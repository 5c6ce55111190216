//! Calls of the driver's C interface, and what a subscriber hears of them.

#![expect(unsafe_code, reason = "calls of the C interfaces of CUDA and CUPTI")]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Mutex;

use cudarc::cupti::sys::{self as cupti, CUpti_CallbackDomain as Domain, CUptiResult};
use cudarc::driver::{result, sys};
use sys::CUresult;

pub(crate) const MIB: u64 = 1 << 20;

/// The answer of a call that writes it through a pointer.
pub(crate) fn answer<T>(call: impl FnOnce(*mut T) -> CUresult) -> T {
    let mut value = MaybeUninit::uninit();
    ok(call(value.as_mut_ptr()));
    // SAFETY: the call succeeded, so it has written its answer.
    unsafe { value.assume_init() }
}

/// What a call refuses an answer with.
pub(crate) fn refusal<T>(call: impl FnOnce(*mut T) -> CUresult) -> CUresult {
    let mut value = MaybeUninit::uninit();
    call(value.as_mut_ptr())
}

/// A call that must succeed.
#[track_caller]
pub(crate) fn ok(code: CUresult) {
    assert_eq!(code, CUresult::CUDA_SUCCESS);
}

/// The primary context of the first device, current to this thread.
pub(crate) fn context() -> sys::CUcontext {
    context_of(0)
}

/// The same of another device.
pub(crate) fn context_of(device: i32) -> sys::CUcontext {
    result::init().expect("a driver");
    // SAFETY: a valid out pointer, and a device that is there.
    let context = answer(|out| unsafe { sys::cuDevicePrimaryCtxRetain(out, device) });
    // SAFETY: the context is live.
    ok(unsafe { sys::cuCtxSetCurrent(context) });
    context
}

/// Free bytes of the current context's device.
pub(crate) fn free_bytes() -> u64 {
    result::mem_get_info().expect("figures").0 as u64
}

/// A callback: its id, whether it was the EXIT, and then the call's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// With what the test reads from the parameters.
    Enter(u32, u64),
    Exit(u32, u32, u64),
    /// With the graph of the graph data.
    GraphNode(u32, u64),
    Resource(u32),
}

/// Reads one number from the parameters of a call.
pub(crate) type Read = unsafe fn(cbid: u32, params: *const c_void) -> u64;

static HEARD: Mutex<(Vec<Heard>, Option<Read>)> = Mutex::new((Vec::new(), None));

/// `CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED`.
pub(crate) const GRAPH_NODE_CREATED: u32 = 13;

unsafe extern "C" fn on_event(_: *mut c_void, domain: Domain, cbid: u32, data: *const c_void) {
    let mut heard = HEARD.lock().expect("no panic under the lock");
    let event = match domain {
        Domain::CUPTI_CB_DOMAIN_DRIVER_API => {
            // SAFETY: what this domain's data are, valid until this function returns.
            let data = unsafe { &*data.cast::<cupti::CUpti_CallbackData>() };
            // SAFETY: the parameters of the call with this id, which the test has written `read` for.
            let number = heard
                .1
                .map_or(0, |read| unsafe { read(cbid, data.functionParams) });
            if data.callbackSite as u32 == 0 {
                Heard::Enter(cbid, number)
            } else {
                // SAFETY: the result is there at EXIT.
                let code = unsafe { *data.functionReturnValue.cast::<u32>() };
                Heard::Exit(cbid, code, number)
            }
        }
        _ if cbid == GRAPH_NODE_CREATED => {
            // SAFETY: what this domain's data are, and its descriptor for this id.
            let graph = unsafe {
                let data = &*data.cast::<cupti::CUpti_ResourceData>();
                (*data.resourceDescriptor.cast::<cupti::CUpti_GraphData>()).graph
            };
            Heard::GraphNode(cbid, graph as u64)
        }
        _ => Heard::Resource(cbid),
    };
    heard.0.push(event);
}

/// Subscribes to these calls and RESOURCE callbacks; `read` says what to keep of the parameters.
pub(crate) fn listen(calls: &[u32], resources: &[u32], read: Option<Read>) {
    HEARD.lock().expect("no panic under the lock").1 = read;
    let mut subscriber = ptr::null_mut();
    // SAFETY: a valid out pointer and a function of this program.
    let code =
        unsafe { cupti::cuptiSubscribe(&raw mut subscriber, Some(on_event), ptr::null_mut()) };
    assert_eq!(code, CUptiResult::CUPTI_SUCCESS);
    let calls = calls
        .iter()
        .map(|&id| (Domain::CUPTI_CB_DOMAIN_DRIVER_API, id));
    let resources = resources
        .iter()
        .map(|&id| (Domain::CUPTI_CB_DOMAIN_RESOURCE, id));
    for (domain, id) in calls.chain(resources) {
        // SAFETY: a live subscriber.
        let code = unsafe { cupti::cuptiEnableCallback(1, subscriber, domain, id) };
        assert_eq!(code, CUptiResult::CUPTI_SUCCESS, "id {id}");
    }
}

/// What was heard since the last time.
pub(crate) fn heard() -> Vec<Heard> {
    std::mem::take(&mut HEARD.lock().expect("no panic under the lock").0)
}

/// The two callbacks of a call that succeeded.
pub(crate) fn pair(cbid: u32, at_enter: u64, at_exit: u64) -> [Heard; 2] {
    [Heard::Enter(cbid, at_enter), Heard::Exit(cbid, 0, at_exit)]
}

/// The ids of the calls that succeeded, by their EXITs.
pub(crate) fn succeeded() -> Vec<u32> {
    heard()
        .into_iter()
        .filter_map(|event| match event {
            Heard::Exit(cbid, 0, _) => Some(cbid),
            _ => None,
        })
        .collect()
}
