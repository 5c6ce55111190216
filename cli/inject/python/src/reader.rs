//! Reads CPython's frames.

#![expect(unsafe_code, reason = "reads memory of the same process directly")]

mod frames;
mod interpreter;
mod layout;
mod line_cache;
mod location;
mod memory;
mod string;

use std::cell::Cell;
use std::sync::OnceLock;

use interpreter::Interpreter;
use memory::{Direct, ThroughKernel};

use crate::{Unsupported, Version};

static INTERPRETER: OnceLock<Interpreter> = OnceLock::new();

pub(crate) fn install() -> Result<Option<Version>, Unsupported> {
    let Some(found) = Interpreter::find()? else {
        return Ok(None);
    };
    let interpreter = INTERPRETER.get_or_init(|| found);
    gpu_leak_check::__script::install(read);
    Ok(Some(interpreter.version.clone()))
}

/// Reads the current lines of the calling thread. This is a [`gpu_leak_check::__script::Reader`].
fn read(words: &mut [usize]) -> usize {
    let Some(interpreter) = INTERPRETER.get() else {
        return 0;
    };
    let Some(thread) = interpreter.this_thread() else {
        return 0;
    };
    let types = &interpreter.types;
    let layout = interpreter.layout;
    if interpreter.is_the_program && is_main_thread() {
        // SAFETY: the state is that of the calling thread, so the thread's frames do not change
        // during the walk, and the objects that the frames refer to live as long as the frames. The
        // layout is that of this release. When Python shuts down, it frees the states of all
        // threads except the thread that shuts it down. That is this thread, because the program is
        // Python itself and this thread is its main thread.
        let memory = unsafe { Direct::new() };
        frames::read(&memory, layout, types, thread, words)
    } else {
        frames::read(&ThroughKernel::new(), layout, types, thread, words)
    }
}

thread_local! {
    /// This value has no destructor, since backtraces are also taken while a thread exits.
    static IS_MAIN: Cell<Option<bool>> = const { Cell::new(None) };
}

fn is_main_thread() -> bool {
    IS_MAIN.get().unwrap_or_else(|| {
        // SAFETY: both functions only return a number.
        let is_main = unsafe { libc::gettid() == libc::getpid() };
        IS_MAIN.set(Some(is_main));
        is_main
    })
}
