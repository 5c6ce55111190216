//! In the steady state, the harness allocates no host memory for events. A counting allocator
//! measures what this program's threads allocate. The driver has its own allocator.

#![expect(
    unsafe_code,
    reason = "implements an allocator, and calls functions of the driver"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use cudarc::driver::CudaContext;
use cudarc::driver::result::{self, event, stream};
use cudarc::driver::sys::CUevent_flags;
use gpu_leak_check::gpu_leak_check;
use gpu_leak_tests::checked;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every request is forwarded unchanged to the system's allocator; the count is a
// thread-local number without a destructor, which allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.set(TAKEN.get() + 1);
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract, and the block came from the system's allocator.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Allocates one resource of each kind that programs allocate frequently, and frees it.
fn round() {
    let flags = CUevent_flags::CU_EVENT_DEFAULT;
    // SAFETY: a context is current, the driver checks the addresses and handles, and nothing uses
    // them.
    unsafe {
        let memory = result::malloc_sync(512).expect("memory");
        let ordered = result::malloc_async(stream::null(), 512).expect("memory");
        let event = event::create(flags).expect("an event");
        event::destroy(event).expect("a free");
        result::free_async(ordered, stream::null()).expect("a free");
        result::free_sync(memory).expect("a free");
    }
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn works_on() {
    let context = CudaContext::new(0).expect("a device");
    context.bind_to_thread().expect("its context");
    // At first, some addresses are in parts of the table that have never been used.
    let is_steady = (0..20).any(|_| {
        let before = TAKEN.get();
        (0..1000).for_each(|_| round());
        TAKEN.get() == before
    });
    assert!(is_steady, "6000 events allocated memory in each attempt");
}

#[test]
fn no_event_allocates_host_memory() {
    let checked = checked::run("works_on");
    assert!(checked.child.status.success(), "{}", checked.output());
    assert_eq!(checked.reports.len(), 1, "{}", checked.output());
}
