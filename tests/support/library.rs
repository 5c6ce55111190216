//! Builds shared libraries for a test.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles C to a shared library with this name in `folder`, with frame information but without
/// debug information.
///
/// # Panics
///
/// Panics if the library cannot be compiled.
#[must_use]
pub fn of_c(folder: &Path, name: &str, source: &str) -> PathBuf {
    let (file, library) = (folder.join("library.c"), folder.join(name));
    std::fs::write(&file, source).expect("a writable folder");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-g0", "-o"])
        .args([&library, &file])
        .status();
    assert!(status.is_ok_and(|status| status.success()), "cc works");
    library
}
