//! The port to the unwinder: raw return addresses of the calling thread.
//!
//! Nothing is symbolised here, and frames of the harness, CUPTI and the driver stay in: a report
//! trims them by module and function, which no fixed count could.

#![expect(
    unsafe_code,
    reason = "the backtrace crate marks its unlocked walk as unsafe"
)]

/// The most return addresses that a stack keeps; callers further out are cut off. An unoptimised
/// build spends twenty on the way from the driver to here, and a framework some thirty on the way
/// from a line of the user's to the driver. A walk costs about 90 ns a frame.
pub(crate) const DEPTH: usize = 64;

/// Writes the calling thread's return addresses into `frames`, innermost first, and returns how
/// many there are.
pub(crate) fn capture(frames: &mut [usize; DEPTH]) -> usize {
    let mut count = 0;
    let visit = |frame: &backtrace::Frame| {
        // `ip` only: a frame's other properties look symbols up.
        frames[count] = frame.ip() as usize;
        count += 1;
        count < DEPTH
    };
    if cfg!(unix) {
        // SAFETY: the locked variant exists for engines with shared state, such as Windows'
        // dbghelp. On Unix the engine is `_Unwind_Backtrace`, which walks the calling thread's own
        // stack and takes the loader's lock by itself where it looks for unwind tables, so any
        // number of threads may be in it at once. The closure stays within `frames` and does not
        // panic: it ends the walk when the last entry is written.
        unsafe { backtrace::trace_unsynchronized(visit) };
    } else {
        backtrace::trace(visit);
    }
    // The outermost frame of a thread can have no return address.
    while count > 0 && frames[count - 1] == 0 {
        count -= 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::{DEPTH, capture};

    #[inline(never)]
    fn at_depth(depth: usize) -> Vec<usize> {
        if depth > 0 {
            let frames = at_depth(depth - 1);
            return std::hint::black_box(frames);
        }
        let mut frames = [0; DEPTH];
        let count = capture(&mut frames);
        frames[..count].to_vec()
    }

    #[test]
    fn a_stack_names_its_callers() {
        let frames = at_depth(0);
        let mut names = Vec::new();
        for frame in frames {
            backtrace::resolve(frame as *mut _, |symbol| {
                names.extend(symbol.name().map(|name| name.to_string()));
            });
        }
        assert!(
            names
                .iter()
                .any(|name| name.contains("a_stack_names_its_callers")),
            "{names:#?}"
        );
    }

    #[test]
    fn a_deep_stack_is_cut_off_at_its_outer_end() {
        assert_eq!(at_depth(3 * DEPTH).len(), DEPTH);
    }

    #[test]
    fn threads_may_walk_at_once() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        assert!(at_depth(8).len() > 8);
                    }
                });
            }
        });
    }
}
