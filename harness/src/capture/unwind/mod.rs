//! The port to the unwinders: the calling thread's stack, as return addresses.
//!
//! Two engines. `exact` is the one that panics use; it costs about 100 ns a frame. `framehop`
//! remembers what it learned of each return address and is ten times as fast, but guesses where
//! the unwind tables say something it does not know. So its answer is only a key: a stack that was
//! not seen before is walked by both, and what `exact` says is kept. Where they differ, the key
//! finds nothing the next time either, and that stack stays with `exact`. So do all stacks where
//! the quick engine cannot walk, in unoptimised builds, and under Miri, which has no registers.
//!
//! Nothing is symbolised here, and frames of the driver stay in: a report trims them by
//! module and function, which no fixed count could.
//!
//! Where a [reader of an interpreter](script) is installed, the lines at which the interpreted
//! program stands follow the return addresses.

#![expect(
    unsafe_code,
    reason = "a stack is read through raw addresses, and the loader's interface is C"
)]

#[cfg_attr(
    not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
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
pub(crate) use self::waiting::{Waiting, walk_waiting};

use super::history;

use self::framehop as quick;
use self::script::Joined;
use crate::ledger::Stacks;
use crate::ledger::event::StackId;

/// The most return addresses that a stack keeps; callers further out are cut off. An unoptimised
/// build spends twenty on the way from the driver to here, and a framework some thirty on the way
/// from a line of the user's to the driver.
const DEPTH: usize = 64;

/// A stack: return addresses, innermost first.
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

    /// Adds a caller, and says whether there is room for one more.
    fn push(&mut self, address: usize) -> bool {
        if let Some(place) = self.addresses.get_mut(self.count) {
            *place = address;
            self.count += 1;
        }
        self.count < DEPTH
    }

    fn as_slice(&self) -> &[usize] {
        &self.addresses[..self.count]
    }
}

/// The stack of whoever calls this, interned.
// A frame of its own, from which both engines begin.
#[inline(never)]
pub(super) fn stack(stacks: &Stacks) -> StackId {
    // Unoptimised, the quick engine is the slower one: 220 ns a frame.
    if !cfg!(any(optimised, test)) {
        return exact_stack(stacks);
    }
    let here = quick::Here::new();
    let mut key = Frames::new();
    let Some(caller) = quick::walk(&here, &mut key) else {
        return exact_stack(stacks);
    };
    let Some(reader) = script::reader() else {
        let seen = stacks.find(key.as_slice());
        return seen.unwrap_or_else(|| interned(stacks, first_sight(&key, caller).as_slice()));
    };
    let joined = Joined::new(&key, reader);
    let seen = stacks.find(joined.as_slice());
    seen.unwrap_or_else(|| {
        let frames = first_sight(&key, caller);
        interned(stacks, joined.behind(&frames).as_slice())
    })
}

/// The same from the exact engine alone.
pub(super) fn exact_stack(stacks: &Stacks) -> StackId {
    let frames = exact_walk(0);
    match script::reader() {
        Some(reader) => interned(stacks, Joined::new(&frames, reader).as_slice()),
        None => interned(stacks, frames.as_slice()),
    }
}

/// The number of a stack of this thread, which may be new.
fn interned(stacks: &Stacks, frames: &[usize]) -> StackId {
    stacks.find(frames).unwrap_or_else(|| {
        let stack = stacks.intern(frames);
        history::met(stack);
        stack
    })
}

/// What `exact` says of this stack, from the caller whose stack pointer is `caller` on.
#[cold]
#[inline(never)]
fn first_sight(key: &Frames, caller: usize) -> Frames {
    let frames = exact_walk(caller);
    if frames.as_slice() != key.as_slice() {
        quick::differed();
    }
    frames
}

/// The calling thread's return addresses, beginning with the innermost frame whose stack pointer is at
/// least `from`.
#[inline(never)]
fn exact_walk(from: usize) -> Frames {
    let mut frames = Frames::new();
    trace(|stack, address| stack < from || frames.push(address));
    // The outermost frame of a thread can have no return address.
    while frames.as_slice().last() == Some(&0) {
        frames.count -= 1;
    }
    frames
}

#[cfg(test)]
mod tests;
