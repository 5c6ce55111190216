//! Reads ELF files, as Linux has them.
//!
//! A file is opened when an address in it is asked about, and stays open: its units are put in order
//! once, each of their line tables is read when it is first needed, and so is the symbol table.

mod file;
mod lines;
mod separate;
mod symbol_table;

use std::cell::OnceCell;
use std::fmt;
use std::path::{Path, PathBuf};

use rustc_demangle::try_demangle;
use rustc_hash::FxHashMap;

use self::file::ElfFile;
use self::lines::Lines;
use self::symbol_table::SymbolTable;
use super::Symbol;
use crate::call_site::bare_name;
use crate::capture::modules::Module;

/// The files that were asked about; none for one that cannot be read.
#[derive(Debug, Default)]
pub(in crate::report) struct DebugInfo(FxHashMap<PathBuf, Option<Image>>);

impl DebugInfo {
    /// The functions around the call at `address`, inlined ones first; none where nothing is known.
    pub(in crate::report) fn at(&mut self, address: usize, module: Option<&Module>) -> Vec<Symbol> {
        let Some(module) = module else {
            return Vec::new();
        };
        if !self.0.contains_key(&module.path) {
            self.0
                .insert(module.path.clone(), Image::open(&module.path));
        }
        match &self.0[&module.path] {
            Some(image) => image.at(module.offset(address) as u64),
            None => Vec::new(),
        }
    }
}

/// A program or library with its debug information, wherever that is.
struct Image {
    /// The address of its first byte that is loaded, as the file counts.
    base: u64,
    file: ElfFile,
    lines: Option<Lines>,
    symbols: OnceCell<SymbolTable>,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

impl Image {
    fn open(path: &Path) -> Option<Self> {
        let loaded = ElfFile::open(path)?;
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

    /// The functions around the byte that is `offset` behind the first that is loaded.
    fn at(&self, offset: u64) -> Vec<Symbol> {
        let Some(address) = self.base.checked_add(offset) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        if let Some(lines) = &self.lines {
            lines.at(address, |frame| found.push(frame));
        }
        // The symbol table does not know what is inlined, and has of the function around it the
        // path, which line tables alone (`debug = "line-tables-only"`) do not.
        let mut outermost = found.pop().unwrap_or_default();
        outermost.function = self.in_full(outermost.function, address);
        if outermost != Symbol::default() {
            found.push(outermost);
        }
        found
    }

    /// The name of the function around `address`, of which the line tables say `known`.
    fn in_full(&self, known: Option<String>, address: u64) -> Option<String> {
        let symbols = || self.symbols.get_or_init(|| SymbolTable::of(&self.file));
        match known {
            None => symbols().name(address, |_| true),
            Some(known) if known.contains("::") => Some(known),
            Some(known) => {
                let is_same = |name: &str| bare_name(name) == bare_name(&known);
                symbols().name(address, is_same).or(Some(known))
            }
        }
    }
}

/// A symbol's name as people write it.
fn demangled(name: &str) -> String {
    match try_demangle(name) {
        Ok(name) => format!("{name:#}"),
        Err(_) => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
