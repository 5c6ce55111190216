//! The reader itself.

#![expect(
    unsafe_code,
    reason = "whose memory may be read directly is decided here"
)]

mod frames;
mod interpreter;
mod known;
mod layout;
mod location;
mod memory;
mod text;

use std::cell::Cell;
use std::sync::OnceLock;

use interpreter::Interpreter;
use memory::{Asked, Own};

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

/// The lines at which the calling thread stands: a [`gpu_leak_check::__script::Reader`].
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
        // SAFETY: the thread's state is the calling thread's own, so its frames do not change
        // meanwhile, and what they refer to lives as long as they do; their layout is the one of
        // this very release. Python ends its other threads' states when it shuts down, but not that
        // of the thread that does so, which here is the main one: the program is Python itself.
        let memory = unsafe { Own::new() };
        frames::read(&memory, layout, types, thread, words)
    } else {
        frames::read(&Asked::new(), layout, types, thread, words)
    }
}

thread_local! {
    /// Without a destructor, as everything that a callback touches.
    static IS_MAIN: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Whether this is the thread that the process began with.
fn is_main_thread() -> bool {
    IS_MAIN.get().unwrap_or_else(|| {
        // SAFETY: both ask the system for a number.
        let is_main = unsafe { libc::gettid() == libc::getpid() };
        IS_MAIN.set(Some(is_main));
        is_main
    })
}
