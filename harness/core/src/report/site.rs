//! The call sites of a program.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A call site: a distinct trimmed backtrace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Site {
    /// A version and 16 hexadecimal digits, such as `1-0123456789abcdef`. It is the same for the
    /// same kind and functions, regardless of addresses, lines and inlining.
    pub fingerprint: String,
    /// The frames, innermost first, including inlined ones. Frames of the harness and of CUDA are
    /// omitted at the inner end, and those of the runtime's start-up at the outer end.
    pub frames: Vec<Frame>,
    /// The index of the frame with the user's line.
    pub user: Option<usize>,
    /// The library that created the resource, unless the user's code or a crate did.
    pub library: Option<Library>,
}

/// A library that allocates GPU memory or creates objects for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Library {
    /// The common name of the library: `cuBLAS`.
    pub name: String,
    /// The function of the library that was called: `cublasCreate_v2`.
    pub function: Option<String>,
    /// The library's file name, which usually includes the version: `libcublas.so.13.0.0.19`.
    pub file: Option<String>,
    /// The framework that called the library: `libtorch`.
    pub called_by: Option<String>,
    /// A sentence about the memory that the library is known to keep: for how long, and what to do.
    pub known: Option<String>,
}

/// One frame of a stack.
// The names are shared, because each frame is copied many times before it is reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Frame {
    /// The demangled name of the function, without its hash.
    pub function: Option<Arc<str>>,
    /// The path of the file, relative to the workspace if the file is inside it. Otherwise, the
    /// path in the debug information.
    pub file: Option<Arc<str>>,
    /// The line, counted from 1.
    pub line: Option<u32>,
    /// The column, counted in bytes from 1, as compilers do.
    pub column: Option<u32>,
    /// The library or the program: `libcublas.so.13`.
    pub module: Option<Arc<str>>,
    /// The offset in the module, for a frame without a name.
    pub offset: Option<u64>,
    /// The owner of the code.
    pub owner: Owner,
    /// The language that the function is written in.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub language: Language,
    /// Whether the function was seen to make the same call to the driver in several places. Such a
    /// function is not only a wrapper of that call.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub several_calls: bool,
}

/// The language of a frame's function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Language {
    /// Anything that is compiled to machine code.
    #[default]
    Compiled,
    /// Python.
    Python,
}

/// The owner of a frame's code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// The user.
    #[default]
    User,
    /// A crate from a registry or a git checkout, or an installed Python package.
    Dependency,
    /// The standard libraries of Rust or Python.
    Std,
    /// A library from NVIDIA.
    Cuda,
    /// The harness.
    Harness,
    /// A C library or anything else without a known source.
    Native,
}
