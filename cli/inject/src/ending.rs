//! The end of the process, at the last moment at which code of this library runs.
//!
//! A program gives back what it holds in destructors of its statics and in exit handlers, some of
//! which are registered before ours and so run after them. The destructors of
//! shared libraries run after all of them, and that is where the process is judged.

#![expect(unsafe_code, reason = "the loader calls what stands in this section")]

use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;

use gpu_leak_check::__inject::Attached;

static ATTACHED: OnceLock<&'static Attached> = OnceLock::new();

/// Has `attached` told of the end of this process.
pub(crate) fn install(attached: &'static Attached) {
    // Err: a program initialises the driver more than once.
    let _ = ATTACHED.set(attached);
}

// SAFETY: the loader calls each entry of this section once, as a function without arguments, when
// the process exits; this one neither unwinds nor returns anything.
#[used]
#[unsafe(link_section = ".fini_array")]
static LAST: extern "C" fn() = last;

extern "C" fn last() {
    if let Some(attached) = ATTACHED.get() {
        // Err: the program's own exit goes on, and its snapshots stand.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| attached.finish()));
    }
}
