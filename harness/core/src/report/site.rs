//! Where in a program something was taken.

use serde::{Deserialize, Serialize};

/// A distinct stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Site {
    /// The same for the same kind and functions, whatever the addresses, the lines and what was
    /// inlined; 16 hexadecimal digits behind a version: `1-0123456789abcdef`.
    pub fingerprint: String,
    /// Innermost first, inlined ones included; the harness's own and CUDA's are left out at the
    /// top, the runtime's start-up at the bottom.
    pub frames: Vec<Frame>,
    /// Which of them is the user's line.
    pub user: Option<usize>,
    /// The library that took it, where not the user's code or a crate did.
    #[serde(default)]
    pub library: Option<Library>,
}

/// A library that takes GPU memory or objects for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Library {
    /// What its users call it: `cuBLAS`.
    pub name: String,
    /// The function by which it was entered: `cublasCreate_v2`.
    pub function: Option<String>,
    /// Its file, which mostly has its version: `libcublas.so.13.0.0.19`.
    pub file: Option<String>,
    /// The framework that called it: `libtorch`.
    pub called_by: Option<String>,
    /// What it is known to keep.
    pub known: Option<Known>,
}

/// A row of the table of what libraries keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Known {
    /// The table's version.
    pub table: u32,
    /// The row: `cublas-handle`.
    pub row: String,
    /// What is kept, until when, and what to do; a sentence.
    pub says: String,
}

/// One frame of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Frame {
    /// Demangled, without its hash.
    pub function: Option<String>,
    /// Relative to the workspace where it lies inside.
    pub file: Option<String>,
    /// From 1.
    pub line: Option<u32>,
    /// From 1.
    pub column: Option<u32>,
    /// The library or program: `libcublas.so.13`.
    pub module: Option<String>,
    /// Inside the module, for a frame without a name.
    pub offset: Option<u64>,
    /// Whose code it is.
    pub owner: Owner,
    /// What it is written in.
    #[serde(default, skip_serializing_if = "Language::is_compiled")]
    pub language: Language,
}

/// What a frame's function is written in.
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

impl Language {
    fn is_compiled(&self) -> bool {
        *self == Self::Compiled
    }
}

/// Whose code a frame is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// The user's.
    #[default]
    User,
    /// A crate from a registry or a git checkout, an installed package of Python's.
    Dependency,
    /// Rust's or Python's own libraries.
    Std,
    /// NVIDIA's libraries.
    Cuda,
    /// This harness.
    Harness,
    /// A C library or anything else without a known source.
    Native,
}
