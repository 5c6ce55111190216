//! Reads debug information and symbol tables: the functions and lines at an address.
//!
//! There are two implementations. `elf` is for the systems that CUDA supports, and shares its DWARF
//! reader with the quick unwinder. `elsewhere` uses the `backtrace` crate, which reads the formats
//! of every system but takes long to compile.

#[cfg_attr(
    not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )),
    path = "debug_info/elsewhere.rs"
)]
mod elf;

pub(super) use self::elf::DebugInfo;

/// A function at an address, which may be inlined there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Symbol {
    /// The name. For a Rust function, it is demangled and has no hash; for a C++ function, it is
    /// the symbol.
    pub(super) function: Option<String>,
    /// The path of the source file, as the compiler recorded it.
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
    pub(super) column: Option<u32>,
}
