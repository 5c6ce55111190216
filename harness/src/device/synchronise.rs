//! Waits until the devices have done their work, so that all frees have happened.

#![expect(unsafe_code, reason = "passes raw handles to the driver's C functions")]

use std::ops::RangeInclusive;

use super::captures;
use super::driver::{self, Driver, NOT_FOUND};
use super::exclusion::{CONTEXT_EXCLUSION, STREAM_EXCLUSION};
use crate::judge::ContextError;
use crate::ledger::event::{ContextUid, CuResult};
use crate::ledger::{self, ContextEntry, Kind, Record};
use crate::recursion_guard::quiet;

/// `CU_STREAM_LEGACY`
const LEGACY_STREAM: u64 = 1;
/// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` to `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD`. The call
/// was refused because of a capture, and the context itself is intact.
const CAPTURE_ERRORS: RangeInclusive<CuResult> = 900..=908;
/// `CUDA_ERROR_DEINITIALIZED`, `…_INVALID_CONTEXT` and `…_CONTEXT_IS_DESTROYED`. There is no
/// context that could be poisoned.
const GONE: [CuResult; 3] = [4, 201, 709];

/// Waits for the work of every live context that the ledger knows, and returns the contexts that
/// are poisoned. This takes 0.4 µs for an idle context. Call this only while the driver's calls are
/// intercepted.
///
/// While a stream capture is in progress, contexts are not synchronised, because that would break
/// the capture. Instead, this waits for those live streams that `own` selects (the streams of the
/// scope) and that are not being captured.
pub(crate) fn contexts(own: impl Fn(&Record) -> bool) -> Vec<ContextError> {
    let _quiet = quiet();
    let Some(driver) = driver::get() else {
        return Vec::new();
    };
    let mut poisoned = Vec::new();
    for context in ledger::live().contexts.all() {
        // Other contexts may have been destroyed during the wait for the previous one.
        let Some(_contexts) = CONTEXT_EXCLUSION.read() else {
            break;
        };
        // A primary context without a handle has not been used by the program itself.
        if context.handle == 0 || !ledger::live().contexts.is_live(context.uid) {
            continue;
        }
        let wait = || {
            if captures::active() || legacy_stream_is_blocked(driver) {
                synchronise_streams(driver, &context, &own)
            } else {
                driver.synchronise_context()
            }
        };
        // SAFETY: the context is in the ledger, its destruction would have been intercepted, and no
        // context is destroyed while `_contexts` exists, unless the destroy call has already waited
        // for ten seconds. Otherwise, the two calls might wait for each other forever.
        let waited = unsafe { driver.in_context(context.handle, wait) };
        if let Err(error) = waited
            && is_poison(error)
        {
            let place = context.place;
            poisoned.push(ContextError { place, error });
        }
    }
    poisoned
}

/// Whether an error of a synchronising call means that the context is broken.
fn is_poison(error: CuResult) -> bool {
    !CAPTURE_ERRORS.contains(&error) && !GONE.contains(&error) && error != NOT_FOUND
}

/// Whether a blocking stream of the current context is being captured. The capture may have begun
/// before the harness began to listen. The driver reports such a capture if it is queried about the
/// legacy stream.
fn legacy_stream_is_blocked(driver: &Driver) -> bool {
    // SAFETY: the legacy stream always exists.
    let asked = unsafe { driver.stream_is_capturing(LEGACY_STREAM) };
    matches!(asked, Err(error) if CAPTURE_ERRORS.contains(&error))
}

/// Waits for those streams of the current context, `context`, that `own` selects and that are not
/// being captured.
fn synchronise_streams(
    driver: &Driver,
    context: &ContextEntry,
    own: impl Fn(&Record) -> bool,
) -> Result<(), CuResult> {
    // The streams of green contexts belong to no context.
    let contexts = [context.uid, ContextUid::default()];
    let streams = ledger::live().select(|record| {
        record.made.kind == Kind::Stream && contexts.contains(&record.made.context) && own(record)
    });
    for stream in streams {
        let (key, handle) = (&stream.made.key, stream.made.key.value());
        let Some(_streams) = STREAM_EXCLUSION.read() else {
            break;
        };
        let is_there = ledger::live().get(key).is_some();
        // SAFETY: the stream is in the ledger, and no stream is destroyed while `_streams` exists.
        unsafe {
            if is_there && driver.stream_is_capturing(handle) == Ok(0) {
                driver.synchronise_stream(handle)?;
            }
        }
    }
    Ok(())
}
