//! Readings and destructions of driver objects.

use std::sync::atomic::{AtomicBool, Ordering};

use shuttle::thread;

use crate::exclusion::Exclusion;

/// A driver object: whether it exists, and whether the ledger knows it. The checker does not
/// interleave these types of `std`.
struct Object {
    is_alive: AtomicBool,
    is_known: AtomicBool,
    exclusion: &'static Exclusion,
}

impl Object {
    fn new() -> Self {
        Self {
            is_alive: AtomicBool::new(true),
            is_known: AtomicBool::new(true),
            // A reading borrows this for `'static`.
            exclusion: Box::leak(Box::new(Exclusion::new())),
        }
    }

    /// Reads the object, like a reading in `pools`, which looks it up after the reading has begun.
    fn read(&self) {
        let _reading = self.exclusion.read().expect("no destruction is lost");
        self.touch();
    }

    fn touch(&self) {
        if self.is_known.load(Ordering::SeqCst) {
            for _ in 0..2 {
                thread::yield_now();
                assert!(
                    self.is_alive.load(Ordering::SeqCst),
                    "freed under a reading"
                );
            }
        }
    }

    /// Destroys the object, like the wrapper for a destroy call. `works` says whether the driver
    /// carries out the call.
    fn destroy(&self, works: bool) {
        self.is_known.store(false, Ordering::SeqCst);
        let _destruction = self.exclusion.destroy();
        if works {
            self.is_alive.store(false, Ordering::SeqCst);
        }
        thread::yield_now();
        self.is_known.store(!works, Ordering::SeqCst);
    }
}

/// An object is read and destroyed at the same time.
pub fn a_reading_and_a_destruction() {
    let object = Object::new();
    thread::scope(|threads| {
        threads.spawn(|| object.read());
        threads.spawn(|| object.destroy(true));
    });
}

/// Two threads read two objects while two other threads destroy them. One of the destroy calls
/// fails, and its object is read again.
pub fn readings_and_destructions() {
    let (ends, stays) = (Object::new(), Object::new());
    // Both objects belong to the same exclusion.
    let stays = Object {
        exclusion: ends.exclusion,
        ..stays
    };
    thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                ends.read();
                stays.read();
            });
        }
        threads.spawn(|| ends.destroy(true));
        threads.spawn(|| stays.destroy(false));
    });
    assert!(stays.is_known.load(Ordering::SeqCst));
}

/// A reading of contexts also reads streams, while a context and a stream are being destroyed.
/// There is no deadlock.
pub fn streams_are_read_under_contexts() {
    let (context, stream) = (Object::new(), Object::new());
    thread::scope(|threads| {
        threads.spawn(|| {
            let _reading = context.exclusion.read().expect("no destruction is lost");
            context.touch();
            stream.read();
        });
        threads.spawn(|| stream.destroy(true));
        threads.spawn(|| context.destroy(true));
    });
}
