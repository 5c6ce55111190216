//! Caches the lines that a thread has read, so that tables are not decoded again for each
//! backtrace.
//!
//! A code object may be freed and another one created at its address. So an entry is valid only as
//! long as everything from which its line was read is unchanged: the names of the file and the
//! function, the first line, and the part of the table that was read. The cache compares a hash of
//! all of these.

use std::cell::Cell;

use gpu_leak_check::__script::LineNumber;

/// The number of entries, a power of two.
const ENTRIES: usize = 128;

/// The line of an instruction, and the data from which the line was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct CachedLine {
    /// The code object's address.
    pub(super) code: usize,
    /// The offset of the instruction in the code, in bytes.
    pub(super) offset: isize,
    /// The hash of everything from which the line was read.
    pub(super) hash: u64,
    /// How many bytes of the table are part of the hash.
    pub(super) read: usize,
    pub(super) line: LineNumber,
}

thread_local! {
    /// This value has no destructor, since backtraces are also taken while a thread exits.
    static CACHE: [Cell<Option<CachedLine>>; ENTRIES] = const { [const { Cell::new(None) }; ENTRIES] };
}

/// Returns the entry of an instruction, which may be outdated.
pub(super) fn find(code: usize, offset: isize) -> Option<CachedLine> {
    let entry = CACHE.with(|cache| cache[slot(code, offset)].get())?;
    (entry.code == code && entry.offset == offset).then_some(entry)
}

/// Stores an entry, replacing an older one.
pub(super) fn store(entry: CachedLine) {
    CACHE.with(|cache| cache[slot(entry.code, entry.offset)].set(Some(entry)));
}

fn slot(code: usize, offset: isize) -> usize {
    // Objects are aligned to 16 bytes and instructions to two.
    let mixed = (code >> 4) ^ (offset as usize >> 1);
    mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - ENTRIES.trailing_zeros())
}
