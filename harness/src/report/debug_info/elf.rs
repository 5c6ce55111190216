//! Reads ELF, the object file format of Linux.
//!
//! A file is opened when an address in it is first looked up, and stays open. Its units are sorted
//! only once. The symbol table and each line table are read when they are first needed.

mod file;
mod lines;
mod separate;

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gpu_leak_core::report::bare_name;
use rustc_demangle::try_demangle;
use rustc_hash::FxHashMap;

use self::file::{ElfFile, SymbolTable};
use self::lines::Lines;
use super::super::cpp_names;
use super::Symbol;
use crate::capture::modules::Module;

/// The files that have been looked up, by path and time of modification; `None` for a file that
/// cannot be read.
#[derive(Default)]
pub(in crate::report) struct DebugInfo(FxHashMap<(PathBuf, Option<SystemTime>), Option<Image>>);

impl DebugInfo {
    /// Returns the functions at `address`, innermost first; empty if nothing is known.
    pub(in crate::report) fn at(&mut self, address: usize, module: Option<&Module>) -> Vec<Symbol> {
        let Some(module) = module else {
            return Vec::new();
        };
        let image = self.0.entry((module.path.clone(), module.modified));
        match image.or_insert_with(|| Image::open(module.file()?, &module.path)) {
            Some(image) => image.at(module.offset(address) as u64),
            None => Vec::new(),
        }
    }
}

/// A program or library with its debug information, which may be in other files.
struct Image {
    /// The address of the first loaded byte, in the file's own address space.
    base: u64,
    file: ElfFile,
    lines: Option<Lines>,
    symbols: OnceCell<SymbolTable>,
}

impl Image {
    /// Opens `file`. Files that belong to it are searched for as if it were at `path`.
    fn open(file: &Path, path: &Path) -> Option<Self> {
        let loaded = ElfFile::open(file)?;
        let base = loaded.base()?;
        let separate = separate::debug_file(path, &loaded);
        let (path_of_file, file) = match separate {
            Some((path, file)) => (path, file),
            None => (path.to_owned(), loaded),
        };
        let supplement = separate::supplement(&path_of_file, &file);
        let package = ElfFile::open(&separate::package(path));
        Some(Self {
            base,
            lines: Lines::read(&file, supplement.as_ref(), package.as_ref()),
            file,
            symbols: OnceCell::new(),
        })
    }

    /// Returns the functions at an offset from the first loaded byte.
    fn at(&self, offset: u64) -> Vec<Symbol> {
        let Some(address) = self.base.checked_add(offset) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        if let Some(lines) = &self.lines {
            lines.at(address, |frame| found.push(frame));
        }
        // The symbol table does not contain inlined functions. However, for the outermost function
        // it has the full path, which is missing if there are only line tables
        // (`debug = "line-tables-only"`).
        let mut outermost = found.pop().unwrap_or_default();
        outermost.function = self.in_full(outermost.function, address);
        if outermost != Symbol::default() {
            found.push(outermost);
        }
        found
    }

    /// Returns the full name of the function at `address`. `known` is its name in the line tables.
    fn in_full(&self, known: Option<String>, address: u64) -> Option<String> {
        let symbols = || self.symbols.get_or_init(|| SymbolTable::of(&self.file));
        match known {
            None => symbols().name(address, |_| true),
            Some(known) if has_path(&known) => Some(known),
            Some(known) => {
                let written = cpp_names::demangled(known.clone());
                let is_same = |name: &str| {
                    bare_name(&cpp_names::demangled(name.to_owned())) == bare_name(&written)
                };
                symbols().name(address, is_same).or(Some(known))
            }
        }
    }
}

/// Whether a name contains the path of the function, and not only paths of its type arguments.
fn has_path(name: &str) -> bool {
    let outside = name.split('<').next().unwrap_or_default();
    outside.contains("::") || (outside.is_empty() && name.contains("::"))
}

fn demangled(name: &str) -> String {
    match try_demangle(name) {
        Ok(name) => format!("{name:#}"),
        Err(_) => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
