//! Functions by which tests inspect and control the stand-in. The real libcuda does not have them.
//! Their names begin with `fake_cuda_`.

#![expect(
    unsafe_code,
    reason = "exports symbols of the library with raw arguments"
)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::error::Error;
use crate::fault;
use crate::handle::Handle;
use crate::memory::Kind;
use crate::object::Class;
use crate::state::{self, Driver};

/// Registers a function to run when the process exits.
pub(crate) fn at_exit(action: fn()) {
    static ACTION: OnceLock<fn()> = OnceLock::new();
    extern "C" fn run() {
        if let Some(action) = ACTION.get() {
            action();
        }
    }
    if ACTION.set(action).is_ok() {
        // SAFETY: `run` is a plain function of this library, which is never unloaded.
        unsafe { libc::atexit(run) };
    }
}

/// Returns the number of live objects of a kind, and their bytes. Returns `None` if there is no
/// such kind.
fn live_of(driver: &Driver, kind: &str) -> Option<(u64, u64)> {
    let handles = |count: usize| Some((count as u64, 0));
    match kind {
        "context" => handles(
            driver
                .contexts
                .iter()
                .filter(|(_, context)| context.is_real())
                .count(),
        ),
        "green-context" => handles(driver.greens.len()),
        "stream" => handles(driver.streams.len()),
        "event" => handles(driver.events.len()),
        "module" => handles(driver.modules.len()),
        "library" => handles(driver.libraries.len()),
        "graph" => handles(
            driver
                .graphs
                .iter()
                .filter(|(_, graph)| !graph.is_child())
                .count(),
        ),
        "user-object" => handles(driver.user_objects.len()),
        "exec" => handles(driver.execs.len()),
        "pool" => handles(
            driver
                .pools
                .iter()
                .filter(|(_, pool)| pool.counts_as_live())
                .count(),
        ),
        "physical" => Some(
            driver
                .physical
                .iter()
                .filter(|(_, physical)| physical.multicast.is_none())
                .fold((0, 0), |(count, bytes), (_, physical)| {
                    (count + 1, bytes + physical.size)
                }),
        ),
        "multicast" => handles(
            driver
                .physical
                .iter()
                .filter(|(_, physical)| physical.multicast.is_some())
                .count(),
        ),
        "memory-handle" => handles(driver.memory_handles.len()),
        "address-range" => Some((
            driver.reserved_ranges.len() as u64,
            driver.reserved_ranges.values().sum(),
        )),
        _ => {
            if let Some(class) = Class::of_name(kind) {
                return Some(driver.objects.live(class));
            }
            let kind = Kind::of_name(kind)?;
            let of_kind = driver
                .memory
                .values()
                .filter(|allocation| allocation.kind == kind);
            Some(of_kind.fold((0, 0), |(count, bytes), allocation| {
                (count + 1, bytes + allocation.size)
            }))
        }
    }
}

/// # Safety
///
/// `text` must be a C string that lives through the call.
unsafe fn text<'a>(text: *const c_char) -> &'a CStr {
    // SAFETY: the caller upholds the contract.
    unsafe { CStr::from_ptr(text) }
}

/// Adds faults to the plan, in the syntax of `FAKE_CUDA`. An unknown word ends the process.
///
/// # Safety
///
/// `words` must be a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_set_fault(words: *const c_char) {
    // SAFETY: the caller upholds the contract.
    let words = unsafe { text(words) }.to_string_lossy();
    let outcome = fault::plan().add(&words);
    outcome.unwrap_or_else(|problem| fault::give_up(&format!("fake_cuda_set_fault: {problem}")));
}

/// Removes every fault.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_clear_faults() {
    *fault::plan() = fault::Plan::default();
}

/// Breaks a context for good. Returns 0 or the driver's error.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_poison(context: Handle) -> u32 {
    crate::context::poison(context, Error::ILLEGAL_ADDRESS).map_or_else(|error| error.0, |()| 0)
}

/// Returns how many objects of a kind are live, and writes their size in bytes. The name of a kind
/// is that of an arm of [`live_of`], of a [`Class`] or of a [`Kind`]. Any other name ends the
/// process.
///
/// # Safety
///
/// `kind` must be a C string; `bytes` must be null or valid for writes.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_live(kind: *const c_char, bytes: *mut u64) -> u64 {
    // SAFETY: the caller upholds the contract.
    let kind = unsafe { text(kind) }.to_string_lossy();
    let Some((count, held)) = live_of(&state::state(), &kind) else {
        fault::give_up(&format!(
            "fake_cuda_live: `{kind}` is the name neither of an arm of `live_of` in \
             tests/fake-driver/cuda/src/control.rs nor of a `Class` in object.rs nor of a `Kind` \
             in memory.rs"
        ))
    };
    if !bytes.is_null() {
        // SAFETY: the caller upholds the contract.
        unsafe { bytes.write(held) };
    }
    count
}

/// Returns the number of contexts created since the process began. Primary contexts count, and
/// count again when they are created again after a reset.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_contexts_made() -> u32 {
    state::state().contexts_made
}

/// Blocks until `delay:NAME` holds a thread in the function.
///
/// # Safety
///
/// `name` must be a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_wait_held(name: *const c_char) {
    // SAFETY: the caller upholds the contract.
    fault::wait_held(unsafe { text(name) });
}

/// Lets one thread that is held in a function return.
///
/// # Safety
///
/// `name` must be a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_cuda_release(name: *const c_char) {
    // SAFETY: the caller upholds the contract.
    fault::release(unsafe { text(name) });
}

/// An undocumented entry point of the real library. It does nothing here.
#[unsafe(no_mangle)]
extern "C" fn cuGetExportTable(_table: *mut *const c_void, _id: *const c_void) -> c_int {
    Error::NOT_SUPPORTED.0 as c_int
}
