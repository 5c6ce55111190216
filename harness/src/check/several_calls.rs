//! Recognises functions that make several calls, and are therefore no mere wrappers of one call.
//!
//! All distinct backtraces of a process are kept. If two of them have equal outer return addresses,
//! they come from the same call of a function, or from functions that were inlined into it.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::call_site::site_of;
use crate::judge::NameTable;
use crate::ledger::{Kind, StackId, Stacks};
use crate::report::check_report::Frame;
use crate::report::symbols;

/// A frame that looks like that of a wrapper.
struct Candidate<'a> {
    frame: Frame,
    /// The return address in the function. Its code may be inlined into another one.
    address: usize,
    /// The functions into which it is inlined, innermost first.
    inlined_into: Vec<Frame>,
    /// The return addresses outside these functions, innermost first.
    callers: &'a [usize],
}

/// Marks the frames of such functions.
pub(super) fn mark(names: &mut NameTable, stacks: &Stacks, own: &[&str]) {
    let named = names.frames.iter();
    let candidates = named.filter_map(|(stack, frames)| candidate(*stack, frames, stacks, own));
    let candidates: Vec<_> = candidates.collect();
    if candidates.is_empty() {
        return;
    }
    let mut left_at: FxHashMap<&[usize], FxHashSet<usize>> = FxHashMap::default();
    for candidate in &candidates {
        left_at.entry(candidate.callers).or_default();
    }
    let nearest: FxHashSet<_> = left_at.keys().map(|callers| callers[0]).collect();
    for number in 1..stacks.end() {
        let raw = stacks.frames(StackId(number));
        for (at, pair) in raw.windows(2).enumerate() {
            if nearest.contains(&pair[1])
                && let Some(addresses) = left_at.get_mut(&raw[at + 1..])
            {
                addresses.insert(pair[0]);
            }
        }
    }
    let frames = names.frames.values().flatten();
    let known = frames.filter(|frame| frame.several_calls).map(function);
    let mut found: FxHashSet<_> = known.collect();
    for candidate in &candidates {
        let mut addresses = left_at[candidate.callers].iter();
        if addresses.any(|address| candidate.calls_at(*address, own)) {
            found.insert(function(&candidate.frame));
        }
    }
    let frames = names.frames.values_mut().flatten();
    for frame in frames.filter(|frame| found.contains(&function(frame))) {
        frame.several_calls = true;
    }
}

/// Identifies the function of a frame.
fn function(frame: &Frame) -> (Option<String>, Option<String>) {
    (frame.function.clone(), frame.file.clone())
}

impl Candidate<'_> {
    /// Whether the same call of the function also leaves it at `address`, which is another one.
    fn calls_at(&self, address: usize, own: &[&str]) -> bool {
        let words = symbols::by_word(&[address], own, |_| address != self.address);
        words.iter().any(|(_, frames)| {
            let mut inside = (0..frames.len()).filter(|at| frames[at + 1..] == self.inlined_into);
            // A compiler may copy the same call, as it does when it unrolls a loop.
            inside.any(|at| {
                let (here, there) = (&self.frame, &frames[at]);
                here.function == there.function && here.line != there.line
            })
        })
    }
}

fn candidate<'a>(
    stack: StackId,
    frames: &[Frame],
    stacks: &'a Stacks,
    own: &[&str],
) -> Option<Candidate<'a>> {
    let site = site_of(frames.to_vec(), Kind::Linear);
    site.caller_of_wrapper()?;
    let frame = site.user_frame()?;
    let raw = stacks.frames(stack);
    let words = symbols::by_word(raw, own, |_| true);
    let (address, inlined_into) = words.into_iter().find_map(|(word, mut frames)| {
        let at = frames.iter().position(|it| it == frame)?;
        Some((word, frames.split_off(at + 1)))
    })?;
    let at = raw.iter().position(|word| *word == address)?;
    let callers = &raw[at + 1..];
    (!callers.is_empty()).then(|| Candidate {
        frame: frame.clone(),
        address,
        inlined_into,
        callers,
    })
}
