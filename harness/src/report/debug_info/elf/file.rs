//! Opens one ELF file, and reads its sections and its symbol table.

use std::path::Path;

use miniz_oxide::inflate::decompress_slice_iter_to_slice;
use object::elf::{FileHeader64, STT_FUNC};
use object::read::elf::{NativeElfFile, ProgramHeader, Sym, SymbolTable as Symbols};
use object::{CompressionFormat, NativeEndian, Object, ObjectSection, elf};

use super::demangled;
use crate::loader::mapped;

/// The smallest alignment to which linkers pad a program's segments.
const PAGE: u64 = 4096;

/// The largest compression ratio of deflate.
const LARGEST_GAIN: u64 = 1032;

/// A mapped ELF file whose headers have been read.
pub(super) struct ElfFile(pub(super) NativeElfFile<'static>);

impl ElfFile {
    /// Opens the file at `path`; `None` if it is not an ELF file for this machine.
    pub(super) fn open(path: &Path) -> Option<Self> {
        NativeElfFile::parse(mapped::file(path)?).ok().map(Self)
    }

    /// Returns the address of the first loaded page, in the file's own address space.
    pub(super) fn base(&self) -> Option<u64> {
        let endian = self.0.endian();
        let segments = self.0.elf_program_headers().iter();
        let loaded = segments.filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
        let first = loaded.map(|segment| segment.p_vaddr(endian)).min()?;
        Some(first & !(PAGE - 1))
    }

    /// Returns the build ID, which a file shares with its separate debug file.
    pub(super) fn build_id(&self) -> Option<&'static [u8]> {
        self.0.build_id().ok()?
    }

    /// Returns the bytes of the section `name`; empty if it is missing or cannot be read.
    pub(super) fn section(&self, name: &str) -> &'static [u8] {
        self.section_data(name).unwrap_or_default()
    }

    fn section_data(&self, name: &str) -> Option<&'static [u8]> {
        let section = self.0.section_by_name(name)?;
        let stored = section.compressed_data().ok()?;
        match stored.format {
            CompressionFormat::None => Some(stored.data),
            CompressionFormat::Zlib => inflated(stored.data, stored.uncompressed_size),
            _ => None,
        }
    }
}

/// Decompresses `stored` if the result has `size` bytes. The result is leaked, like the mapped
/// file.
fn inflated(stored: &[u8], size: u64) -> Option<&'static [u8]> {
    if size / LARGEST_GAIN > stored.len() as u64 {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    let (with_header, unverified) = (true, false);
    let stored = std::iter::once(stored);
    let count = decompress_slice_iter_to_slice(&mut bytes, stored, with_header, unverified).ok()?;
    (count == bytes.len()).then(|| &*bytes.leak())
}

/// The functions of one program or library, with their full paths.
///
/// In an optimised build that has only line tables (`debug = "line-tables-only"`), these contain a
/// function without its path, such as `reserve`, where the symbol table contains
/// `cubecl_runtime::memory_management::reserve`.
pub(super) struct SymbolTable {
    symbols: Symbols<'static, FileHeader64<NativeEndian>>,
    /// The functions, sorted by address.
    functions: Vec<Function>,
}

struct Function {
    start: u64,
    end: u64,
    /// The offset of the function's name in the string table.
    name: u32,
}

impl SymbolTable {
    /// Reads the symbol table of `file`, or the exported symbols if it is stripped.
    pub(super) fn of(file: &ElfFile) -> Self {
        let own = *file.0.elf_symbol_table();
        let symbols = if own.is_empty() {
            *file.0.elf_dynamic_symbol_table()
        } else {
            own
        };
        let mut functions: Vec<_> = symbols.iter().filter_map(function).collect();
        functions.sort_unstable_by_key(|function| function.start);
        Self { symbols, functions }
    }

    /// Returns a name of the function at `address` for which `wanted` returns `true`. A function
    /// has several names if the linker has merged identical functions.
    pub(super) fn name(&self, address: u64, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let before = |function: &Function| function.start <= address;
        let functions = &self.functions[..self.functions.partition_point(before)];
        let start = functions.last()?.start;
        let here = functions.iter().rev();
        let mut here = here
            .take_while(|function| function.start == start)
            .filter(|function| address < function.end);
        here.find_map(|function| {
            let name = self.symbols.strings().get(function.name).ok()?;
            Some(demangled(&String::from_utf8_lossy(name))).filter(|name| wanted(name))
        })
    }
}

/// Returns the function to which a symbol refers, if this file defines it and it has a size.
fn function(symbol: &elf::Sym64<NativeEndian>) -> Option<Function> {
    let (start, size) = (symbol.st_value(NativeEndian), symbol.st_size(NativeEndian));
    let is_function = symbol.st_type() == STT_FUNC && start != 0 && size != 0;
    is_function.then_some(Function {
        start,
        end: start.saturating_add(size),
        name: symbol.st_name(NativeEndian),
    })
}
