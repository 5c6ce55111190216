//! Where each release of CPython keeps what the reader wants, by the headers of that release.
//!
//! A minor release does not change these between its patches: extensions are compiled against
//! them. From 3.13 on the interpreter also tells them itself (`_Py_DebugOffsets`), and what is
//! written here must agree with it, or nothing is read.

use super::location::Form;

/// What is written down of a minor release. Offsets in bytes.
#[derive(Debug)]
pub(super) struct Layout {
    /// The 12 of 3.12.
    minor: u8,
    /// `PyThreadState`: the innermost frame, or what leads to it.
    pub(super) thread: usize,
    /// `_PyCFrame`: the innermost frame, where the thread's state has no more than that.
    pub(super) through: Option<usize>,
    pub(super) frame: Frame,
    pub(super) code: Code,
    pub(super) text: Text,
    /// Where `_Py_DebugOffsets` has these.
    pub(super) offsets: Option<DebugOffsets>,
}

/// `_PyInterpreterFrame`, up to 3.10 `PyFrameObject`.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) previous: usize,
    pub(super) code: usize,
    /// Bits of that word which are not the code object's address.
    pub(super) tags: usize,
    pub(super) instruction: usize,
    pub(super) counted: Counted,
    /// Whose frame it is.
    pub(super) owner: Option<usize>,
    pub(super) begins: Begins,
}

/// What a frame has of its instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// Its number, each instruction having so many bytes.
    Units(isize),
    /// Its address.
    Address,
}

/// How a frame tells that compiled code began its evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// Each frame is evaluated by itself.
    Always,
    /// By a flag.
    Flag(usize),
    /// By the frame of the interpreter's own that comes before it.
    BehindItsOwn,
}

/// The least [owner](Frame::owner) that stands for the interpreter itself.
pub(super) const OWN: u8 = 3;

/// `PyCodeObject`.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) first_line: usize,
    pub(super) file: usize,
    /// The qualified name; up to 3.10 the last part of it is all there is.
    pub(super) function: usize,
    pub(super) table: usize,
    pub(super) form: Form,
    pub(super) instructions: usize,
}

/// `PyUnicodeObject`: where the characters begin.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) ascii: usize,
    pub(super) others: usize,
}

/// Which words of `_Py_DebugOffsets` have the offsets above.
#[derive(Debug)]
pub(super) struct DebugOffsets {
    pub(super) thread: usize,
    pub(super) previous: usize,
    pub(super) code: usize,
    pub(super) instruction: usize,
    pub(super) owner: usize,
    pub(super) file: usize,
    pub(super) function: usize,
    pub(super) table: usize,
    pub(super) first_line: usize,
    pub(super) instructions: usize,
}

impl DebugOffsets {
    /// `thread_state.current_frame` and the first members of `interpreter_frame` and `code_object`
    /// after `size`, by the number of their word.
    const fn at(thread: usize, frame: usize, code: usize) -> Self {
        Self {
            thread,
            previous: frame,
            code: frame + 1,
            instruction: frame + 2,
            owner: frame + 4,
            file: code,
            function: code + 2,
            table: code + 3,
            first_line: code + 4,
            instructions: code + 8,
        }
    }
}

/// The layout of CPython 3.`minor`; none where it is not known.
pub(super) fn of(minor: u8) -> Option<&'static Layout> {
    LAYOUTS.iter().find(|layout| layout.minor == minor)
}

const OBJECTS: Frame = Frame {
    previous: 24,
    code: 32,
    tags: 0,
    instruction: 104,
    counted: Counted::Units(1),
    owner: None,
    begins: Begins::Always,
};

const CODE_3_9: Code = Code {
    first_line: 40,
    file: 104,
    function: 112,
    table: 120,
    form: Form::Increments,
    instructions: 48,
};

const TEXT_3_9: Text = Text {
    ascii: 48,
    others: 72,
};

const CODE_3_12: Code = Code {
    first_line: 68,
    file: 112,
    function: 128,
    table: 136,
    form: Form::Locations,
    instructions: 192,
};

const TEXT_3_12: Text = Text {
    ascii: 40,
    others: 56,
};

const FRAME_3_12: Frame = Frame {
    previous: 8,
    code: 0,
    tags: 0,
    instruction: 56,
    counted: Counted::Address,
    owner: Some(70),
    begins: Begins::BehindItsOwn,
};

/// One row a release.
const LAYOUTS: [Layout; 7] = [
    Layout {
        minor: 9,
        thread: 24,
        through: None,
        frame: OBJECTS,
        code: CODE_3_9,
        text: TEXT_3_9,
        offsets: None,
    },
    Layout {
        minor: 10,
        thread: 24,
        through: None,
        frame: Frame {
            instruction: 96,
            counted: Counted::Units(2),
            ..OBJECTS
        },
        code: Code {
            form: Form::Ranges,
            ..CODE_3_9
        },
        text: TEXT_3_9,
        offsets: None,
    },
    Layout {
        minor: 11,
        thread: 56,
        through: Some(8),
        frame: Frame {
            previous: 48,
            code: 32,
            tags: 0,
            instruction: 56,
            counted: Counted::Address,
            owner: Some(69),
            begins: Begins::Flag(68),
        },
        code: Code {
            first_line: 72,
            instructions: 184,
            ..CODE_3_12
        },
        text: TEXT_3_9,
        offsets: None,
    },
    Layout {
        minor: 12,
        thread: 56,
        through: Some(0),
        frame: FRAME_3_12,
        code: CODE_3_12,
        text: TEXT_3_12,
        offsets: None,
    },
    Layout {
        minor: 13,
        thread: 72,
        through: None,
        frame: FRAME_3_12,
        code: Code {
            instructions: 200,
            ..CODE_3_12
        },
        text: TEXT_3_12,
        offsets: Some(DebugOffsets::at(23, 29, 35)),
    },
    Layout {
        minor: 14,
        thread: 72,
        through: None,
        frame: Frame {
            tags: 3,
            owner: Some(74),
            ..FRAME_3_12
        },
        code: Code {
            instructions: 208,
            ..CODE_3_12
        },
        text: TEXT_3_12,
        offsets: Some(DebugOffsets::at(26, 32, 40)),
    },
    Layout {
        minor: 15,
        thread: 72,
        through: None,
        frame: Frame {
            tags: 3,
            owner: Some(74),
            ..FRAME_3_12
        },
        code: Code {
            instructions: 208,
            ..CODE_3_12
        },
        text: TEXT_3_12,
        offsets: Some(DebugOffsets::at(26, 40, 48)),
    },
];
