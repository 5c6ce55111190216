//! Finds the interpreter of this process by the symbols that it exports. The interpreter is read
//! only if its release is known.

#![expect(unsafe_code, reason = "reads CPython's C structures")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;

use super::frames::Types;
use super::layout::{self, DebugOffsets, Layout};
use super::memory::{Memory, ThroughKernel};
use crate::symbols::{address, function};
use crate::{Unsupported, Version};

/// An interpreter whose frames can be read.
#[derive(Debug)]
pub(super) struct Interpreter {
    pub(super) version: Version,
    pub(super) layout: &'static Layout,
    pub(super) types: Types,
    /// Whether the program is Python itself, which shuts down on the main thread. A program that
    /// embeds Python may shut it down on any thread.
    pub(super) is_the_program: bool,
    /// `PyGILState_GetThisThreadState`
    this_thread: extern "C" fn() -> *mut c_void,
    /// `Py_IsFinalizing`
    is_finalizing: extern "C" fn() -> c_int,
}

impl Interpreter {
    /// Returns the interpreter of this process, if one is loaded.
    pub(super) fn find() -> Result<Option<Self>, Unsupported> {
        let Some(version) = version() else {
            return Ok(None);
        };
        match Self::of_release(&version) {
            Ok(interpreter) => Ok(Some(interpreter)),
            Err(why) => Err(Unsupported { version, why }),
        }
    }

    fn of_release(version: &Version) -> Result<Self, &'static str> {
        const UNKNOWN: &str = "has a layout that this release of gpu-leak-check does not support";
        const CHANGED: &str = "does not have the usual layout of its release";

        if version.full.contains(['a', 'b']) {
            return Err("is a pre-release, whose layout may still change");
        }
        let is_three = version.major == 3;
        let layout = layout::of(version.minor).filter(|_| is_three);
        let layout = layout.ok_or(UNKNOWN)?;
        // SAFETY: these are the documented signatures, and the interpreter is never unloaded.
        let functions = unsafe {
            let finalizing = function(c"Py_IsFinalizing");
            (
                function(c"PyGILState_GetThisThreadState"),
                finalizing.or_else(|| function(c"_Py_IsFinalizing")),
            )
        };
        let (Some(this_thread), Some(is_finalizing)) = functions else {
            return Err(UNKNOWN);
        };
        let object = |name| {
            let address = address(name).ok_or(UNKNOWN);
            address.map(|it| it.expose_provenance())
        };
        let types = Types {
            code: object(c"PyCode_Type")?,
            string: object(c"PyUnicode_Type")?,
            bytes: object(c"PyBytes_Type")?,
        };
        // An object begins with its reference count and its type, unless the build traces
        // references.
        let class = object(c"PyType_Type")?;
        if ThroughKernel::new().words([types.code + 8]) != Some([class]) {
            return Err("is built with reference tracing");
        }
        if let Some(offsets) = &layout.offsets {
            check_debug_offsets(version, layout, offsets, object(c"_PyRuntime")?)?
                .ok_or(CHANGED)?;
        }
        Ok(Self {
            version: version.clone(),
            layout,
            types,
            is_the_program: std::env::current_exe().is_ok_and(|program| is_python(&program)),
            this_thread,
            is_finalizing,
        })
    }

    /// Returns the address of the calling thread's state, or `None` if the thread has no state, or
    /// if Python is shutting down and may free it.
    pub(super) fn this_thread(&self) -> Option<usize> {
        // Neither function takes a lock or needs the interpreter's lock: one reads a flag, the
        // other a thread-local variable.
        if (self.is_finalizing)() != 0 {
            return None;
        }
        let state = (self.this_thread)();
        (!state.is_null()).then(|| state.expose_provenance())
    }
}

/// Whether a program is Python: `python`, `python3.12`, `python3.12-dbg`.
fn is_python(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().as_encoded_bytes();
    let rest = name.strip_prefix(b"python");
    rest.is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_digit))
}

/// Checks whether `_Py_DebugOffsets`, at the beginning of the interpreter's `_PyRuntime`, agrees
/// with the layout. Returns `None` if it does not, and an error if the interpreter is built without
/// the GIL.
fn check_debug_offsets(
    version: &Version,
    layout: &Layout,
    offsets: &DebugOffsets,
    runtime: usize,
) -> Result<Option<()>, &'static str> {
    const COOKIE: usize = usize::from_le_bytes(*b"xdebugpy");

    let memory = ThroughKernel::new();
    let word = |number: usize| memory.words([runtime + 8 * number]).map(|[word]| word);
    if word(0) != Some(COOKIE) {
        return Ok(None);
    }
    let is_version = word(1).is_some_and(|hex| {
        (hex >> 24 & 0xff, hex >> 16 & 0xff) == (version.major.into(), version.minor.into())
    });
    if word(2) != Some(0) {
        return Err("is built without the GIL");
    }
    let (frame, code) = (&layout.frame, &layout.code);
    let rows = [
        (offsets.thread, layout.thread),
        (offsets.previous, frame.previous),
        (offsets.code, frame.code),
        (offsets.instruction, frame.instruction),
        (offsets.owner, frame.owner.unwrap_or_default()),
        (offsets.file, code.file),
        (offsets.function, code.function),
        (offsets.table, code.table),
        (offsets.first_line, code.first_line),
        (offsets.instructions, code.instructions),
    ];
    let agree = rows.iter().all(|(at, is)| word(*at) == Some(*is));
    Ok((is_version && agree).then_some(()))
}

/// Returns the interpreter's release, parsed from its own description: `3.12.3 (main, …) [GCC …]`.
fn version() -> Option<Version> {
    // Other implementations of Python do not have this symbol.
    address(c"_PyRuntime")?;
    // SAFETY: this is the documented signature. Concurrent calls write the same text to the same
    // place.
    let name: extern "C" fn() -> *const c_char = unsafe { function(c"Py_GetVersion") }?;
    // SAFETY: this is a static string of the interpreter, which ends with a zero byte.
    let text = unsafe { CStr::from_ptr(name()) }.to_str().ok()?;
    let full = text.split_whitespace().next()?;
    let mut parts = full.split('.');
    Some(Version {
        major: parts.next()?.parse().ok()?,
        minor: parts.next()?.parse().ok()?,
        full: full.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Interpreter, Version, is_python};
    use crate::Unsupported;

    #[test]
    fn a_program_that_embeds_python_is_not_python() {
        let is = |program| is_python(Path::new(program));
        assert!(is("/usr/bin/python3.11") && is("/opt/venv/bin/python") && is("python3.13-dbg"));
        assert!(!is("/opt/renderer/bin/renderer") && !is("/usr/bin/pythonnet-host") && !is("/"));
    }

    #[test]
    fn unknown_releases_are_refused_with_a_message() {
        for (minor, full, why) in [
            (
                8,
                "3.8.20",
                "has a layout that this release of gpu-leak-check does not support",
            ),
            (
                16,
                "3.16.0",
                "has a layout that this release of gpu-leak-check does not support",
            ),
            (
                14,
                "3.14.0b1",
                "is a pre-release, whose layout may still change",
            ),
        ] {
            let version = Version {
                major: 3,
                minor,
                full: full.to_owned(),
            };
            let refused = Interpreter::of_release(&version).map(|_| ());
            assert_eq!(refused, Err(why), "{full}");
            let message = Unsupported { version, why }.to_string();
            assert!(
                message.starts_with(&format!("Python {full} {why}: ")),
                "{message}"
            );
        }
    }
}
