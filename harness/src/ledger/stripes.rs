//! What each group of threads counts for itself; who reads adds the groups up.
//!
//! A number that all threads change costs each of them what the others do. So there is none in an
//! event's way: a thread changes the stripe that it shares with few others, under a lock that
//! nearly always is free, and one lock serves everything that its event changes.
//!
//! Moments are drawn from stripes as well. They are [Lamport's clocks]: a moment is greater than
//! all those before it in its stripe and in the shard of the table that the event goes through, so
//! that events on one address, or of one thread, have the order in which they happened. Events of
//! different threads at different addresses have none until [`Stripes::now`] separates those
//! before it from those after it.
//!
//! [Lamport's clocks]: https://dl.acm.org/doi/10.1145/359545.359563
//!
//! A stripe's lock is the last that is taken: whoever holds one takes no other, but for who takes
//! all of them, in their order.

use crate::sync::{Lock, LockGuard};

use super::counters::{self, Spare};
use super::event::{Caller, ScopeId, StackId, ThreadNumber, Ticket};
use super::flights::Flight;
use super::kind::Kind;
use super::record::Record;
use super::scopes::Open;
use super::timeline::Moves;

/// A power of two, no less than the threads that usually allocate at once.
pub(super) const STRIPES: usize = 16;

/// Every stripe.
#[derive(Debug)]
pub(super) struct Stripes(Box<[Stripe]>);

/// Alone on its cache lines, as a shard of the table.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe(Lock<Own>);

/// What the threads of one stripe have counted. Figures are sums over all stripes, for one thread
/// may take away what another has added: they wrap.
#[derive(Debug)]
pub(super) struct Own {
    number: u64,
    /// The last moment.
    clock: u64,
    /// How many moments were drawn here.
    drawn: u64,
    pub(super) spare: Spare,
    /// How the figures came to what they are.
    pub(super) moves: Moves,
    /// Records by kind.
    pub(super) kinds: [u64; Kind::ALL.len()],
    /// Records by open scope.
    pub(super) scopes: Open,
    /// How many records were made outside every open scope.
    pub(super) unowned: u64,
    /// By stack: the scope that last took something there, and how often.
    pub(super) taken: Vec<(ScopeId, u32)>,
    /// The releases that have begun and not ended: one a thread, so a search is short.
    pub(super) flights: Vec<(Ticket, Flight)>,
}

impl Stripes {
    pub(super) fn new() -> Self {
        let own = |number| Own {
            number,
            clock: 0,
            drawn: 0,
            spare: Spare::new(),
            moves: Moves::default(),
            kinds: [0; Kind::ALL.len()],
            scopes: Open::default(),
            unowned: 0,
            taken: Vec::new(),
            flights: Vec::new(),
        };
        let numbers = 0..STRIPES as u64;
        Self(numbers.map(|n| Stripe(Lock::new(own(n)))).collect())
    }

    /// That of a thread.
    pub(super) fn of(&self, thread: ThreadNumber) -> LockGuard<'_, Own> {
        self.0[thread.0 as usize % STRIPES].0.lock()
    }

    /// That in which a release with this ticket is in flight.
    pub(super) fn of_flight(&self, ticket: Ticket) -> LockGuard<'_, Own> {
        self.0[ticket.0 as usize % STRIPES].0.lock()
    }

    /// The first, and after it the others: who comes first there comes first everywhere.
    pub(super) fn first(&self) -> LockGuard<'_, Own> {
        self.0[0].0.lock()
    }

    /// Each in turn, one locked at a time.
    pub(super) fn each(&self) -> impl DoubleEndedIterator<Item = LockGuard<'_, Own>> {
        self.0.iter().map(|stripe| stripe.0.lock())
    }

    /// All at one moment: of what one thread takes and another gives back, both are seen or neither.
    pub(super) fn at_once(&self) -> [LockGuard<'_, Own>; STRIPES] {
        std::array::from_fn(|number| self.0[number].0.lock())
    }

    /// A moment after all there have been, and not after any that is still to come.
    pub(super) fn now(&self) -> u64 {
        let last = self.last();
        self.catch_up(last);
        (last + 1) * STRIPES as u64
    }

    /// A moment of an event's own, after all there have been and before all that are to come.
    pub(super) fn moment(&self) -> u64 {
        let mut last = self.last();
        let moment = self.first().tick(&mut last);
        self.catch_up(last);
        moment
    }

    /// How many moments were drawn.
    pub(super) fn drawn(&self) -> u64 {
        self.each().map(|own| own.drawn).sum()
    }

    fn last(&self) -> u64 {
        self.each().map(|own| own.clock).max().unwrap_or(0)
    }

    fn catch_up(&self, clock: u64) {
        for mut own in self.each() {
            own.clock = own.clock.max(clock);
        }
    }
}

/// How many moments there can be from `first` until before `next`, of which no two are at once.
pub(crate) fn steps(first: u64, next: u64) -> u64 {
    (next / STRIPES as u64).saturating_sub(first / STRIPES as u64)
}

impl Own {
    /// The next moment: after `latest`, which becomes its clock.
    pub(super) fn tick(&mut self, latest: &mut u64) -> u64 {
        self.clock = self.clock.max(*latest) + 1;
        *latest = self.clock;
        self.drawn += 1;
        self.clock * STRIPES as u64 + self.number
    }

    /// Counts a record. Answers with what its counter lacks for it here.
    pub(super) fn count(&mut self, record: &Record) -> u64 {
        let kind = &mut self.kinds[record.made.kind as usize];
        *kind = kind.wrapping_add(1);
        self.scopes.change(record.made.caller.scope, 1);
        let (counter, amount) = counters::of(record);
        self.moves.moved(counter, self.clock, amount);
        self.spare.draw(counter, amount)
    }

    /// Counts a record that was made, and not put back.
    pub(super) fn made(&mut self, caller: Caller) {
        if !self.scopes.has(caller.scope) {
            self.unowned += 1;
        }
    }

    /// Notes that `caller` took something where it stands.
    pub(super) fn took(&mut self, caller: Caller) {
        let stack = caller.stack.0 as usize;
        if caller.stack == StackId::default() {
            return;
        }
        if self.taken.len() <= stack {
            // By more than one, so that new stacks seldom grow it.
            let length = (stack + 1).next_power_of_two();
            self.taken.resize(length, (ScopeId::NONE, 0));
        }
        let (scope, count) = &mut self.taken[stack];
        if *scope != caller.scope {
            (*scope, *count) = (caller.scope, 0);
        }
        *count = count.saturating_add(1);
    }

    /// Takes a record out of every figure.
    pub(super) fn forget(&mut self, record: &Record) {
        let kind = &mut self.kinds[record.made.kind as usize];
        *kind = kind.wrapping_sub(1);
        self.scopes.change(record.made.caller.scope, -1);
        let (counter, amount) = counters::of(record);
        self.moves.moved(counter, self.clock, amount.wrapping_neg());
        self.spare.give(counter, amount);
    }
}
