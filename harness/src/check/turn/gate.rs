//! The gate, through which checks enter in the order of their arrival: either one exclusive check
//! alone, or parallel checks together.

use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError, locked};
/// The gate at which checks wait for their turn.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    turn: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    next_ticket: u64,
    /// The ticket of the check that enters next.
    serving: u64,
    /// How many checks are inside.
    inside: usize,
    /// Whether an exclusive check is inside.
    exclusive: bool,
    /// How many checks have entered so far.
    entered: u64,
}

impl GateState {
    fn has_room_for(&self, manner: Manner) -> bool {
        match manner {
            Manner::Exclusive => self.inside == 0,
            Manner::Parallel => !self.exclusive,
        }
    }
}

/// How a check shares the process with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// The check runs alone.
    Exclusive,
    /// The check runs together with other parallel checks.
    Parallel,
}

/// The right to run, which ends when this value is dropped, even during a panic.
#[derive(Debug)]
pub(crate) struct Turn<'gate> {
    gate: &'gate Gate,
    /// Whether this check has entered the gate.
    is_inside: bool,
    /// Whether this check set `GateState::exclusive`.
    exclusive: bool,
    /// How many checks had entered when this turn began.
    entered: u64,
    /// Whether another check was inside when this turn began.
    met: bool,
    /// How long the check waited.
    pub(crate) waited: Duration,
}

impl Gate {
    /// Waits for the check's turn.
    pub(crate) fn enter(&self, manner: Manner) -> Turn<'_> {
        let start = Instant::now();
        let mut state = self.state();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        while state.serving != ticket || !state.has_room_for(manner) {
            state = self
                .turn
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.serving += 1;
        // The next check in line may also be a parallel check.
        self.turn.notify_all();
        self.admit(&mut state, manner == Manner::Exclusive, start.elapsed())
    }

    /// Enters without waiting. If the gate is free and no check is waiting, enters in the given
    /// manner. Otherwise, enters alongside the checks that are inside, which may be waiting for
    /// this check.
    pub(crate) fn enter_now(&self, manner: Manner) -> Turn<'_> {
        let mut state = self.state();
        let is_free = state.serving == state.next_ticket && state.has_room_for(manner);
        let exclusive = is_free && manner == Manner::Exclusive;
        self.admit(&mut state, exclusive, Duration::ZERO)
    }

    /// Returns the turn of a check that does not enter: a nested check runs within the turn of the
    /// check around it, and a scope outside any check does not wait.
    pub(crate) fn stay_outside(&self, is_nested: bool) -> Turn<'_> {
        let state = self.state();
        Turn {
            gate: self,
            is_inside: false,
            exclusive: false,
            entered: state.entered,
            met: state.inside > usize::from(is_nested),
            waited: Duration::ZERO,
        }
    }

    fn admit(&self, state: &mut GateState, exclusive: bool, waited: Duration) -> Turn<'_> {
        let met = state.inside != 0;
        state.entered += 1;
        state.inside += 1;
        state.exclusive |= exclusive;
        Turn {
            gate: self,
            is_inside: true,
            exclusive,
            entered: state.entered,
            met,
            waited,
        }
    }

    /// Returns how many checks are waiting for their turn.
    fn waiting(&self) -> u64 {
        let state = self.state();
        state.next_ticket - state.serving
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        locked(&self.state)
    }
}

impl Turn<'_> {
    /// Returns how many checks are waiting for their turn.
    pub(crate) fn waiting(&self) -> u64 {
        self.gate.waiting()
    }

    /// Whether another check was inside at any time during this turn.
    pub(crate) fn met_another(&self) -> bool {
        self.met || self.gate.state().entered != self.entered
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_inside {
            return;
        }
        let mut state = self.gate.state();
        state.inside -= 1;
        if self.exclusive {
            state.exclusive = false;
        }
        self.gate.turn.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::{Gate, Manner};

    fn wait_for_line(gate: &Gate, length: u64) {
        while gate.waiting() < length {
            thread::yield_now();
        }
    }

    #[test]
    fn only_one_exclusive_check_is_inside_and_all_get_in() {
        let gate = Gate::default();
        let inside = AtomicUsize::new(0);
        let entered = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let turn = gate.enter(Manner::Exclusive);
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    entered.fetch_add(1, Ordering::SeqCst);
                    thread::yield_now();
                    assert!(!turn.met_another());
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(entered.load(Ordering::SeqCst), 16);
    }

    #[test]
    fn turns_come_in_the_order_of_arrival() {
        let gate = Gate::default();
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let first = gate.enter(Manner::Exclusive);
            for number in 0..4 {
                scope.spawn({
                    let (gate, order) = (&gate, &order);
                    move || {
                        let _turn = gate.enter(Manner::Exclusive);
                        order.lock().unwrap().push(number);
                    }
                });
                // The next thread starts only when this thread is waiting.
                wait_for_line(&gate, number + 1);
            }
            let nested = gate.stay_outside(true);
            assert_eq!(nested.waiting(), first.waiting());
            drop(first);
        });
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
    }

    #[test]
    fn parallel_checks_share_and_know_of_each_other() {
        let gate = Gate::default();
        let alone = gate.enter(Manner::Parallel);
        assert!(!alone.met_another());
        let second = gate.enter(Manner::Parallel);
        drop(second);
        assert!(alone.met_another(), "even after the other has left");
        drop(alone);
        assert!(!gate.enter(Manner::Parallel).met_another());
    }

    #[test]
    fn an_exclusive_check_waits_for_parallel_ones_and_holds_up_those_that_come_later() {
        let gate = Gate::default();
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let first = gate.enter(Manner::Parallel);
            scope.spawn(|| {
                let turn = gate.enter(Manner::Exclusive);
                assert!(!turn.met_another());
                order.lock().unwrap().push("exclusive");
            });
            wait_for_line(&gate, 1);
            scope.spawn(|| {
                let _turn = gate.enter(Manner::Parallel);
                order.lock().unwrap().push("parallel");
            });
            wait_for_line(&gate, 2);
            assert!(order.lock().unwrap().is_empty(), "no check overtakes");
            drop(first);
        });
        assert_eq!(*order.lock().unwrap(), ["exclusive", "parallel"]);
    }

    #[test]
    fn a_check_that_may_be_waited_for_enters_beside_the_one_inside() {
        let gate = Gate::default();
        let outer = gate.enter(Manner::Exclusive);
        let inner = gate.enter_now(Manner::Exclusive);
        assert!(outer.met_another() && inner.met_another());
        drop(inner);
        assert!(
            !gate.state().has_room_for(Manner::Parallel),
            "the outer check is still inside"
        );
        drop(outer);
        assert!(!gate.enter_now(Manner::Exclusive).met_another());
    }

    #[test]
    fn a_check_within_the_turn_of_another_meets_only_the_others() {
        let gate = Gate::default();
        let outside = gate.stay_outside(false);
        let outer = gate.enter(Manner::Parallel);
        assert!(outside.met_another());
        let nested = gate.stay_outside(true);
        assert!(!nested.met_another());
        drop(gate.enter(Manner::Parallel));
        assert!(nested.met_another());
        let beside = gate.enter(Manner::Parallel);
        assert!(gate.stay_outside(true).met_another());
        drop((nested, beside, outer));
        assert!(!gate.enter(Manner::Exclusive).met_another());
    }

    #[test]
    fn a_panic_inside_lets_the_next_one_in() {
        let gate = Gate::default();
        let panicked = thread::scope(|scope| {
            scope
                .spawn(|| {
                    let _turn = gate.enter(Manner::Exclusive);
                    panic!("on purpose");
                })
                .join()
        });
        assert!(panicked.is_err());
        drop(gate.enter(Manner::Exclusive));
    }
}
