//! CUPTI's C interface, as far as it is used: numbers and layouts from the headers of CUPTI 11.8
//! to 13.5, among which these do not differ.
//!
//! Ids and results are plain integers: an enum of Rust's would be undefined behaviour at the first
//! value that a newer CUPTI adds.

use std::ffi::{c_char, c_void};

/// `CUptiResult`
pub(super) type CuptiResult = u32;
pub(super) const SUCCESS: CuptiResult = 0;
pub(super) const INVALID_PARAMETER: CuptiResult = 1;
pub(super) const API_NOT_IMPLEMENTED: CuptiResult = 11;
/// What the oldest versions return instead of [`MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`].
pub(super) const MAX_LIMIT_REACHED: CuptiResult = 12;
/// No driver, or one too old for this CUPTI.
pub(super) const NOT_INITIALIZED: CuptiResult = 15;
pub(super) const MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED: CuptiResult = 39;

/// `CUpti_CallbackDomain`
pub(super) const DOMAIN_DRIVER_API: u32 = 1;
pub(super) const DOMAIN_RESOURCE: u32 = 3;
pub(super) const DOMAIN_STATE: u32 = 6;

/// `CUpti_CallbackIdResource`
pub(super) const CONTEXT_CREATED: u32 = 1;
pub(super) const CONTEXT_DESTROY_STARTING: u32 = 2;
pub(super) const GRAPH_NODE_CREATED: u32 = 13;

/// `CUpti_CallbackIdState`
pub(super) const FATAL_ERROR: u32 = 1;

/// `CUpti_ApiCallbackSite`
pub(super) const SITE_ENTER: u32 = 0;
pub(super) const SITE_EXIT: u32 = 1;

/// `CUpti_SubscriberHandle`
pub(super) type SubscriberHandle = *mut c_void;

/// `CUpti_CallbackFunc`
pub(super) type Callback =
    unsafe extern "C" fn(user: *mut c_void, domain: u32, id: u32, data: *const c_void);

/// `CUpti_CallbackData`: what a callback of the driver domain gets. Valid only inside it.
#[derive(Debug)]
#[repr(C)]
pub(super) struct CallbackData {
    pub(super) site: u32,
    pub(super) function_name: *const c_char,
    /// The call's parameters, laid out as in [`params`](super::params).
    pub(super) function_params: *const c_void,
    /// The call's `CUresult`; valid at its end only.
    pub(super) function_return_value: *const u32,
    /// Not initialised outside launches: never read.
    pub(super) symbol_name: *const c_char,
    /// The context current to the thread; may be null.
    pub(super) context: *const c_void,
    pub(super) context_uid: u32,
    /// A slot that the two callbacks of one call share.
    pub(super) correlation_data: *mut u64,
    pub(super) correlation_id: u32,
}

/// `CUpti_ResourceData`: what the resource domain's callbacks get.
#[derive(Debug)]
#[repr(C)]
pub(super) struct ResourceData {
    pub(super) context: *const c_void,
    pub(super) resource_handle: *const c_void,
    pub(super) resource_descriptor: *const c_void,
}

/// `CUpti_GraphData`, up to the graph: what a [`ResourceData`] about graphs describes.
#[derive(Debug)]
#[repr(C)]
pub(super) struct GraphData {
    pub(super) graph: *const c_void,
}

/// `CUpti_SubscriberParams` of CUPTI 13.2 and later; 13.0 and 13.1 know only the first four fields.
#[derive(Debug)]
#[repr(C)]
pub(super) struct SubscriberParams {
    pub(super) struct_size: usize,
    pub(super) subscriber_name: *const c_char,
    pub(super) old_subscriber_name: *mut c_char,
    pub(super) old_subscriber_size: usize,
    pub(super) allow_multiple_subscribers: u8,
    pub(super) padding: [u8; 7],
}

/// The size of [`SubscriberParams`] from CUPTI 13.2 on.
pub(super) const SUBSCRIBER_PARAMS_SIZE: usize = size_of::<SubscriberParams>();
/// Its size in CUPTI 13.0 and 13.1.
pub(super) const SUBSCRIBER_PARAMS_SIZE_13_0: usize =
    std::mem::offset_of!(SubscriberParams, allow_multiple_subscribers);
/// `CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN`
pub(super) const OLD_SUBSCRIBER_NAME_LENGTH: usize = 64;

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::{CallbackData, ResourceData, SUBSCRIBER_PARAMS_SIZE, SUBSCRIBER_PARAMS_SIZE_13_0};

    /// Printed by a C compiler from `cupti_callbacks.h` of 13.5.
    #[test]
    fn layouts_are_those_of_the_header() {
        assert_eq!(size_of::<CallbackData>(), 72);
        assert_eq!(offset_of!(CallbackData, function_name), 8);
        assert_eq!(offset_of!(CallbackData, function_params), 16);
        assert_eq!(offset_of!(CallbackData, function_return_value), 24);
        assert_eq!(offset_of!(CallbackData, symbol_name), 32);
        assert_eq!(offset_of!(CallbackData, context), 40);
        assert_eq!(offset_of!(CallbackData, context_uid), 48);
        assert_eq!(offset_of!(CallbackData, correlation_data), 56);
        assert_eq!(offset_of!(CallbackData, correlation_id), 64);
        assert_eq!(size_of::<ResourceData>(), 24);
        assert_eq!(SUBSCRIBER_PARAMS_SIZE, 40);
        assert_eq!(SUBSCRIBER_PARAMS_SIZE_13_0, 32);
    }
}
