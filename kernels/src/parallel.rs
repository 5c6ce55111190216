//! Divides the elements of one operation among threads.

use std::thread;

/// With fewer elements per thread than this, threads cost more time than they save.
const SHARE: usize = 1 << 18;

/// Calls `work` with each piece of `out` and the index at which the piece begins, which is a
/// multiple of `unit`.
///
/// The threads end before this function returns. An idle pool of threads would outlive the
/// operation, and a pool that gives a waiting thread other work could run a second operation inside
/// this one.
pub(crate) fn share_out<T: Send>(
    out: &mut [T],
    unit: usize,
    work: impl Fn(usize, &mut [T]) + Sync,
) {
    let threads = (out.len() / SHARE).clamp(1, available());
    if threads == 1 {
        work(0, out);
        return;
    }
    let unit = unit.max(1);
    let share = out.len().div_ceil(unit).div_ceil(threads) * unit;
    thread::scope(|scope| {
        let mut pieces = (0..).step_by(share).zip(out.chunks_mut(share));
        let own = pieces.next();
        for (start, piece) in pieces {
            let work = &work;
            scope.spawn(move || work(start, piece));
        }
        if let Some((start, piece)) = own {
            work(start, piece);
        }
    });
}

fn available() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
