//! Whether this thread records graphs of operations.

use std::cell::Cell;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Recording,
    NoGrad,
    Inference,
}

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(Mode::Recording) };
}

/// Runs a closure in which this thread's operations record no graph.
pub fn no_grad<T>(body: impl FnOnce() -> T) -> T {
    // `no_grad` inside inference mode does not end that mode.
    let mode = if is_inference() {
        Mode::Inference
    } else {
        Mode::NoGrad
    };
    within(mode, body)
}

/// Runs a closure as [`no_grad`] does. In addition, the tensors that the closure creates can never
/// become part of a graph.
pub fn inference_mode<T>(body: impl FnOnce() -> T) -> T {
    within(Mode::Inference, body)
}

pub(crate) fn is_recording() -> bool {
    MODE.get() == Mode::Recording
}

pub(crate) fn is_inference() -> bool {
    MODE.get() == Mode::Inference
}

fn within<T>(mode: Mode, body: impl FnOnce() -> T) -> T {
    let _restore = RestoreMode(MODE.replace(mode));
    body()
}

/// Restores the mode when dropped, even during a panic.
struct RestoreMode(Mode);

impl Drop for RestoreMode {
    fn drop(&mut self) {
        MODE.set(self.0);
    }
}
