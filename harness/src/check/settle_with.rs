//! Functions that the code under test registers, and that run before its check reads the live
//! records. The wait for frees in flight is in `run.rs`.

use super::body::{End, caught};
use super::scopes::open::{Token, current};
use super::scopes::tree::{self, Lineage};
use crate::ledger::ScopeId;
use crate::sync::{Mutex, locked};

type Settle = Box<dyn FnOnce() + Send>;

/// Functions registered in scopes that have not ended, the oldest first. Functions that were
/// registered in an abandoned block are called at the end of the check around that block. If there
/// is no such check, they are dropped at the next call.
static REGISTERED: Mutex<Vec<(ScopeId, Settle)>> = Mutex::new(Vec::new());

/// Registers `settle`, which is called when the body of this thread's check has ended, before the
/// check reads the live records. `settle` counts as part of the body: a panic in it fails the test,
/// unless the body has already panicked.
///
/// Some libraries free objects only when the device is polled: wgpu frees the resources that its
/// queue has used in `Device::poll`. Without such a call, resources that one run leaves behind are
/// freed during the next run, and are reported as `deferred`. The check itself never waits for a
/// Vulkan device, because that would need the queues, which belong to the program.
///
/// The function is called once, in this run only. A body that runs again registers it again. Its
/// captured values are dropped before the check reads the live records. Outside any check, the
/// function is dropped immediately without being called.
///
/// ```
/// use std::sync::Arc;
/// use gpu_leak_check::{Check, settle_with};
/// # struct Device;
/// # impl Device { fn poll(&self) {} }
///
/// Check::new("one step").run(|| {
///     let device = Arc::new(Device);
///     let polled = Arc::clone(&device);
///     settle_with(move || polled.poll());
///     // work that the device may still be doing when the step ends
/// });
/// ```
pub fn settle_with(settle: impl FnOnce() + Send + 'static) {
    if let Some(scope) = current() {
        let mut registered = locked(&REGISTERED);
        let abandoned = registered.extract_if(.., |(of, _)| tree::open_scope(*of).is_none());
        let abandoned: Vec<_> = abandoned.collect();
        registered.push((scope, Box::new(settle)));
        drop(registered);
        // The functions are dropped outside the lock, because their destructors may register more
        // functions.
        drop(abandoned);
    }
}

/// How many times in a row the functions that are being called may register further ones.
const MOST_ROUNDS: usize = 100;

/// Calls the functions registered in `scope`, on this thread.
fn settle(scope: ScopeId) {
    let _token = Token::set(scope);
    for _ in 0..MOST_ROUNDS {
        let registered = take(scope);
        if registered.is_empty() {
            return;
        }
        for settle in registered {
            settle();
        }
    }
    panic!(
        "gpu-leak-check: functions registered with `settle_with` keep registering further ones \
         ({MOST_ROUNDS} times so far): register them in the body"
    );
}

/// Calls the functions registered in `scope`, on this thread, after a body that ended with `end`.
/// Returns the combined end of the body and of the registered functions.
pub(super) fn settle_after(scope: ScopeId, end: End) -> End {
    match (caught(|| settle(scope)), end) {
        (panicked @ End::Panicked(_), End::Passed) => panicked,
        (_, end) => end,
    }
}

/// Removes the functions registered in `scope` and inside it, and returns them.
fn take(scope: ScopeId) -> Vec<Settle> {
    let mut registered = locked(&REGISTERED);
    if registered.is_empty() {
        return Vec::new();
    }
    let lineage = Lineage::of(scope);
    let own = registered.extract_if(.., |(of, _)| lineage.has(*of));
    own.map(|(_, settle)| settle).collect()
}
