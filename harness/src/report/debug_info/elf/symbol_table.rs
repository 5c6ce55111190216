//! Reads symbol tables, which contain the full paths of functions.
//!
//! In an optimised build that has only line tables (`debug = "line-tables-only"`), these contain a
//! function without its path, such as `reserve`, where the symbol table contains
//! `cubecl_runtime::memory_management::reserve`.

use object::NativeEndian;
use object::elf::{FileHeader64, STT_FUNC};
use object::read::elf::{Sym, SymbolTable as Symbols};

use super::demangled;
use super::file::ElfFile;

/// The functions of one program or library.
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

    /// Returns a name of the function at `address` for which `wanted` holds. A function has several
    /// names if the linker has merged identical functions.
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
fn function(symbol: &object::elf::Sym64<NativeEndian>) -> Option<Function> {
    let (start, size) = (symbol.st_value(NativeEndian), symbol.st_size(NativeEndian));
    let is_function = symbol.st_type() == STT_FUNC && start != 0 && size != 0;
    is_function.then_some(Function {
        start,
        end: start.saturating_add(size),
        name: symbol.st_name(NativeEndian),
    })
}
