//! The kinds of leftovers that a body can produce. There is one function for each kind, which each
//! run calls once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Once};

use gpu_leak_check::{allow, hand_over};

use super::allocators::{Block, POOL, SILENT, take};
use super::driver;

/// A number of bytes that exceeds the tolerance.
const MUCH: u64 = 1000;

pub(super) fn returned() {
    drop(Block::new(MUCH));
}

/// Leaves a block at the same call site in each run.
pub(super) fn leaked() {
    take(MUCH);
}

fn first_path() {
    take(MUCH);
}

fn second_path() {
    take(MUCH);
}

fn third_path() {
    take(MUCH);
}

/// Leaves a block, at a call site other than those of the previous and the next run.
pub(super) fn by_turns() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    match RUNS.fetch_add(1, Ordering::Relaxed) % 3 {
        0 => first_path(),
        1 => second_path(),
        _ => third_path(),
    }
}

/// Leaves a block for good, but only in the first run.
pub(super) fn made_once() {
    static MADE: Once = Once::new();
    drop(Block::new(1));
    MADE.call_once(|| _ = take(MUCH));
}

/// Leaves a block that the next run frees.
pub(super) fn replaced() {
    static LAST: Mutex<Option<Block>> = Mutex::new(None);
    let new = Block::new(MUCH);
    *LAST.lock().expect("no panic") = Some(new);
}

/// Leaves a block that may stay, according to the code.
pub(super) fn allowed() {
    allow("the table is shared", || take(MUCH));
}

/// Leaves a block that other code will free.
pub(super) fn handed_over() {
    hand_over(take(MUCH));
}

/// Leaves fewer bytes than are tolerated.
pub(super) fn tolerated() {
    take(7);
}

/// Leaves an empty segment, which an allocator keeps.
pub(super) fn reserve() {
    drop(Block::new(1));
    POOL.reserve(MUCH);
}

/// Leaves bytes of an allocator that reports only their sum.
pub(super) fn sum() {
    drop(Block::new(1));
    SILENT.take(MUCH);
}

/// Leaves nothing, but a free fails.
pub(super) fn failed_free() {
    driver::context();
    let pointer = driver::take(64);
    driver::free(pointer);
    driver::rejected_free(pointer);
}

/// Every kind of leftover, with its name.
pub(super) const ALL: [(&str, fn()); 11] = [
    ("allowed", allowed),
    ("by_turns", by_turns),
    ("failed_free", failed_free),
    ("handed_over", handed_over),
    ("leaked", leaked),
    ("made_once", made_once),
    ("replaced", replaced),
    ("reserve", reserve),
    ("returned", returned),
    ("sum", sum),
    ("tolerated", tolerated),
];
