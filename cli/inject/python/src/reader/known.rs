//! The lines that a thread has met, so that a table is not decoded again for each stack.
//!
//! Code objects come and go, and another may lie where one was. So an entry counts only as long as
//! everything that its line was read from still says the same: the file's and the function's name,
//! the first line, and the table as far as it was read, all of them hashed into one number.

use std::cell::Cell;

use gpu_leak_check::__script::LineNumber;

/// A power of two.
const ENTRIES: usize = 128;

/// What an instruction's line was read from, and what it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The code object's address.
    pub(super) code: usize,
    /// The instruction's place in it.
    pub(super) offset: isize,
    /// The hash of all that the line was read from.
    pub(super) contents: u64,
    /// How many bytes of the table that takes in.
    pub(super) read: usize,
    pub(super) line: LineNumber,
}

thread_local! {
    /// Without a destructor, as everything that a callback touches.
    static MET: [Cell<Option<Entry>>; ENTRIES] = const { [const { Cell::new(None) }; ENTRIES] };
}

/// What this thread last knew of the instruction.
pub(super) fn find(code: usize, offset: isize) -> Option<Entry> {
    let entry = MET.with(|met| met[place(code, offset)].get())?;
    (entry.code == code && entry.offset == offset).then_some(entry)
}

/// Keeps an entry, in the place of an older one.
pub(super) fn keep(entry: Entry) {
    MET.with(|met| met[place(entry.code, entry.offset)].set(Some(entry)));
}

fn place(code: usize, offset: isize) -> usize {
    // Objects lie 16 bytes apart, instructions two.
    let mixed = (code >> 4) ^ (offset as usize >> 1);
    mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - ENTRIES.trailing_zeros())
}
