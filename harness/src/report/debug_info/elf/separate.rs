//! Finds separate debug files in the places where [gdb] looks for them.
//!
//! [gdb]: https://sourceware.org/gdb/current/onlinedocs/gdb.html/Separate-Debug-Files.html

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::Object;

use super::file::ElfFile;

/// The directory in which distributions install debug files.
const SYSTEM: &str = "/usr/lib/debug";

/// Returns the file that contains the debug information stripped from `loaded`, the file at `path`.
/// Also returns the path of the file that was found.
pub(super) fn debug_file(path: &Path, loaded: &ElfFile) -> Option<(PathBuf, ElfFile)> {
    let id = loaded.build_id();
    let by_id = id.and_then(by_build_id);
    let mut places = by_id.into_iter().chain(linked(path, loaded));
    places.find_map(|place| {
        let file = ElfFile::open(&place)?;
        // A debug file from another build would have different lines.
        let is_of_it = id.is_none() || file.build_id().is_none_or(|other| Some(other) == id);
        is_of_it.then_some((place, file))
    })
}

/// Returns the supplementary file that the debug file at `path` shares with other debug files.
pub(super) fn supplement(path: &Path, file: &ElfFile) -> Option<ElfFile> {
    let (name, id) = file.0.gnu_debugaltlink().ok()??;
    let beside = directory(path)?.join(OsStr::from_bytes(name));
    let places = [Some(beside), by_build_id(id)];
    let mut files = places
        .into_iter()
        .flatten()
        .filter_map(|it| ElfFile::open(&it));
    files.find(|file| file.build_id() == Some(id))
}

/// Returns the path at which the package with the split debug information of the file at `path`
/// would be.
pub(super) fn package(path: &Path) -> PathBuf {
    let mut package = path.as_os_str().to_owned();
    package.push(".dwp");
    package.into()
}

fn by_build_id(id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first()?;
    let mut path = format!("{SYSTEM}/.build-id/{first:02x}/");
    for byte in rest {
        write!(path, "{byte:02x}").ok()?;
    }
    path.push_str(".debug");
    Some(path.into())
}

/// Returns the paths at which the debug file to which the file at `path` refers may be found.
fn linked(path: &Path, loaded: &ElfFile) -> Vec<PathBuf> {
    let link = loaded.0.gnu_debuglink().ok().flatten();
    let (Some((name, _)), Some(directory)) = (link, directory(path)) else {
        return Vec::new();
    };
    let name = Path::new(OsStr::from_bytes(name));
    let below_system = Path::new(SYSTEM).join(directory.strip_prefix("/").unwrap_or(&directory));
    let places = [
        directory.join(name),
        directory.join(".debug").join(name),
        below_system.join(name),
    ];
    places.into_iter().filter(|place| place != path).collect()
}

/// Returns the directory of the file at `path`, with links resolved.
fn directory(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()?.parent().map(Path::to_owned)
}
