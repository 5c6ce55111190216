//! Walks the frames of a thread and reads their lines.
//!
//! The walk never changes a reference count and never calls the interpreter. Everything that is
//! read is checked before it is used: an invalid address ends the walk, and a frame with an object
//! of an unexpected type is skipped.

use std::hash::{BuildHasher, Hasher};

use gpu_leak_check::__script::{LineNumber, ScriptLine};
use rustc_hash::FxBuildHasher;

use super::layout::{EntryMark, INTERPRETER, InstructionUnit, Layout};
use super::line_cache::{self, CachedLine};
use super::location;
use super::memory::Memory;
use super::string::PythonString;

/// The addresses of the types of the objects that are read.
#[derive(Debug)]
pub(super) struct Types {
    pub(super) code: usize,
    pub(super) string: usize,
    pub(super) bytes: usize,
}

/// The maximum number of frames that a walk visits, with or without a line.
const MAX_FRAMES: usize = 256;
/// The length of the longest table that is read. No function needs a longer one.
const MAX_TABLE: usize = 1 << 20;

/// Writes the lines of the thread whose state is at `thread` to `words`, innermost first, and
/// returns how many there are.
pub(super) fn read(
    memory: &impl Memory,
    layout: &Layout,
    types: &Types,
    thread: usize,
    words: &mut [usize],
) -> usize {
    let mut count = 0;
    let mut at = innermost(memory, layout, thread);
    // The line of the previous frame, held back until it is known whether native code called that
    // frame.
    let mut pending: Option<(LineNumber, bool)> = None;
    for _ in 0..MAX_FRAMES {
        let frame = at.and_then(|at| Frame::read(memory, layout, at));
        let is_outermost = frame.as_ref().is_none_or(|frame| frame.is_interpreter);
        if let Some((line, is_entry)) = pending.take() {
            let Some(word) = words.get_mut(count) else {
                break;
            };
            *word = line.word(is_entry || is_outermost);
            count += 1;
        }
        let Some(frame) = frame else { break };
        if !frame.is_interpreter {
            let line = line(memory, layout, types, &frame);
            pending = line.map(|line| (line, frame.is_entry));
        }
        at = frame.previous;
    }
    count
}

/// Returns the address of the field at `offset` of the structure at `at`, which may be invalid.
fn field(at: usize, offset: usize) -> usize {
    at.wrapping_add(offset)
}

/// Returns the address of the innermost frame of a thread.
fn innermost(memory: &impl Memory, layout: &Layout, thread: usize) -> Option<usize> {
    let [mut at] = memory.words([field(thread, layout.thread)])?;
    if let Some(offset) = layout.through {
        [at] = memory.words([field(at, offset)])?;
    }
    Some(at)
}

/// The fields of a frame that the walk needs.
#[derive(Debug)]
struct Frame {
    previous: Option<usize>,
    code: usize,
    instruction: usize,
    /// Whether this is the interpreter's own frame between native code and Python code.
    is_interpreter: bool,
    /// Whether the frame itself shows that native code has called it.
    is_entry: bool,
}

impl Frame {
    fn read(memory: &impl Memory, layout: &Layout, at: usize) -> Option<Self> {
        let frame = &layout.frame;
        let flag = match frame.entry {
            EntryMark::Flag(offset) => Some(offset),
            EntryMark::Always | EntryMark::InterpreterFrame => None,
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
            is_interpreter: frame.owner.is_some_and(|at| byte(owner, at) >= INTERPRETER),
            is_entry: match frame.entry {
                EntryMark::Always => true,
                EntryMark::Flag(at) => byte(flags, at) != 0,
                EntryMark::InterpreterFrame => false,
            },
        })
    }

    /// Returns the offset of the instruction in the code, in bytes.
    fn offset(&self, layout: &Layout) -> isize {
        match layout.frame.unit {
            InstructionUnit::Index(bytes) => self.instruction as i32 as isize * bytes,
            InstructionUnit::Address => {
                let begin = self.code.wrapping_add(layout.code.instructions);
                self.instruction.wrapping_sub(begin) as isize
            }
        }
    }
}

/// Returns the number of the current line of a frame.
fn line(memory: &impl Memory, layout: &Layout, types: &Types, frame: &Frame) -> Option<LineNumber> {
    let code = Code::read(memory, layout, types, frame.code)?;
    let offset = frame.offset(layout);
    if let Some(cached) = line_cache::find(frame.code, offset)
        && code.hash(memory, cached.read) == Some(cached.hash)
    {
        return Some(cached.line);
    }
    decode(memory, layout, &code, frame.code, offset)
}

/// Decodes a line that is not in the cache.
#[cold]
fn decode(
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
    line_cache::store(CachedLine {
        code: address,
        offset,
        hash: code.hash(memory, found.read)?,
        read: found.read,
        line,
    });
    Some(line)
}

#[derive(Debug)]
struct Code {
    first_line: i32,
    file: PythonString,
    function: PythonString,
    /// The address of the first byte of the table.
    table: usize,
    table_length: usize,
}

impl Code {
    fn read(memory: &impl Memory, layout: &Layout, types: &Types, at: usize) -> Option<Self> {
        /// The offsets of the length and the contents of a `bytes` object.
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
        let [class, length, state] = PythonString::HEAD;
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
        let string = |at, head| PythonString::new(at, head, types.string, &layout.string);
        if class != types.bytes || table_length > MAX_TABLE {
            return None;
        }
        Some(Self {
            first_line,
            file: string(file, [a, b, c])?,
            function: string(function, [d, e, f])?,
            table: field(table, BYTES),
            table_length,
        })
    }

    /// Hashes everything from which a line is read, including the first `read` bytes of the table.
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
