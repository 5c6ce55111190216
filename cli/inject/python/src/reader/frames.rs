//! From a thread's state to the lines of its frames.
//!
//! Nothing here touches a reference count or calls the interpreter. What is read is checked before
//! it is followed: an address that is none, or an object of another type than expected, ends the
//! walk or leaves the frame out.

use std::hash::{BuildHasher, Hasher};

use gpu_leak_check::__script::{LineNumber, ScriptLine};
use rustc_hash::FxBuildHasher;

use super::known::{self, Entry};
use super::layout::{Begins, Counted, Layout, OWN};
use super::location;
use super::memory::Memory;
use super::text::Text;

/// Addresses of the types of what is read.
#[derive(Debug)]
pub(super) struct Types {
    pub(super) code: usize,
    pub(super) string: usize,
    pub(super) bytes: usize,
}

/// The most frames that are looked at; a frame without a line counts.
const MOST: usize = 256;
/// The longest table that is read; no function that people write needs it.
const LONGEST_TABLE: usize = 1 << 20;

/// Writes the lines of the thread whose state is at `thread` into `words`, innermost first, and
/// answers with how many there are.
pub(super) fn read(
    memory: &impl Memory,
    layout: &Layout,
    types: &Types,
    thread: usize,
    words: &mut [usize],
) -> usize {
    let mut count = 0;
    let mut at = innermost(memory, layout, thread);
    // The line last written, until it is known whether it is its evaluation's outermost one.
    let mut pending: Option<(LineNumber, bool)> = None;
    for _ in 0..MOST {
        let frame = at.and_then(|at| Frame::read(memory, layout, at));
        let is_outermost = match &frame {
            Some(frame) => frame.is_own,
            None => true,
        };
        if let Some((line, begins)) = pending.take() {
            let Some(word) = words.get_mut(count) else {
                break;
            };
            *word = line.word(begins || is_outermost);
            count += 1;
        }
        let Some(frame) = frame else { break };
        if !frame.is_own {
            let line = line(memory, layout, types, &frame);
            pending = line.map(|line| (line, frame.begins));
        }
        at = frame.previous;
    }
    count
}

/// The address of what lies `offset` bytes behind `at`, which need not be an address at all.
fn field(at: usize, offset: usize) -> usize {
    at.wrapping_add(offset)
}

/// The address of a thread's innermost frame.
fn innermost(memory: &impl Memory, layout: &Layout, thread: usize) -> Option<usize> {
    let [mut at] = memory.words([field(thread, layout.thread)])?;
    if let Some(offset) = layout.through {
        [at] = memory.words([field(at, offset)])?;
    }
    Some(at)
}

/// What is wanted of a frame.
#[derive(Debug)]
struct Frame {
    previous: Option<usize>,
    code: usize,
    instruction: usize,
    /// The interpreter's own, between compiled code and Python's.
    is_own: bool,
    /// Compiled code began its evaluation, as far as it tells itself.
    begins: bool,
}

impl Frame {
    fn read(memory: &impl Memory, layout: &Layout, at: usize) -> Option<Self> {
        let frame = &layout.frame;
        let flag = match frame.begins {
            Begins::Flag(offset) => Some(offset),
            Begins::Always | Begins::BehindItsOwn => None,
        };
        let word_of = |offset: Option<usize>| field(at, offset.unwrap_or_default() & !7);
        let [previous, code, instruction, owner, flags] = memory.words([
            field(at, frame.previous),
            field(at, frame.code),
            word_of(Some(frame.instruction)),
            word_of(frame.owner),
            word_of(flag),
        ])?;
        let byte = |word: usize, offset: usize| (word >> (8 * (offset & 7))) as u8;
        Some(Self {
            previous: (previous != 0).then_some(previous),
            code: code & !frame.tags,
            instruction,
            is_own: frame.owner.is_some_and(|at| byte(owner, at) >= OWN),
            begins: match frame.begins {
                Begins::Always => true,
                Begins::Flag(at) => byte(flags, at) != 0,
                Begins::BehindItsOwn => false,
            },
        })
    }

    /// The instruction's place in the code, in bytes.
    fn offset(&self, layout: &Layout) -> isize {
        match layout.frame.counted {
            Counted::Units(bytes) => self.instruction as i32 as isize * bytes,
            Counted::Address => {
                let begin = self.code.wrapping_add(layout.code.instructions);
                self.instruction.wrapping_sub(begin) as isize
            }
        }
    }
}

/// The number of the line that a frame stands at.
fn line(memory: &impl Memory, layout: &Layout, types: &Types, frame: &Frame) -> Option<LineNumber> {
    let code = Code::read(memory, layout, types, frame.code)?;
    let offset = frame.offset(layout);
    let known = known::find(frame.code, offset);
    if let Some(entry) = known
        && code.hash(memory, entry.read) == Some(entry.contents)
    {
        return Some(entry.line);
    }
    first_sight(memory, layout, &code, frame.code, offset)
}

/// Decodes what was not met before.
#[cold]
fn first_sight(
    memory: &impl Memory,
    layout: &Layout,
    code: &Code,
    address: usize,
    offset: isize,
) -> Option<LineNumber> {
    let mut table = Vec::with_capacity(code.table_length);
    memory.bytes(code.table, code.table_length, &mut |part| {
        table.extend_from_slice(part);
    })?;
    let found = location::location(layout.code.form, &table, code.first_line, offset);
    let line = ScriptLine {
        file: code.file.read(memory)?,
        function: code.function.read(memory)?,
        line: found.line,
        column: found.column,
    };
    let line = line.intern()?;
    known::keep(Entry {
        code: address,
        offset,
        contents: code.hash(memory, found.read)?,
        read: found.read,
        line,
    });
    Some(line)
}

/// A code object.
#[derive(Debug)]
struct Code {
    first_line: i32,
    file: Text,
    function: Text,
    /// The address of the table's first byte.
    table: usize,
    table_length: usize,
}

impl Code {
    fn read(memory: &impl Memory, layout: &Layout, types: &Types, at: usize) -> Option<Self> {
        /// Where a `bytes` object has its length and its bytes.
        const LENGTH: usize = 16;
        const BYTES: usize = 32;

        let [class, first_line, file, function, table] = memory.words([
            field(at, 8),
            field(at, layout.code.first_line & !7),
            field(at, layout.code.file),
            field(at, layout.code.function),
            field(at, layout.code.table),
        ])?;
        if class != types.code {
            return None;
        }
        let first_line = (first_line >> (8 * (layout.code.first_line & 7))) as i32;
        let [class, length, state] = Text::HEAD;
        let heads = memory.words([
            field(file, class),
            field(file, length),
            field(file, state),
            field(function, class),
            field(function, length),
            field(function, state),
            field(table, class),
            field(table, LENGTH),
        ])?;
        let [a, b, c, d, e, f, class, table_length] = heads;
        let text = |at, head| Text::new(at, head, types.string, &layout.text);
        if class != types.bytes || table_length > LONGEST_TABLE {
            return None;
        }
        Some(Self {
            first_line,
            file: text(file, [a, b, c])?,
            function: text(function, [d, e, f])?,
            table: field(table, BYTES),
            table_length,
        })
    }

    /// The hash of all that a line is read from, of the table its first `read` bytes.
    fn hash(&self, memory: &impl Memory, read: usize) -> Option<u64> {
        if read > self.table_length {
            return None;
        }
        let mut hash = FxBuildHasher.build_hasher();
        hash.write_i32(self.first_line);
        self.file.hash(memory, &mut hash)?;
        self.function.hash(memory, &mut hash)?;
        memory.bytes(self.table, read, &mut |bytes| hash.write(bytes))?;
        Some(hash.finish())
    }
}
