//! A subscriber hears the stand-in for libcupti as it would the real one, in the layouts of bindings made
//! from NVIDIA's headers.

#![expect(unsafe_code, reason = "CUPTI's C interface")]

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::Mutex;

use cudarc::cupti::sys::{self as cupti, CUpti_CallbackDomain as Domain, CUptiResult};
use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, sys};
use gpu_leak_tests::fake::Fake;

/// What a callback said.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Enter {
        name: String,
        argument: u64,
    },
    Exit {
        name: String,
        result: u32,
        argument: u64,
        same_call: bool,
    },
    Resource(u32),
    Fatal,
}

static SEEN: Mutex<Vec<Seen>> = Mutex::new(Vec::new());

const MEM_ALLOC: u32 = 243;
const MEM_FREE: u32 = 245;
const MEM_ALLOC_ASYNC: u32 = 598;

unsafe extern "C" fn on_event(_: *mut c_void, domain: Domain, cbid: u32, data: *const c_void) {
    let seen = match domain {
        Domain::CUPTI_CB_DOMAIN_DRIVER_API => {
            // SAFETY: what this domain's data are, valid until this function returns.
            let data = unsafe { &*data.cast::<cupti::CUpti_CallbackData>() };
            // SAFETY: a C string, and the parameters of the call with this id.
            let (name, argument) = unsafe {
                let argument = match cbid {
                    MEM_ALLOC => {
                        (*data.functionParams.cast::<cupti::cuMemAlloc_v2_params>()).bytesize as u64
                    }
                    MEM_ALLOC_ASYNC => {
                        (*data.functionParams.cast::<cupti::cuMemAllocAsync_params>()).bytesize
                            as u64
                    }
                    _ => (*data.functionParams.cast::<cupti::cuMemFree_v2_params>()).dptr,
                };
                (
                    CStr::from_ptr(data.functionName)
                        .to_string_lossy()
                        .into_owned(),
                    argument,
                )
            };
            let mark = u64::from(data.correlationId);
            if data.callbackSite as u32 == 0 {
                // SAFETY: ours to write until EXIT has returned.
                unsafe { *data.correlationData = mark };
                Seen::Enter { name, argument }
            } else {
                // SAFETY: at EXIT both hold what they promise.
                let (result, left) = unsafe {
                    (
                        *data.functionReturnValue.cast::<u32>(),
                        *data.correlationData,
                    )
                };
                Seen::Exit {
                    name,
                    result,
                    argument,
                    same_call: left == mark,
                }
            }
        }
        Domain::CUPTI_CB_DOMAIN_RESOURCE => Seen::Resource(cbid),
        _ => Seen::Fatal,
    };
    SEEN.lock().expect("no panic under the lock").push(seen);
}

fn subscribe() -> Result<cupti::CUpti_SubscriberHandle, CUptiResult> {
    let mut subscriber = ptr::null_mut();
    // SAFETY: a valid out pointer and a function of this program.
    match unsafe { cupti::cuptiSubscribe(&raw mut subscriber, Some(on_event), ptr::null_mut()) } {
        CUptiResult::CUPTI_SUCCESS => Ok(subscriber),
        error => Err(error),
    }
}

fn subscribe_to(ids: &[(Domain, u32)]) -> cupti::CUpti_SubscriberHandle {
    let subscriber = subscribe().expect("nobody else has subscribed");
    for &(domain, id) in ids {
        // SAFETY: a live subscriber.
        let enabled = unsafe { cupti::cuptiEnableCallback(1, subscriber, domain, id) };
        assert_eq!(enabled, CUptiResult::CUPTI_SUCCESS);
    }
    subscriber
}

const MEMORY: [(Domain, u32); 3] = [
    (Domain::CUPTI_CB_DOMAIN_DRIVER_API, MEM_ALLOC),
    (Domain::CUPTI_CB_DOMAIN_DRIVER_API, MEM_FREE),
    (Domain::CUPTI_CB_DOMAIN_STATE, 1),
];

fn seen() -> Vec<Seen> {
    std::mem::take(&mut *SEEN.lock().expect("no panic under the lock"))
}

fn allocate(size: usize) -> u64 {
    let mut address = 0;
    // SAFETY: a valid out pointer.
    let code = unsafe { sys::cuMemAlloc_v2(&raw mut address, size) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
    address
}

fn free(address: u64) -> CUresult {
    // SAFETY: the driver checks the address.
    unsafe { sys::cuMemFree_v2(address) }
}

fn enter(name: &str, argument: u64) -> Seen {
    Seen::Enter {
        name: name.to_owned(),
        argument,
    }
}

fn exit(name: &str, result: u32, argument: u64) -> Seen {
    Seen::Exit {
        name: name.to_owned(),
        result,
        argument,
        same_call: true,
    }
}

#[test]
fn a_call_is_told_at_its_enter_and_its_exit() {
    Fake::new().here(|_| {
        subscribe_to(&MEMORY);
        let _context = CudaContext::new(0).expect("a context");
        let address = allocate(1000);
        free(address);
        free(address);
        let expected = [
            enter("cuMemAlloc_v2", 1000),
            exit("cuMemAlloc_v2", 0, 1000),
            enter("cuMemFree_v2", address),
            exit("cuMemFree_v2", 0, address),
            enter("cuMemFree_v2", address),
            exit("cuMemFree_v2", 1, address),
        ];
        assert_eq!(seen(), expected);
    });
}

#[test]
fn contexts_and_captured_allocations_are_told_by_resource_callbacks() {
    Fake::new().here(|_| {
        let resource = |id| (Domain::CUPTI_CB_DOMAIN_RESOURCE, id);
        let allocation = (Domain::CUPTI_CB_DOMAIN_DRIVER_API, MEM_ALLOC_ASYNC);
        subscribe_to(&[resource(1), resource(2), resource(13), allocation]);
        let context = CudaContext::new(0).expect("a context");
        let stream = context.new_stream().expect("a stream");
        // SAFETY: live handles and a valid out pointer, here and below.
        unsafe {
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
            sys::cuStreamBeginCapture_v2(stream.cu_stream(), mode);
            let (mut address, mut graph) = (0, ptr::null_mut());
            sys::cuMemAllocAsync(&raw mut address, 8, stream.cu_stream());
            sys::cuStreamEndCapture(stream.cu_stream(), &raw mut graph);
            sys::cuGraphDestroy(graph);
        }
        drop((stream, context));
        let expected = [
            Seen::Resource(1),
            enter("cuMemAllocAsync", 8),
            Seen::Resource(13),
            exit("cuMemAllocAsync", 0, 8),
            Seen::Resource(2),
        ];
        assert_eq!(seen(), expected);
    });
}

#[test]
fn another_thread_gets_the_address_before_the_free_has_returned() {
    Fake::new().fault("delay:cuMemFree_v2").here(|control| {
        subscribe_to(&MEMORY);
        let context = CudaContext::new(0).expect("a context");
        let address = allocate(64);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                context.bind_to_thread().expect("a live context");
                free(address);
            });
            control.wait_held("cuMemFree_v2");
            assert_eq!(allocate(64), address);
            control.release("cuMemFree_v2");
        });
        let expected = [
            enter("cuMemAlloc_v2", 64),
            exit("cuMemAlloc_v2", 0, 64),
            enter("cuMemFree_v2", address),
            enter("cuMemAlloc_v2", 64),
            exit("cuMemAlloc_v2", 0, 64),
            exit("cuMemFree_v2", 0, address),
        ];
        assert_eq!(seen(), expected);
    });
}

#[test]
fn a_second_subscriber_is_refused() {
    Fake::new().here(|_| {
        let first = subscribe().expect("nobody else has subscribed");
        assert_eq!(
            subscribe(),
            Err(CUptiResult::CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
        );
        // SAFETY: a live subscriber.
        let code = unsafe { cupti::cuptiUnsubscribe(first) };
        assert_eq!(code, CUptiResult::CUPTI_SUCCESS);
        subscribe().expect("there is room again");
    });
}

#[test]
fn an_id_that_this_version_does_not_know_cannot_be_enabled() {
    Fake::new().fault("cupti:version=22").here(|_| {
        let subscriber = subscribe().expect("nobody else has subscribed");
        // SAFETY: a live subscriber.
        let enable = |id| unsafe {
            cupti::cuptiEnableCallback(1, subscriber, Domain::CUPTI_CB_DOMAIN_DRIVER_API, id)
        };
        assert_eq!(enable(753), CUptiResult::CUPTI_SUCCESS);
        assert_eq!(enable(754), CUptiResult::CUPTI_ERROR_INVALID_PARAMETER);
    });
}

#[test]
fn a_taken_tracer_says_by_whom() {
    Fake::new().fault("cupti:taken=nsys").here(|_| {
        assert_eq!(
            subscribe(),
            Err(CUptiResult::CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
        );
        let (mut subscriber, mut name) = (ptr::null_mut(), [0; 64]);
        // SAFETY: zero is a valid value of every field; the name's place outlives the call.
        let refused = unsafe {
            let mut params: cupti::CUpti_SubscriberParams = std::mem::zeroed();
            params.structSize = 32;
            params.oldSubscriberName = name.as_mut_ptr();
            params.oldSubscriberSize = name.len();
            cupti::cuptiSubscribe_v2(
                &raw mut subscriber,
                Some(on_event),
                ptr::null_mut(),
                &raw mut params,
            )
        };
        assert_eq!(
            refused,
            CUptiResult::CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
        );
        // SAFETY: the library has written a C string.
        assert_eq!(unsafe { CStr::from_ptr(name.as_ptr()) }, c"nsys");
    });
}

#[test]
fn without_a_driver_that_fits_there_is_no_subscription() {
    Fake::new().fault("cupti:too_old").here(|_| {
        assert_eq!(subscribe(), Err(CUptiResult::CUPTI_ERROR_NOT_INITIALIZED));
    });
}

/// Whether CUPTI says that frees are told.
fn heartbeat(subscriber: cupti::CUpti_SubscriberHandle) -> Result<bool, CUptiResult> {
    let mut enabled = 0;
    // SAFETY: a valid out pointer.
    match unsafe {
        cupti::cuptiGetCallbackState(
            &raw mut enabled,
            subscriber,
            Domain::CUPTI_CB_DOMAIN_DRIVER_API,
            MEM_FREE,
        )
    } {
        CUptiResult::CUPTI_SUCCESS => Ok(enabled != 0),
        error => Err(error),
    }
}

#[test]
fn a_lost_subscription_is_silent_and_only_its_state_tells() {
    Fake::new().fault("cupti:lost@2").here(|_| {
        let subscriber = subscribe_to(&MEMORY);
        let _context = CudaContext::new(0).expect("a context");
        assert_eq!(heartbeat(subscriber), Ok(true));
        let address = allocate(8);
        free(address);
        assert_eq!(
            seen(),
            [enter("cuMemAlloc_v2", 8), exit("cuMemAlloc_v2", 0, 8)]
        );
        assert_eq!(heartbeat(subscriber), Ok(false));
    });
}

#[test]
fn a_tracer_that_another_tool_shuts_down_is_silent_and_refuses_everything() {
    Fake::new().here(|control| {
        let subscriber = subscribe_to(&MEMORY);
        let _context = CudaContext::new(0).expect("a context");
        let address = allocate(8);
        assert_eq!(heartbeat(subscriber), Ok(true));
        control.set_fault("cupti:finalized@0");
        free(address);
        assert_eq!(
            seen(),
            [enter("cuMemAlloc_v2", 8), exit("cuMemAlloc_v2", 0, 8)]
        );
        assert_eq!(
            heartbeat(subscriber),
            Err(CUptiResult::CUPTI_ERROR_INVALID_PARAMETER)
        );
        assert_eq!(subscribe(), Err(CUptiResult::CUPTI_ERROR_NOT_INITIALIZED));
    });
}

#[test]
fn a_fatal_error_is_told_once_and_ends_everything() {
    Fake::new().fault("cupti:fatal@1").here(|_| {
        let subscriber = subscribe_to(&MEMORY);
        let _context = CudaContext::new(0).expect("a context");
        let address = allocate(8);
        free(address);
        assert_eq!(seen(), [enter("cuMemAlloc_v2", 8), Seen::Fatal]);
        assert_eq!(
            heartbeat(subscriber),
            Err(CUptiResult::CUPTI_ERROR_INVALID_PARAMETER)
        );
    });
}
