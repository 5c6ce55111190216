//! Remembers whole walks with the IDs of their backtraces, for walks of a stack that has not
//! changed.
//!
//! A program repeats the same sequence of allocations again and again, so a walk is usually the one
//! that followed the previous walk the last time. To recognise it, it is enough to compare the
//! words of the stack on which it depends: every return address, and those saved frame pointers
//! from which the position of another frame was derived. Other saved frame pointers are not
//! compared, because an optimised program keeps arbitrary values in that register.
//!
//! If no walk is recognised, the [known steps](super::steps) are followed.

use std::cell::Cell;

use super::steps::{ReadWords, UnwoundFrame};
use super::thread::StackWords;
use crate::ledger::event::StackId;

/// The number of walks that are remembered, a power of two.
const WALKS: usize = 1024;

/// One in this many walks replaces the one in its slot. To be remembered, a walk is made again
/// without the known steps, and a program that hardly ever repeats one should rarely pay for that.
const ONE_IN: u32 = 8;

thread_local! {
    /// The slot of this thread's last walk. Several threads may use the same caches in turn. Like
    /// everything else that a wrapper touches, this has no destructor.
    static LAST: Cell<usize> = const { Cell::new(WALKS) };
}

/// Where a walk begins. The result of a walk depends on these values and on words of the stack. All
/// bits are inverted, as in the [known steps](super::steps).
#[derive(Clone, Copy, Default)]
pub(super) struct WalkStart {
    from: UnwoundFrame,
    /// The end of the stack, because words beyond it cannot be read.
    end: u64,
    /// The state of the table that assigns IDs to backtraces.
    stacks: usize,
}

impl WalkStart {
    pub(super) fn new(from: UnwoundFrame, words: &StackWords, stacks: usize) -> Self {
        Self {
            from: from.inverted(),
            end: !words.end,
            stacks: !stacks,
        }
    }
}

/// A step of a walk, with all bits inverted.
pub(super) struct TracedStep {
    from: UnwoundFrame,
    read: ReadWords,
    to: Option<UnwoundFrame>,
}

impl TracedStep {
    /// `to` is `None` if the walk ends at `from`.
    pub(super) fn new(from: UnwoundFrame, read: ReadWords, to: Option<UnwoundFrame>) -> Self {
        Self {
            from: from.inverted(),
            read,
            to: to.map(UnwoundFrame::inverted),
        }
    }

    /// Returns the return address that the step found.
    pub(super) fn found(&self) -> Option<usize> {
        self.to.map(|to| !to.address as usize)
    }
}

/// A walk with its result. All bits of addresses and words are inverted.
#[derive(Clone, Default)]
struct KnownWalk {
    start: WalkStart,
    /// Whether the walk depends on the frame pointer with which it began.
    needs_frame_pointer: bool,
    /// The words on which the walk depends, with their addresses.
    words: Vec<(u64, u64)>,
    backtrace: StackId,
    /// The slots of the last two walks that followed this walk without being predicted. A program
    /// may allocate at a line several times and then at the next line.
    next: [usize; 2],
}

impl KnownWalk {
    /// Whether a walk that begins at `start` is this walk. The loop is written for builds that are
    /// not optimised.
    fn is_at(&self, start: &WalkStart, words: &StackWords) -> bool {
        let (known, from) = (&self.start.from, &start.from);
        if known.stack_pointer != from.stack_pointer
            || known.address != from.address
            || self.start.end != start.end
            || self.start.stacks != start.stacks
            || self.needs_frame_pointer && known.frame_pointer != from.frame_pointer
        {
            return false;
        }
        let known = self.words.as_slice();
        let mut at = 0;
        while at < known.len() {
            let (address, word) = known[at];
            if !words.has(!address, !word) {
                return false;
            }
            at += 1;
        }
        true
    }
}

/// The walks that were made last. The backtrace and the stack pointer determine the slot of a walk.
pub(super) struct KnownWalks {
    /// The state of the list of modules with which the walks were made.
    modules: usize,
    /// There is one more slot than walks can use, for the state before a thread's first walk.
    walks: Box<[KnownWalk]>,
    /// How many walks were not in their slots.
    misses: u32,
}

impl KnownWalks {
    pub(super) fn new() -> Self {
        Self {
            modules: 0,
            walks: vec![KnownWalk::default(); WALKS + 1].into(),
            misses: 0,
        }
    }

    /// Removes all walks if they were made in another state of the list of modules.
    pub(super) fn keep_for(&mut self, modules: usize) {
        if self.modules != modules {
            *self = Self {
                modules,
                ..Self::new()
            };
        }
    }

    /// Returns the ID of the backtrace if the walk that begins at `start` has followed this
    /// thread's last walk before.
    pub(super) fn predicted(&self, start: &WalkStart, words: &StackWords) -> Option<StackId> {
        let [first, second] = self.walks[LAST.get()].next;
        let slot = match self.walks[first].is_at(start, words) {
            true => first,
            false if self.walks[second].is_at(start, words) => second,
            false => return None,
        };
        LAST.set(slot);
        Some(self.walks[slot].backtrace)
    }

    /// Records that a walk that was not predicted found this backtrace, so that it can be
    /// predicted. Returns whether the walk is to be remembered.
    pub(super) fn record_miss(
        &mut self,
        start: &WalkStart,
        words: &StackWords,
        backtrace: StackId,
    ) -> bool {
        let slot = slot_of(start, backtrace);
        let before = &mut self.walks[LAST.replace(slot)];
        if before.next[0] != slot {
            before.next = [slot, before.next[0]];
        }
        if self.walks[slot].is_at(start, words) {
            return false;
        }
        let is_unused = self.walks[slot].backtrace == StackId::default();
        self.misses = self.misses.wrapping_add(1);
        is_unused || self.misses.is_multiple_of(ONE_IN)
    }

    /// Remembers a walk that began at `start` and made these steps, unless they are unknown or
    /// depend on something that cannot be compared.
    pub(super) fn keep(
        &mut self,
        start: &WalkStart,
        steps: Option<&[TracedStep]>,
        backtrace: StackId,
    ) {
        let walk = &mut self.walks[slot_of(start, backtrace)];
        walk.words.clear();
        let needs_frame_pointer = steps.and_then(|steps| needed_words(steps, &mut walk.words));
        // No walk begins at the default start.
        walk.start = needs_frame_pointer.map_or_else(WalkStart::default, |_| *start);
        walk.needs_frame_pointer = needs_frame_pointer.unwrap_or_default();
        walk.backtrace = backtrace;
    }
}

fn slot_of(start: &WalkStart, backtrace: StackId) -> usize {
    // The multiplier is derived from the golden ratio, so that the upper bits of the product depend
    // on all bits of the other factor.
    let mixed = start.from.stack_pointer ^ u64::from(backtrace.0) << 32;
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - WALKS.ilog2())) as usize
}

/// Adds the words on which the result of these steps depends to `words`, innermost first. Returns
/// whether the result also depends on the frame pointer at the beginning; `None` if it depends on
/// something else.
fn needed_words(steps: &[TracedStep], words: &mut Vec<(u64, u64)>) -> Option<bool> {
    // Whether the steps after this one depend on the frame pointer.
    let mut is_needed = false;
    for step in steps.iter().rev() {
        let read = step.read.words()?;
        let mut is_restored = false;
        let mut has_address = false;
        for &(at, word) in read {
            let is_address = step.to.is_none_or(|to| to.address == word);
            has_address |= is_address;
            is_restored |= !is_address;
            if is_address || is_needed {
                words.push((at, word));
            }
        }
        if step.to.is_some() && !has_address {
            return None;
        }
        // The position of the caller's frame can be derived from the frame pointer only if that
        // pointer points into this frame, of which only the return address and the saved frame
        // pointer may be left. The frame pointer may also be the reason why a walk ended.
        let from = step.from.inverted();
        let lowest = from.stack_pointer.saturating_sub(16);
        let may_be_used =
            |to: UnwoundFrame| (lowest..=!to.stack_pointer).contains(&from.frame_pointer);
        is_needed = step.to.is_none_or(may_be_used) || is_needed && !is_restored;
    }
    words.reverse();
    Some(is_needed)
}

#[cfg(test)]
mod tests {
    use super::{KnownWalks, ReadWords, StackId, StackWords, TracedStep, UnwoundFrame, WalkStart};

    /// A stack of three frames of four words each. The last word of a frame is its return address;
    /// the word before it in the inner two frames is the saved frame pointer of the caller.
    struct Stack(Box<[u64; 12]>);

    const ADDRESSES: [u64; 3] = [0x1000, 0x2000, 0x3000];
    const BACKTRACE: StackId = StackId(7);

    impl Stack {
        /// `frame_pointers` are those of the three frames.
        fn new(frame_pointers: [u64; 3]) -> Self {
            let mut words = Box::new([0; 12]);
            words[2] = frame_pointers[1];
            words[3] = ADDRESSES[0];
            words[6] = frame_pointers[2];
            words[7] = ADDRESSES[1];
            words[11] = ADDRESSES[2];
            Self(words)
        }

        fn at(&self, word: usize) -> u64 {
            self.0.as_ptr().wrapping_add(word).expose_provenance() as u64
        }

        fn words(&self) -> StackWords {
            StackWords::of(&*self.0)
        }

        fn start(&self, frame_pointer: u64) -> WalkStart {
            let from = UnwoundFrame {
                address: 0x500,
                stack_pointer: self.at(0),
                frame_pointer,
            };
            WalkStart::new(from, &self.words(), 1)
        }

        fn step(&self, from: UnwoundFrame, read: &[usize], to: Option<UnwoundFrame>) -> TracedStep {
            let mut words = ReadWords::default();
            for word in read {
                let _ = words.add(self.at(*word), self.words().read(self.at(*word)).ok_or(()));
            }
            TracedStep::new(from, words, to)
        }

        /// Returns the steps of a walk that begins with this frame pointer.
        fn steps(&self, frame_pointer: u64) -> [TracedStep; 4] {
            let frame = |address, word, frame_pointer| UnwoundFrame {
                address,
                stack_pointer: self.at(word),
                frame_pointer,
            };
            let [first, second, third] = [
                frame(ADDRESSES[0], 4, self.0[2]),
                frame(ADDRESSES[1], 8, self.0[6]),
                frame(ADDRESSES[2], 12, self.0[6]),
            ];
            [
                self.step(frame(0x500, 0, frame_pointer), &[3, 2], Some(first)),
                self.step(first, &[7, 6], Some(second)),
                self.step(second, &[11], Some(third)),
                self.step(third, &[], None),
            ]
        }

        /// Returns the walks after this one has been made several times.
        fn known(&self, frame_pointer: u64) -> KnownWalks {
            let mut walks = KnownWalks::new();
            walks.keep_for(1);
            let (start, words) = (self.start(frame_pointer), self.words());
            while !walks.record_miss(&start, &words, BACKTRACE) {}
            walks.keep(&start, Some(&self.steps(frame_pointer)), BACKTRACE);
            walks.record_miss(&start, &words, BACKTRACE);
            walks
        }
    }

    #[test]
    fn a_walk_is_known_while_nothing_it_depends_on_has_changed() {
        let mut stack = Stack::new([0; 3]);
        let mut walks = stack.known(0);
        let start = stack.start(0);
        assert_eq!(walks.predicted(&start, &stack.words()), Some(BACKTRACE));
        for word in 0..12 {
            stack.0[word] ^= 8;
            let is_needed = [3, 6, 7, 11].contains(&word);
            let predicted = walks.predicted(&start, &stack.words());
            assert_eq!(predicted.is_none(), is_needed, "word {word}");
            stack.0[word] ^= 8;
        }
        assert_eq!(
            walks.predicted(&stack.start(8), &stack.words()),
            Some(BACKTRACE),
            "no frame lies where the frame pointer points"
        );
        walks.keep_for(2);
        assert_eq!(walks.predicted(&start, &stack.words()), None);
    }

    #[test]
    fn a_frame_pointer_that_may_lead_to_a_frame_is_compared() {
        let mut stack = Stack::new([0; 3]);
        stack.0[2] = stack.at(6);
        let start = stack.start(stack.at(2));
        let walks = stack.known(stack.at(2));
        assert_eq!(walks.predicted(&start, &stack.words()), Some(BACKTRACE));
        assert_eq!(walks.predicted(&stack.start(0), &stack.words()), None);
        stack.0[2] ^= 8;
        assert_eq!(walks.predicted(&start, &stack.words()), None);
    }

    #[test]
    fn a_walk_that_depends_on_other_memory_is_not_kept() {
        let stack = Stack::new([0; 3]);
        let (start, words) = (stack.start(0), stack.words());
        // A word beyond the stack; three words; and no return address.
        for read in [&[12][..], &[3, 2, 1], &[2]] {
            let mut walks = KnownWalks::new();
            let mut steps = stack.steps(0);
            steps[0].read = stack.step(UnwoundFrame::default(), read, None).read;
            walks.record_miss(&start, &words, BACKTRACE);
            walks.keep(&start, Some(&steps), BACKTRACE);
            walks.record_miss(&start, &words, BACKTRACE);
            assert_eq!(walks.predicted(&start, &words), None, "{read:?}");
        }
    }

    #[test]
    fn lines_that_take_turns_in_any_way_are_predicted() {
        let stack = Stack::new([0; 3]);
        let mut other = Stack::new([0; 3]);
        other.0[3] = 0x1008;
        let mut walks = KnownWalks::new();
        let mut predicted = 0;
        for round in 0..60 {
            // Twice at one line, and once at the other.
            let (stack, backtrace) = match round % 3 {
                0 => (&other, StackId(8)),
                _ => (&stack, BACKTRACE),
            };
            let (start, words) = (stack.start(0), stack.words());
            match walks.predicted(&start, &words) {
                Some(found) => {
                    assert_eq!(found, backtrace);
                    predicted += 1;
                }
                None if walks.record_miss(&start, &words, backtrace) => {
                    walks.keep(&start, Some(&stack.steps(0)), backtrace);
                }
                None => {}
            }
        }
        assert!(predicted > 30, "{predicted}");
    }
}
