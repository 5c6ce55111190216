//! Interns source lines of interpreted programs.
//!
//! A backtrace consists of words, which are return addresses. The frames of an interpreted program
//! have no return addresses of their own, because the compiled code that runs is the interpreter's.
//! So a word can also refer to a line of the interpreted program. Such a word is marked by its
//! highest bit, which is not set in any address of a program.

use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;

/// The bit that marks a word that refers to a line. It is 0 on systems whose addresses can have
/// this bit set.
const TAG: usize = if usize::BITS == 64 { 1 << 63 } else { 0 };
/// The bit that is also set if compiled code, rather than another line, started the evaluation.
const OUTERMOST: usize = TAG >> 1;
/// The largest number of distinct lines that are kept. A program that generates code can produce
/// new ones forever.
const MAX_LINES: usize = 1 << 20;

/// The source line of an interpreter's frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScriptLine {
    /// The file as the interpreter names it: `/home/ann/train.py`, `<stdin>`.
    pub file: String,
    /// The function, for example `Trainer.step`.
    pub function: String,
    /// The line, counted from 1.
    pub line: Option<u32>,
    /// The column, counted from 1, in bytes.
    pub column: Option<u32>,
}

impl ScriptLine {
    /// Returns the ID of this line, or `None` if no more lines can be kept.
    pub fn intern(&self) -> Option<LineNumber> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_default();
        if let Some(number) = known.numbers.get(self) {
            return Some(*number);
        }
        if TAG == 0 || known.lines.len() == MAX_LINES {
            return None;
        }
        let number = LineNumber(known.lines.len() as u32);
        let line = Arc::new(self.clone());
        known.lines.push(Arc::clone(&line));
        known.numbers.insert(line, number);
        Some(number)
    }
}

/// The ID of a [`ScriptLine`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineNumber(u32);

impl LineNumber {
    /// Returns the word for a frame at this line. `outermost` says whether compiled code, rather
    /// than another line, called the code that is evaluated there.
    pub fn word(self, outermost: bool) -> usize {
        TAG | self.0 as usize | if outermost { OUTERMOST } else { 0 }
    }
}

/// Whether a word of a backtrace refers to a line.
pub fn is_script(word: usize) -> bool {
    word & TAG != 0
}

/// Whether compiled code started the evaluation that this line is part of.
pub fn is_outermost(word: usize) -> bool {
    is_script(word) && word & OUTERMOST != 0
}

/// Returns the line that a word refers to, or `None` for an address or a word of another process.
pub fn line(word: usize) -> Option<Arc<ScriptLine>> {
    if !is_script(word) {
        return None;
    }
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let lines = &known.as_ref()?.lines;
    lines.get(word & !(TAG | OUTERMOST)).cloned()
}

/// The lines are shared by the whole process, like the return addresses that are in the same
/// backtraces.
static KNOWN: Mutex<Option<InternedLines>> = Mutex::new(None);

#[derive(Debug, Default)]
struct InternedLines {
    numbers: FxHashMap<Arc<ScriptLine>, LineNumber>,
    lines: Vec<Arc<ScriptLine>>,
}

#[cfg(target_pointer_width = "64")]
#[cfg(test)]
mod tests {
    use super::{ScriptLine, is_outermost, is_script, line};

    fn at(line: u32) -> ScriptLine {
        ScriptLine {
            file: "train.py".to_owned(),
            function: "step".to_owned(),
            line: Some(line),
            column: None,
        }
    }

    #[test]
    fn a_line_is_kept_once_and_found_by_its_word() {
        let number = at(3).intern().unwrap();
        assert_eq!(at(3).intern(), Some(number));
        assert_ne!(at(4).intern(), Some(number));
        for outermost in [false, true] {
            let word = number.word(outermost);
            assert_eq!(line(word).as_deref(), Some(&at(3)));
            assert_eq!((is_script(word), is_outermost(word)), (true, outermost));
        }
    }

    #[test]
    fn an_address_is_not_taken_for_a_line() {
        let address = at as fn(_) -> _ as usize;
        for word in [0, address, (1 << 47) - 1] {
            assert!(!is_script(word) && !is_outermost(word));
            assert_eq!(line(word), None);
        }
    }
}
