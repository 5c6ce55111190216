//! One check at a time in a process, first come first served.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Whose turn it is.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    turn: Condvar,
}

#[derive(Debug)]
struct State {
    next_ticket: u64,
    serving: u64,
}

/// The right to run; the next in line goes on when it is dropped, also by a panic.
#[derive(Debug)]
pub(crate) struct Turn<'gate> {
    gate: &'gate Gate,
    /// How long it took to get here.
    pub(crate) waited: Duration,
}

impl Gate {
    /// A gate nobody stands at.
    pub(crate) const fn new() -> Self {
        Self {
            state: Mutex::new(State {
                next_ticket: 0,
                serving: 0,
            }),
            turn: Condvar::new(),
        }
    }

    /// Waits for one's turn.
    pub(crate) fn enter(&self) -> Turn<'_> {
        let start = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        while state.serving != ticket {
            state = self
                .turn
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Turn {
            gate: self,
            waited: start.elapsed(),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.gate
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .serving += 1;
        self.gate.turn.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::Gate;

    #[test]
    fn only_one_is_inside_and_all_get_in() {
        let gate = Gate::new();
        let inside = AtomicUsize::new(0);
        let entered = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let _turn = gate.enter();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    entered.fetch_add(1, Ordering::SeqCst);
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(entered.load(Ordering::SeqCst), 16);
    }

    #[test]
    fn turns_come_in_the_order_of_arrival() {
        let gate = Gate::new();
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let first = gate.enter();
            for number in 0..4 {
                scope.spawn({
                    let (gate, order) = (&gate, &order);
                    move || {
                        let _turn = gate.enter();
                        order.lock().unwrap().push(number);
                    }
                });
                // The next one starts only when this one stands in line.
                while gate.state.lock().unwrap().next_ticket < number + 2 {
                    thread::yield_now();
                }
            }
            drop(first);
        });
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
    }

    #[test]
    fn a_panic_inside_lets_the_next_one_in() {
        let gate = Gate::new();
        let panicked = thread::scope(|scope| {
            scope
                .spawn(|| {
                    let _turn = gate.enter();
                    panic!("on purpose");
                })
                .join()
        });
        assert!(panicked.is_err());
        drop(gate.enter());
    }
}
