//! `CUptiResult`: the codes this library answers with.

use std::ffi::CStr;

pub(crate) const SUCCESS: u32 = 0;
pub(crate) const INVALID_PARAMETER: u32 = 1;
pub(crate) const INVALID_CONTEXT: u32 = 3;
pub(crate) const NOT_INITIALIZED: u32 = 15;
pub(crate) const MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED: u32 = 39;
pub(crate) const UNKNOWN: u32 = 999;

/// `cuptiGetResultString`.
pub(crate) fn name(code: u32) -> Option<&'static CStr> {
    Some(match code {
        SUCCESS => c"CUPTI_SUCCESS",
        INVALID_PARAMETER => c"CUPTI_ERROR_INVALID_PARAMETER",
        2 => c"CUPTI_ERROR_INVALID_DEVICE",
        INVALID_CONTEXT => c"CUPTI_ERROR_INVALID_CONTEXT",
        7 => c"CUPTI_ERROR_INVALID_OPERATION",
        12 => c"CUPTI_ERROR_MAX_LIMIT_REACHED",
        14 => c"CUPTI_ERROR_NOT_COMPATIBLE",
        NOT_INITIALIZED => c"CUPTI_ERROR_NOT_INITIALIZED",
        27 => c"CUPTI_ERROR_NOT_SUPPORTED",
        35 => c"CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
        MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED => c"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
        41 => c"CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED",
        UNKNOWN => c"CUPTI_ERROR_UNKNOWN",
        _ => return None,
    })
}
