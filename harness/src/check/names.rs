//! What a report tells beside its figures: whose line a stack is, what things are called, what else
//! is known of the machine.
//!
//! A check asks this process and its driver; a replayed one asks the recording.

use crate::capture::thread::thread_name;
use crate::device::contexts::{DeviceName, device_name};
use crate::device::errors::error_name;
use crate::device::{memory, neighbours};
use crate::ledger::event::{CuResult, ThreadNumber};
use crate::ledger::{self, Kind, Place, StackId};
use crate::report::allocators::{self, Allocator};
use crate::report::model::Site;
use crate::{observe, report};

use super::poison;

/// Whom a check asks.
pub(crate) trait Names: std::fmt::Debug {
    /// The site of a stack at which something of `kind` was taken or freed.
    fn site(&self, stack: StackId, kind: Kind) -> Site;
    /// Whether one of CUDA's own libraries made the call, not the program.
    fn is_cudas_own(&self, stack: StackId) -> bool;
    /// The known caching allocator through which the memory was taken.
    fn allocator(&self, stack: StackId) -> Option<&'static Allocator>;
    /// The name of a CUDA device.
    fn device(&self, place: Place) -> Option<DeviceName>;
    /// The driver's name of an error.
    fn error(&self, error: CuResult) -> String;
    /// The name of a thread.
    fn thread(&self, thread: ThreadNumber) -> String;
    /// The test that broke a context.
    fn culprit(&self) -> Option<String>;
    /// How many threads a device runs at once; 0 where nobody knows.
    fn resident_threads(&self, place: Place) -> u64;
    /// Whether another process is seen to use CUDA.
    fn has_neighbours(&self) -> bool;
    /// A wrong setting that no driver is there to stumble over.
    fn misled(&self) -> Option<String>;
}

/// This process.
#[derive(Debug)]
pub(crate) struct Live;

impl Names for Live {
    fn site(&self, stack: StackId, kind: Kind) -> Site {
        let frames = ledger::live().stacks().frames(stack);
        report::site(frames, kind, &observe::own_sources())
    }

    fn is_cudas_own(&self, stack: StackId) -> bool {
        report::is_cudas_own(ledger::live().stacks().frames(stack))
    }

    fn allocator(&self, stack: StackId) -> Option<&'static Allocator> {
        allocators::allocator(ledger::live().stacks().frames(stack))
    }

    fn device(&self, place: Place) -> Option<DeviceName> {
        device_name(place)
    }

    fn error(&self, error: CuResult) -> String {
        error_name(error)
    }

    fn thread(&self, thread: ThreadNumber) -> String {
        thread_name(thread)
    }

    fn culprit(&self) -> Option<String> {
        poison::culprit()
    }
    fn resident_threads(&self, place: Place) -> u64 {
        memory::resident_threads(place)
    }

    fn has_neighbours(&self) -> bool {
        neighbours::use_cuda()
    }

    fn misled(&self) -> Option<String> {
        // Told by releases that could be misled about where CUPTI is.
        None
    }
}
