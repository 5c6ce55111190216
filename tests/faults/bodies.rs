//! Bodies whose checks run while something fails. They use a little of everything that the harness
//! reads.

#![expect(unsafe_code, reason = "calls the driver")]
#![expect(clippy::print_stdout, reason = "the parent reads it")]

use std::sync::{Arc, OnceLock};

use cudarc::driver::{CudaContext, result, sys};
use gpu_leak_check::gpu_leak_check;

use super::CAME_TO_ITS_END;

/// The number of bytes that [`leaves_a_block`] leaves.
pub(super) const PLANTED: u64 = 4120;

pub(super) const LEAVES_A_BLOCK: &str = "faults::bodies::leaves_a_block";
pub(super) const LEAVES_NOTHING: &str = "faults::bodies::leaves_nothing";

#[gpu_leak_check]
#[ignore = "run where something fails"]
#[test]
fn leaves_a_block() {
    keeps_a_block();
    println!("{CAME_TO_ITS_END}");
}

/// Uses the device, and leaves [`PLANTED`] bytes.
pub(super) fn keeps_a_block() {
    uses_the_device();
    // SAFETY: a context is current.
    unsafe { result::malloc_sync(4120) }.expect("memory");
}

#[gpu_leak_check]
#[ignore = "run where something fails"]
#[test]
fn leaves_nothing() {
    uses_the_device();
    println!("{CAME_TO_ITS_END}");
}

/// Uses memory of each kind, a stream, an event, and a pool that keeps its reserve. Ignores the
/// results of those calls that the harness makes too, because they may fail on purpose.
fn uses_the_device() {
    static CONTEXT: OnceLock<Arc<CudaContext>> = OnceLock::new();
    let context = CONTEXT.get_or_init(|| CudaContext::new(0).expect("device 0 has a context"));
    context.bind_to_thread().expect("a live context");
    let stream = result::stream::create(result::stream::StreamKind::NonBlocking).expect("a stream");
    let mut keep = u64::MAX;
    let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    let mut pool = std::ptr::null_mut();
    // SAFETY: a context is current. Every address and handle is freed after its last use. Out
    // pointers are to local variables of the right size.
    unsafe {
        let block = result::malloc_sync(1 << 16).expect("memory");
        let _ = sys::cuDeviceGetDefaultMemPool(&raw mut pool, 0);
        if !pool.is_null() {
            let _ = sys::cuMemPoolSetAttribute(pool, threshold, (&raw mut keep).cast());
        }
        let ordered = result::malloc_async(stream, 1 << 20).expect("memory");
        result::free_async(ordered, stream).expect("a free");
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).expect("an event");
        result::event::destroy(event).expect("a live event");
        result::free_sync(block).expect("a free");
        result::stream::destroy(stream).expect("a live stream");
    }
}
