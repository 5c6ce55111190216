//! Remembers the steps from a frame to its caller that earlier walks have made, for walks that find
//! the same frame again.
//!
//! The result of a step depends on the frame, on the words of the stack that the step reads, and on
//! the modules. As long as none of these changes, the result stays the same. Comparing them costs
//! less than the step, and a program often allocates on stacks with the same outer frames.

use super::Frames;
use super::thread::StackWords;

/// The number of pairs of slots, which is a power of two. A frame can use either slot of its pair,
/// so the frames of a deep stack hardly ever evict each other.
const PAIRS: usize = 512;
/// How many words most steps read: a return address and a frame pointer.
const WORDS: usize = 2;

/// A frame to which a call returns. The step from this frame to its caller depends on these values.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct UnwoundFrame {
    /// The return address; 0 if this is not a frame.
    pub(super) address: u64,
    pub(super) stack_pointer: u64,
    pub(super) frame_pointer: u64,
}

impl UnwoundFrame {
    pub(super) fn inverted(self) -> Self {
        Self {
            address: !self.address,
            stack_pointer: !self.stack_pointer,
            frame_pointer: !self.frame_pointer,
        }
    }
}

/// A step, with all bits of its addresses and words inverted. The search for the holders of a leak
/// also reads this memory, and a register that a function has saved may contain the address of a
/// leak.
#[derive(Clone, Copy, Default)]
struct KnownStep {
    from: UnwoundFrame,
    /// The addresses that the step read, and the words that it found there.
    read: [(u64, u64); WORDS],
    to: UnwoundFrame,
}

impl KnownStep {
    /// Whether this step begins at `frame`, whose fields are inverted.
    #[inline(always)]
    fn is_from(&self, frame: &UnwoundFrame) -> bool {
        self.from.address == frame.address
            && self.from.stack_pointer == frame.stack_pointer
            && self.from.frame_pointer == frame.frame_pointer
    }
}

/// The steps that were made last, each in the pair of slots that its frame determines.
pub(super) struct KnownSteps {
    /// The state of the list of modules with which the steps were made.
    modules: usize,
    slots: Box<[KnownStep]>,
}

impl KnownSteps {
    pub(super) fn new() -> Self {
        Self {
            modules: 0,
            slots: vec![KnownStep::default(); 2 * PAIRS].into(),
        }
    }

    /// Removes all steps if they were made in another state of the list of modules.
    pub(super) fn keep_for(&mut self, modules: usize) {
        if self.modules != modules {
            self.slots.fill(KnownStep::default());
            self.modules = modules;
        }
    }

    /// Adds the callers of this frame that earlier walks found to `frames`, as long as nothing has
    /// changed since. Returns the last of these frames, and whether there is room for another one.
    // Most builds of the harness are not optimised, and this loop takes most of the time of a walk
    // that is not recognised, so it uses neither closures nor iterators.
    pub(super) fn follow(
        &self,
        frame: UnwoundFrame,
        stack: &StackWords,
        frames: &mut Frames,
    ) -> (UnwoundFrame, bool) {
        let mut from = frame.inverted();
        let mut has_room = true;
        while has_room {
            let known = &self.slots[self.slot_of(&from)];
            let [first, second] = &known.read;
            if !known.is_from(&from)
                || !stack.has(!first.0, !first.1)
                || !stack.has(!second.0, !second.1)
            {
                break;
            }
            from = known.to;
            has_room = frames.push(!from.address as usize);
        }
        (from.inverted(), has_room)
    }

    /// Stores a step that [`Self::follow`] did not know, and that read these words.
    pub(super) fn keep(&mut self, from: UnwoundFrame, words: &ReadWords, to: UnwoundFrame) {
        let read = match words.count {
            1 => [words.first[0]; WORDS],
            WORDS => words.first,
            // Either there is nothing to compare, or there are more words than a slot can hold.
            _ => return,
        };
        let from = from.inverted();
        let slot = self.slot_of(&from);
        if self.slots[slot].from != from {
            self.slots[slot + 1] = self.slots[slot];
        }
        let known = &mut self.slots[slot];
        known.from = from;
        known.read = read;
        known.to = to.inverted();
    }

    /// Returns the slot of this inverted frame or, if it has none, the first slot of its pair.
    fn slot_of(&self, frame: &UnwoundFrame) -> usize {
        // The multiplier is derived from the golden ratio, so that the upper bits of the product
        // depend on all bits of the other factor.
        let mixed = frame.address.rotate_left(32) ^ frame.stack_pointer;
        let pair = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - PAIRS.ilog2());
        let first = 2 * pair as usize;
        first + usize::from(self.slots[first + 1].is_from(frame))
    }
}

/// The words that a step reads, with their addresses. All bits are inverted.
#[derive(Default)]
pub(super) struct ReadWords {
    first: [(u64, u64); WORDS],
    count: usize,
}

impl ReadWords {
    /// Adds the word at `address`, unless it has been added before, and returns it.
    pub(super) fn add(&mut self, address: u64, word: Result<u64, ()>) -> Result<u64, ()> {
        // Only on AArch64 are words read twice, to find the caller of a thread's first frame.
        if cfg!(target_arch = "aarch64") {
            let read = self.words().unwrap_or_default();
            if read.iter().any(|(known, _)| *known == !address) {
                return word;
            }
        }
        match (self.first.get_mut(self.count), word) {
            (Some(place), Ok(word)) => *place = (!address, !word),
            // A word that cannot be read cannot be compared either.
            _ => self.count = WORDS,
        }
        self.count += 1;
        word
    }

    /// Returns the inverted words with their addresses; `None` if there were too many words, or
    /// words that could not be read.
    pub(super) fn words(&self) -> Option<&[(u64, u64)]> {
        self.first.get(..self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::{Frames, KnownSteps, ReadWords, StackWords, UnwoundFrame};

    const FROM: UnwoundFrame = UnwoundFrame {
        address: 0x1000,
        stack_pointer: 16,
        frame_pointer: 5,
    };
    const TO: UnwoundFrame = UnwoundFrame {
        address: 0x2000,
        stack_pointer: 32,
        frame_pointer: 6,
    };

    type Stack = [u64; 4];

    /// Returns the steps after a walk that has read the words at these positions.
    fn kept(stack: &Stack, read: &[usize]) -> KnownSteps {
        let mut steps = KnownSteps::new();
        steps.keep_for(1);
        let words = StackWords::of(stack);
        let mut found = ReadWords::default();
        for position in read {
            let address = stack.as_ptr().wrapping_add(*position).addr() as u64;
            let _ = found.add(address, words.read(address).ok_or(()));
        }
        steps.keep(FROM, &found, TO);
        steps
    }

    fn is_known(steps: &KnownSteps, frame: UnwoundFrame, stack: &Stack) -> bool {
        let mut frames = Frames::new();
        let words = StackWords::of(stack);
        let (end, has_room) = steps.follow(frame, &words, &mut frames);
        assert!(has_room);
        let is_known = end == TO;
        assert!(is_known || end == frame);
        let found: &[usize] = if is_known { &[0x2000] } else { &[] };
        assert_eq!(frames.as_slice(), found);
        is_known
    }

    #[test]
    fn a_step_is_known_while_nothing_has_changed() {
        let mut stack = [1, 2, 3, 4];
        for (read, last) in [(&[3][..], 3), (&[2, 3], 2), (&[3, 1], 1)] {
            let mut steps = kept(&stack, read);
            assert!(is_known(&steps, FROM, &stack));
            stack[0] += 1;
            assert!(
                is_known(&steps, FROM, &stack),
                "a word that the step does not read"
            );
            stack[last] += 1;
            assert!(!is_known(&steps, FROM, &stack), "{read:?}");
            stack[last] -= 1;
            let others = [
                UnwoundFrame {
                    address: 0x1001,
                    ..FROM
                },
                UnwoundFrame {
                    stack_pointer: 24,
                    ..FROM
                },
                UnwoundFrame {
                    frame_pointer: 6,
                    ..FROM
                },
            ];
            for other in others {
                assert!(!is_known(&steps, other, &stack));
            }
            steps.keep_for(1);
            assert!(is_known(&steps, FROM, &stack));
            steps.keep_for(2);
            assert!(!is_known(&steps, FROM, &stack), "with other modules");
        }
    }

    #[test]
    fn a_step_that_cannot_be_compared_is_not_kept() {
        let stack = [1, 2, 3, 4];
        for read in [&[][..], &[4], &[1, 4], &[4, 1], &[1, 2, 3], &[4, 4, 1]] {
            let steps = kept(&stack, read);
            assert!(!is_known(&steps, FROM, &stack), "{read:?}");
        }
    }
}
