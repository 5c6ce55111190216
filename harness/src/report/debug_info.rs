//! The port to the readers of debug information and symbol tables: the functions and lines of an
//! address.
//!
//! Two of them. `elf` is for the systems that CUDA is for, and shares its reader of DWARF with the
//! quick unwinder; `elsewhere` is the `backtrace` crate, which reads the files of every system and
//! takes its time to compile.

#[cfg_attr(
    not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )),
    path = "debug_info/elsewhere.rs"
)]
mod elf;

pub(super) use self::elf::DebugInfo;

/// A function at an address, perhaps one that is inlined there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Symbol {
    /// Demangled, without its hash.
    pub(super) function: Option<String>,
    /// As the compiler wrote it down.
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
    pub(super) column: Option<u32>,
}
