//! The names that linkers keep: of functions, with their paths.
//!
//! Line tables alone (`debug = "line-tables-only"`) name a function of an optimised build without
//! its path, `reserve` where the symbol table has `cubecl_runtime::memory_management::reserve`.
//!
//! Read from the file, a name at a time, as the [ELF specification] has it; a test binary's names
//! are tens of megabytes.
//!
//! [ELF specification]: https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use backtrace::SymbolName;

/// Longer names are cut; those of deeply generic functions are.
const LONGEST: u64 = 4096;

/// The functions of one program or library.
#[derive(Debug)]
pub(super) struct SymbolTable {
    file: File,
    /// By address.
    functions: Vec<Function>,
    /// Where the names begin in the file.
    names: u64,
    /// The address of the first byte that is loaded, as the file counts.
    base: u64,
}

#[derive(Debug)]
struct Function {
    start: u64,
    end: u64,
    name: u32,
}

impl SymbolTable {
    /// That of the file at `path`; none where it has none or is no 64-bit ELF file.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let mut file = File::open(path).ok()?;
        let header = part(&mut file, 0, 64)?;
        let is_64_bit_elf = header.starts_with(b"\x7fELF\x02");
        if !is_64_bit_elf {
            return None;
        }
        let headers = |at: usize, size: usize, count: usize| {
            Some((
                u64_at(&header, at)?,
                u16_at(&header, size)?,
                u16_at(&header, count)?,
            ))
        };
        let (segments, size, count) = headers(32, 54, 56)?;
        let segments = part(&mut file, segments, u64::from(size) * u64::from(count))?;
        let loaded = segments.chunks_exact(usize::from(size).max(56));
        let loaded = loaded.filter(|segment| u32_at(segment, 0) == Some(1));
        let base = loaded.filter_map(|segment| u64_at(segment, 16)).min()? & !0xfff;

        let (sections, size, count) = headers(40, 58, 60)?;
        let sections = part(&mut file, sections, u64::from(size) * u64::from(count))?;
        let sections: Vec<_> = sections.chunks_exact(usize::from(size).max(64)).collect();
        let symbols = sections
            .iter()
            .find(|section| u32_at(section, 4) == Some(2))?;
        let names = sections.get(u32_at(symbols, 40)? as usize)?;
        let names = u64_at(names, 24)?;
        let symbols = part(&mut file, u64_at(symbols, 24)?, u64_at(symbols, 32)?)?;
        let mut functions: Vec<_> = symbols.chunks_exact(24).filter_map(function).collect();
        functions.sort_unstable_by_key(|function| function.start);
        Some(Self {
            file,
            functions,
            names,
            base,
        })
    }

    /// The name of the function `offset` bytes behind the first byte that is loaded, if `wanted`
    /// likes it: functions that the linker made one have several.
    pub(super) fn name(&mut self, offset: u64, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let address = self.base.checked_add(offset)?;
        let behind = self
            .functions
            .partition_point(|function| function.start <= address);
        let start = self.functions[..behind].last()?.start;
        let here = self.functions[..behind].iter().rev();
        let here = here.take_while(|function| function.start == start);
        let names: Vec<_> = here
            .filter(|function| address < function.end)
            .map(|function| function.name)
            .collect();
        names.into_iter().find_map(|name| {
            let bytes = up_to(&mut self.file, self.names + u64::from(name), LONGEST)?;
            let bytes = bytes.split(|byte| *byte == 0).next()?;
            Some(format!("{:#}", SymbolName::new(bytes))).filter(|name| wanted(name))
        })
    }
}

/// A symbol that is a function's and has a size.
fn function(symbol: &[u8]) -> Option<Function> {
    const FUNCTION: u8 = 2;
    let (start, size) = (u64_at(symbol, 8)?, u64_at(symbol, 16)?);
    (symbol[4] & 0xf == FUNCTION && size != 0).then_some(Function {
        start,
        end: start.checked_add(size)?,
        name: u32_at(symbol, 0)?,
    })
}

/// `length` bytes of the file from `start` on.
fn part(file: &mut File, start: u64, length: u64) -> Option<Vec<u8>> {
    let bytes = up_to(file, start, length)?;
    (bytes.len() as u64 == length).then_some(bytes)
}

/// The same, or fewer where the file ends.
fn up_to(file: &mut File, start: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(start)).ok()?;
    file.take(length).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(all(test, target_os = "linux", target_pointer_width = "64"))]
mod tests {
    use std::fs;

    use super::super::modules::Modules;
    use super::SymbolTable;

    #[inline(never)]
    fn known_by_its_path() -> usize {
        std::hint::black_box(7)
    }

    #[test]
    fn a_function_of_this_program_has_its_path() {
        let address = known_by_its_path as *const () as usize;
        let modules = Modules::of_this_process();
        let module = modules.find(address).unwrap();
        let mut table = SymbolTable::read(&module.path).unwrap();
        let name = |table: &mut SymbolTable, offset: usize| table.name(offset as u64, |_| true);
        let named = name(&mut table, module.offset(address)).unwrap();
        assert!(
            named.ends_with("symbol_table::tests::known_by_its_path"),
            "{named}"
        );
        assert_eq!(table.name(module.offset(address) as u64, |_| false), None);
        assert_eq!(name(&mut table, usize::MAX / 2), None);
        assert_eq!(known_by_its_path(), 7);
    }

    #[test]
    fn what_is_no_program_has_no_table() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        assert!(SymbolTable::read(&file).is_none(), "not there");
        // Cut short at every place that is read, and with numbers that lead nowhere.
        let program = fs::read(std::env::current_exe().unwrap()).unwrap();
        for length in [0, 4, 63, 64, 200] {
            fs::write(&file, &program[..length]).unwrap();
            assert!(SymbolTable::read(&file).is_none(), "{length} bytes");
        }
        let mut lost = program[..64].to_vec();
        lost[32..48].fill(0xff);
        fs::write(&file, lost).unwrap();
        assert!(SymbolTable::read(&file).is_none(), "headers nowhere");
    }
}
