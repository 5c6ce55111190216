//! Captures the calling thread's backtrace as return addresses.
//!
//! There are two unwinders. `exact` is the unwinder that panics use, and costs about 100 ns per
//! frame. `framehop` is ten times as fast, because it caches what it has learned about each return
//! address and each frame; a whole walk that repeats an earlier one is recognised by the words of
//! the stack. However, it guesses if the unwind tables contain something that it does not know. So
//! its result is used only as a key: a backtrace that has not been seen before is walked by both,
//! and the result of `exact` is stored. If the results differ, `exact` handles all backtraces with
//! the return address at which the guess was wrong, because another backtrace may be equal to what
//! was guessed. `exact` also handles all backtraces for which the quick unwinder does not work.
//! Miri has no registers and only its own unwinder, so it takes all backtraces through the
//! `backtrace` crate, as other platforms do.
//!
//! A stack need not end with the first frame of its thread. When greenlets of Python switch, they
//! copy parts of the stack, and what is left above their first frame may belong to others. `exact`
//! would use any word there as an address and crash, so `framehop` looks ahead by one frame.
//!
//! Nothing is symbolised here, and frames of the driver are kept. A report trims them by module and
//! function, because their number varies.
//!
//! If a [reader of an interpreter](script) is installed, the current lines of the interpreted
//! program follow the return addresses.

#![expect(
    unsafe_code,
    reason = "reads stacks through raw addresses, and calls the loader's C functions"
)]

#[cfg_attr(
    not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(miri)
    )),
    path = "exact_elsewhere.rs"
)]
mod exact;
#[cfg_attr(
    not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(miri)
    )),
    path = "none.rs"
)]
mod framehop;
mod script;
#[cfg(feature = "holders")]
mod waiting;

pub(crate) use self::exact::trace;
pub use self::script::{Reader, install};
#[cfg(feature = "holders")]
pub(crate) use self::waiting::walk_waiting;

use super::history;

use self::framehop as quick;
use self::script::Joined;
use crate::ledger::Stacks;
use crate::ledger::event::StackId;

/// The largest number of return addresses in a backtrace. If there are more, the outermost callers
/// are cut off. An unoptimised build has twenty frames between the driver and this function, and a
/// framework has about thirty between a line of the user's code and the driver.
const DEPTH: usize = 64;

struct Frames {
    addresses: [usize; DEPTH],
    count: usize,
}

impl Frames {
    fn new() -> Self {
        Self {
            addresses: [0; DEPTH],
            count: 0,
        }
    }

    /// Adds a caller. Returns whether there is room for another caller.
    #[inline(always)]
    fn push(&mut self, address: usize) -> bool {
        if self.count < DEPTH {
            self.addresses[self.count] = address;
            self.count += 1;
        }
        self.count < DEPTH
    }

    fn as_slice(&self) -> &[usize] {
        &self.addresses[..self.count]
    }
}

/// Captures and interns the caller's backtrace.
// This function has its own frame, from which both unwinders begin.
#[inline(never)]
pub(super) fn stack(stacks: &Stacks) -> StackId {
    let here = quick::Registers::new();
    let Some(mut walk) = quick::StackWalk::begin(&here, stacks) else {
        return exact_stack(stacks);
    };
    let reader = script::reader();
    if reader.is_none()
        && let Some(known) = walk.predicted()
    {
        return known;
    }
    let mut key = Frames::new();
    let Some(caller) = walk.frames(&mut key) else {
        return exact_stack(stacks);
    };
    let Some(reader) = reader else {
        let Some(seen) = stacks.find(key.as_slice()) else {
            return interned(stacks, first_sight(&key, caller, Some(walk)).as_slice());
        };
        walk.keep(seen);
        return seen;
    };
    // The reader may run code of the interpreter.
    drop(walk);
    let joined = Joined::new(&key, reader);
    let seen = stacks.find(joined.as_slice());
    seen.unwrap_or_else(|| {
        let walk = quick::StackWalk::begin(&here, stacks);
        let frames = first_sight(&key, caller, walk);
        interned(stacks, joined.behind(&frames).as_slice())
    })
}

/// Captures the backtrace with the exact unwinder alone.
pub(super) fn exact_stack(stacks: &Stacks) -> StackId {
    let frames = exact_walk(0, None);
    match script::reader() {
        Some(reader) => interned(stacks, Joined::new(&frames, reader).as_slice()),
        None => interned(stacks, frames.as_slice()),
    }
}

/// Returns the ID of a backtrace of this thread. The backtrace is interned if it is new.
fn interned(stacks: &Stacks, frames: &[usize]) -> StackId {
    stacks.find(frames).unwrap_or_else(|| {
        let stack = stacks.intern(frames);
        history::record(stack);
        stack
    })
}

/// Walks this stack with `exact`, beginning with the caller whose stack pointer is `caller`.
#[cold]
#[inline(never)]
fn first_sight(key: &Frames, caller: usize, walk: Option<quick::StackWalk<'_>>) -> Frames {
    let frames = exact_walk(caller, walk);
    if frames.as_slice() != key.as_slice() {
        let both = key.as_slice().iter().zip(frames.as_slice());
        let same = both.take_while(|(key, exact)| key == exact).count();
        quick::differed(&key.as_slice()[..same]);
    }
    frames
}

/// Returns the return addresses of the calling thread, beginning with the innermost frame whose
/// stack pointer is at least `from`, as long as `walk` finds that the frame has a caller.
#[inline(never)]
fn exact_walk(from: usize, mut walk: Option<quick::StackWalk<'_>>) -> Frames {
    let mut frames = Frames::new();
    let mut has_caller = |frame| {
        let walk = walk.as_mut();
        walk.is_none_or(|walk| walk.has_caller(frame))
    };
    trace(|stack, address, frame_pointer| {
        stack < from || frames.push(address) && has_caller([stack, address, frame_pointer])
    });
    // A thread's outermost frame may have no return address.
    while frames.as_slice().last() == Some(&0) {
        frames.count -= 1;
    }
    frames
}

#[cfg(test)]
mod tests;
