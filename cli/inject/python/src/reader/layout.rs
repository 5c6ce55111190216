//! The layout of CPython's structures in each release, taken from the headers of that release.
//!
//! The layout does not change between the patch releases of a minor release, since extensions are
//! compiled against it. Since 3.13, the interpreter itself also contains these offsets
//! (`_Py_DebugOffsets`). If they do not agree with the offsets here, nothing is read.

use super::location::Form;

/// The layout of a minor release. Offsets are in bytes.
#[derive(Debug)]
pub(super) struct Layout {
    /// The minor version: 12 for 3.12.
    minor: u8,
    /// `PyThreadState`: the innermost frame, or the structure that points to it.
    pub(super) thread: usize,
    /// `_PyCFrame`: the innermost frame, in releases whose thread state points to such a structure.
    pub(super) through: Option<usize>,
    pub(super) frame: FrameLayout,
    pub(super) code: CodeLayout,
    pub(super) string: StringLayout,
    /// Where `_Py_DebugOffsets` stores the same offsets.
    pub(super) offsets: Option<DebugOffsets>,
}

/// `_PyInterpreterFrame`, or `PyFrameObject` up to 3.10.
#[derive(Debug)]
pub(super) struct FrameLayout {
    pub(super) previous: usize,
    pub(super) code: usize,
    /// The bits of the word at `code` that are not part of the code object's address.
    pub(super) tags: usize,
    pub(super) instruction: usize,
    pub(super) unit: InstructionUnit,
    pub(super) owner: Option<usize>,
    pub(super) entry: EntryMark,
}

/// How a frame stores its current instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InstructionUnit {
    /// The frame stores an index, in units of this many bytes.
    Index(isize),
    /// The frame stores an address.
    Address,
}

/// How a frame shows that native code has called it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryMark {
    /// Native code calls every frame.
    Always,
    /// The frame has a flag at this offset.
    Flag(usize),
    /// The previous frame is one of the interpreter's own.
    InterpreterFrame,
}

/// The lowest [owner](FrameLayout::owner) that stands for the interpreter itself.
pub(super) const INTERPRETER: u8 = 3;

/// `PyCodeObject`.
#[derive(Debug)]
pub(super) struct CodeLayout {
    pub(super) first_line: usize,
    pub(super) file: usize,
    /// The qualified name, or only its last part up to 3.10.
    pub(super) function: usize,
    pub(super) table: usize,
    pub(super) form: Form,
    pub(super) instructions: usize,
}

/// `PyUnicodeObject`: the offsets of the characters.
#[derive(Debug)]
pub(super) struct StringLayout {
    pub(super) ascii: usize,
    pub(super) non_ascii: usize,
}

/// Which words of `_Py_DebugOffsets` contain the offsets above.
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
    /// Creates the offsets from the indices of the words `thread_state.current_frame` and of the
    /// first members of `interpreter_frame` and `code_object` after `size`.
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

/// Returns the layout of CPython 3.`minor`, if it is known.
pub(super) fn of(minor: u8) -> Option<&'static Layout> {
    LAYOUTS.iter().find(|layout| layout.minor == minor)
}

/// One constant per release, written as the differences from an earlier release.
const LAYOUTS: [Layout; 7] = [
    PYTHON_3_9,
    PYTHON_3_10,
    PYTHON_3_11,
    PYTHON_3_12,
    PYTHON_3_13,
    PYTHON_3_14,
    PYTHON_3_15,
];

const PYTHON_3_9: Layout = Layout {
    minor: 9,
    thread: 24,
    through: None,
    frame: FrameLayout {
        previous: 24,
        code: 32,
        tags: 0,
        instruction: 104,
        unit: InstructionUnit::Index(1),
        owner: None,
        entry: EntryMark::Always,
    },
    code: CodeLayout {
        first_line: 40,
        file: 104,
        function: 112,
        table: 120,
        form: Form::Increments,
        instructions: 48,
    },
    string: StringLayout {
        ascii: 48,
        non_ascii: 72,
    },
    offsets: None,
};

const PYTHON_3_10: Layout = Layout {
    minor: 10,
    frame: FrameLayout {
        instruction: 96,
        unit: InstructionUnit::Index(2),
        ..PYTHON_3_9.frame
    },
    code: CodeLayout {
        form: Form::Ranges,
        ..PYTHON_3_9.code
    },
    ..PYTHON_3_9
};

const PYTHON_3_11: Layout = Layout {
    minor: 11,
    thread: 56,
    through: Some(8),
    frame: FrameLayout {
        previous: 48,
        code: 32,
        tags: 0,
        instruction: 56,
        unit: InstructionUnit::Address,
        owner: Some(69),
        entry: EntryMark::Flag(68),
    },
    code: CodeLayout {
        first_line: 72,
        file: 112,
        function: 128,
        table: 136,
        form: Form::Locations,
        instructions: 184,
    },
    ..PYTHON_3_9
};

const PYTHON_3_12: Layout = Layout {
    minor: 12,
    through: Some(0),
    frame: FrameLayout {
        previous: 8,
        code: 0,
        owner: Some(70),
        entry: EntryMark::InterpreterFrame,
        ..PYTHON_3_11.frame
    },
    code: CodeLayout {
        first_line: 68,
        instructions: 192,
        ..PYTHON_3_11.code
    },
    string: StringLayout {
        ascii: 40,
        non_ascii: 56,
    },
    ..PYTHON_3_11
};

const PYTHON_3_13: Layout = Layout {
    minor: 13,
    thread: 72,
    through: None,
    code: CodeLayout {
        instructions: 200,
        ..PYTHON_3_12.code
    },
    offsets: Some(DebugOffsets::at(23, 29, 35)),
    ..PYTHON_3_12
};

const PYTHON_3_14: Layout = Layout {
    minor: 14,
    frame: FrameLayout {
        tags: 3,
        owner: Some(74),
        ..PYTHON_3_13.frame
    },
    code: CodeLayout {
        instructions: 208,
        ..PYTHON_3_13.code
    },
    offsets: Some(DebugOffsets::at(26, 32, 40)),
    ..PYTHON_3_13
};

const PYTHON_3_15: Layout = Layout {
    minor: 15,
    offsets: Some(DebugOffsets::at(26, 40, 48)),
    ..PYTHON_3_14
};
