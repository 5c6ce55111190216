//! In the steady state no event takes memory of the host: with an allocator of its own, which
//! counts what this program's threads take. (The driver has its own.)

#![expect(
    unsafe_code,
    reason = "an allocator is unsafe, and so are the driver's calls"
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

// SAFETY: every request goes to the system's allocator as it is; what is counted is a thread-local
// number without a destructor, which takes no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.set(TAKEN.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise; it came from there.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Takes one thing of each sort that programs take all the time, and gives it back.
fn round() {
    let flags = CUevent_flags::CU_EVENT_DEFAULT;
    // SAFETY: a context is current; the driver checks what it gets back, and nothing uses it.
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
    // Addresses come to parts of the table that were never used, for a while.
    let is_steady = (0..20).any(|_| {
        let before = TAKEN.get();
        (0..1000).for_each(|_| round());
        TAKEN.get() == before
    });
    assert!(is_steady, "6000 events took memory, again and again");
}

#[test]
fn no_event_takes_memory_of_the_host() {
    let checked = checked::run("works_on");
    assert!(checked.child.status.success(), "{}", checked.story());
    assert_eq!(checked.reports.len(), 1, "{}", checked.story());
}
