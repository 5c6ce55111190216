//! One call at a time that retains or releases the primary context of a device.
//!
//! Whether a release was the last one is asked of the driver after it. Another thread's retain in
//! between would make a new context under the same handle, and the end of the old one would be missed.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::capture::thread;

/// Devices that share a turn: more than a machine has.
const DEVICES: usize = 64;

static DEVICE: [Device; DEVICES] = [const {
    Device {
        lock: Mutex::new(()),
        holder: AtomicU32::new(0),
    }
}; DEVICES];

struct Device {
    lock: Mutex<()>,
    /// The thread whose turn it is; 0 for none.
    holder: AtomicU32,
}

/// While it lives, no other thread retains or releases the primary context of its device.
pub(super) struct Turn {
    device: &'static Device,
    _guard: MutexGuard<'static, ()>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.device.holder.store(0, Ordering::Relaxed);
    }
}

/// Waits for this thread's turn; none where it has it already, because a tool calls back from inside
/// such a call.
pub(super) fn turn(device: i32) -> Option<Turn> {
    let device = &DEVICE[device.unsigned_abs() as usize % DEVICES];
    let this = thread::number().0;
    if device.holder.load(Ordering::Relaxed) == this {
        return None;
    }
    let guard = device.lock.lock().unwrap_or_else(PoisonError::into_inner);
    device.holder.store(this, Ordering::Relaxed);
    Some(Turn {
        device,
        _guard: guard,
    })
}
