//! Recognises functions that make several calls, and are therefore not mere wrappers of one call.
//!
//! All distinct backtraces of a process are kept. If two of them differ only in one return address,
//! the same function of the API was called from two places of one function, or of the functions
//! that were inlined into it. These may be two branches of which only one is taken, but a wrapper
//! rarely has such branches. If two backtraces have the same callers, and in both the function
//! called the API itself and not through another function of the program, the function makes
//! different calls.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::call_site::site_of;
use crate::judge::NameTable;
use crate::ledger::{Kind, StackId, Stacks};
use crate::report::check_report::{Frame, Owner};
use crate::report::symbols;

/// The return addresses on either side of one address of a backtrace: first those of its callees,
/// then those of its callers.
type Around<'a> = (&'a [usize], &'a [usize]);

/// Identifies a function: its name, its file and its module.
type FunctionKey = [Option<Arc<str>>; 3];

/// A range of lines of a function.
type LineRange = RangeInclusive<Option<u32>>;

/// Marks the frames of functions that make several calls.
pub(super) fn mark(names: &mut NameTable, stacks: &Stacks, own: &[&str]) {
    let named = names.frames.iter();
    let places = named.filter_map(|(stack, frames)| place(*stack, frames, stacks, own));
    let mut left_at: FxHashMap<Around<'_>, BTreeSet<usize>> = FxHashMap::default();
    for around in places {
        left_at.entry(around).or_default();
    }
    if left_at.is_empty() {
        return;
    }
    let callers = || left_at.keys().map(|(_, callers)| *callers);
    let nearest: FxHashSet<_> = callers().map(|callers| callers[0]).collect();
    let mut left_directly: FxHashMap<&[usize], BTreeSet<usize>> = callers()
        .map(|callers| (callers, BTreeSet::new()))
        .collect();
    for number in 1..stacks.end() {
        let raw = stacks.frames(StackId(number));
        for (at, pair) in raw.windows(2).enumerate() {
            let (inside, callers) = (&raw[..at], &raw[at + 1..]);
            if !nearest.contains(&pair[1]) {
                continue;
            }
            if let Some(addresses) = left_at.get_mut(&(inside, callers)) {
                addresses.insert(pair[0]);
            }
            if let Some(addresses) = left_directly.get_mut(callers)
                && !addresses.contains(&pair[0])
                && is_only_the_api(inside, own)
            {
                addresses.insert(pair[0]);
            }
        }
    }
    let frames = names.frames.values().flatten();
    let known = frames.filter(|frame| frame.several_calls);
    let known = known.map(|frame| (function(frame), frame.line..=frame.line));
    let found = left_at.values();
    let found = found.flat_map(|at| with_several_calls(at, usize::MAX, own));
    let of_function_itself = left_directly.values();
    let found = found.chain(of_function_itself.flat_map(|at| with_several_calls(at, 1, own)));
    let mut lines: FxHashMap<FunctionKey, Vec<LineRange>> = FxHashMap::default();
    for (function, range) in known.chain(found) {
        lines.entry(function).or_default().push(range);
    }
    for frame in names.frames.values_mut().flatten() {
        let ranges = lines.get(&function(frame));
        frame.several_calls |=
            ranges.is_some_and(|ranges| ranges.iter().any(|range| range.contains(&frame.line)));
    }
}

/// Returns the return addresses on either side of the frame that looks like a wrapper, if there is
/// such a frame.
fn place<'a>(
    stack: StackId,
    frames: &[Frame],
    stacks: &'a Stacks,
    own: &[&str],
) -> Option<Around<'a>> {
    let site = site_of(frames.to_vec(), Kind::Linear);
    site.caller_of_wrapper()?;
    let frame = site.user_frame()?;
    let raw = stacks.frames(stack);
    let words = symbols::by_word(stack, own, |_| true);
    let mut words = words.into_iter();
    let (address, _) = words.find(|(_, frames)| frames.contains(frame))?;
    let at = raw.iter().position(|word| *word == address)?;
    let callers = &raw[at + 1..];
    (!callers.is_empty()).then(|| (&raw[..at], callers))
}

/// Whether none of these return addresses is in a function of the program itself.
fn is_only_the_api(inside: &[usize], own: &[&str]) -> bool {
    let words = symbols::of_words(inside, own);
    let mut frames = words.iter().flat_map(|(_, frames)| frames);
    frames.all(|frame| frame.owner != Owner::User)
}

/// Returns the functions that make calls at several of these addresses and at different positions
/// in the source. Each is returned with the range of lines that these positions span, because
/// another function may have the same name. Of functions that are inlined into each other, only the
/// `innermost` ones count. The same position at several addresses is a copy that the compiler made,
/// for example when it unrolled a loop.
fn with_several_calls(
    addresses: &BTreeSet<usize>,
    innermost: usize,
    own: &[&str],
) -> Vec<(FunctionKey, LineRange)> {
    let mut positions: BTreeMap<(FunctionKey, Vec<_>), BTreeSet<_>> = BTreeMap::new();
    for address in addresses {
        let words = symbols::of_words(&[*address], own);
        for frames in words.iter().map(|(_, frames)| frames) {
            // The headers of CUDA contain functions that are inlined into the program's own
            // functions.
            let of_program = frames.iter().enumerate();
            let of_program = of_program.filter(|(_, frame)| frame.owner == Owner::User);
            for (at, frame) in of_program.take(innermost) {
                let position = |frame: &Frame| (function(frame), frame.line, frame.column);
                let inlined_into = frames[at + 1..].iter().map(position).collect();
                let positions = positions.entry((function(frame), inlined_into));
                positions.or_default().insert((frame.line, frame.column));
            }
        }
    }
    let several = positions.into_iter().filter(|(_, at)| at.len() > 1);
    several
        .filter_map(|((function, _), at)| Some((function, at.first()?.0..=at.last()?.0)))
        .collect()
}

fn function(frame: &Frame) -> FunctionKey {
    [&frame.function, &frame.file, &frame.module].map(Clone::clone)
}
