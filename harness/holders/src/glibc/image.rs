//! Reads a program or library file: its variables, functions and thread-locals.

use std::ffi::CStr;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use object::Endianness;
use object::elf::{
    FileHeader64, PT_LOAD, PT_TLS, ProgramHeader64, SHF_WRITE, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC,
    STT_OBJECT, STT_TLS, SectionHeader64, Sym64,
};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use rustc_hash::FxHashMap;

use super::budget::Budget;
use super::memory::PAGE;
use super::names::{self, Owner};
use crate::NameRules;

/// The number of symbols after which the time is checked again.
const SYMBOLS: usize = 1024;

/// The symbols of one file.
#[derive(Debug)]
pub(super) struct Image {
    /// Whether the file has only the symbols for dynamic linking.
    pub(super) is_stripped: bool,
    /// The file offset of the first loaded part, and its address in the file.
    first: Option<(u64, u64)>,
    /// The writable variables.
    pub(super) variables: Vec<Variable>,
    /// The thread-locals, by their offset in each thread's block.
    pub(super) thread_locals: Vec<Variable>,
    /// The distance from the beginning of each thread's block up to the thread pointer.
    pub(super) thread_block: u64,
    functions: Vec<Function>,
    /// The owners of the functions that have been looked up, by address.
    known: Mutex<FxHashMap<u64, Option<Owner>>>,
    /// The names in the file. There may be megabytes of them, but only a few are needed.
    names: &'static [u8],
    rules: NameRules,
}

/// A static or a thread-local.
#[derive(Debug)]
pub(super) struct Variable {
    pub(super) addresses: Range<u64>,
    pub(super) owner: Owner,
}

impl Variable {
    /// Returns the name of a variable of the program.
    pub(super) fn name(&self) -> Option<&str> {
        match &self.owner {
            Owner::Program(name) => Some(name),
            Owner::Runtime | Owner::All => None,
        }
    }
}

/// A function: its start address, as recorded in the file, its length, and the offset of its name.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) start: u64,
    pub(super) bytes: u32,
    name: u32,
}

impl Image {
    /// Reads the file at `path`; `None` if it cannot be read in time.
    pub(super) fn read(path: &Path, rules: NameRules, budget: Budget) -> Option<Self> {
        let file = (rules.file)(path)?;
        let header = FileHeader64::<Endianness>::parse(file).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.section_headers(endian, file).ok()?;
        let of = |kind| sections.iter().find(|it| it.sh_type(endian) == kind);
        let all_symbols = of(SHT_SYMTAB);
        let symbols = all_symbols.or_else(|| of(SHT_DYNSYM))?;
        let names = sections.get(symbols.sh_link(endian) as usize)?;
        let mut image = Self {
            is_stripped: all_symbols.is_none(),
            first: None,
            variables: Vec::new(),
            thread_locals: Vec::new(),
            thread_block: 0,
            functions: Vec::new(),
            known: Mutex::default(),
            names: names.data(endian, file).ok()?,
            rules,
        };
        for segment in header.program_headers(endian, file).ok()? {
            image.segment(segment, endian);
        }
        let strings = header.section_strings(endian, file, sections).ok()?;
        let is_written = |section: &SectionHeader64<Endianness>| {
            let name = section.name(endian, strings).unwrap_or_default();
            section.sh_flags(endian).contains(SHF_WRITE)
                && [&b".data"[..], b".bss", b".tdata", b".tbss"]
                    .iter()
                    .any(|known| name.starts_with(known))
                // Only the loader writes to these sections.
                && !name.starts_with(b".data.rel.ro")
        };
        let written: Vec<bool> = sections.iter().map(is_written).collect();
        let symbols: &[Sym64<_>] = symbols.data_as_array(endian, file).ok()?;
        for (number, symbol) in symbols.iter().enumerate() {
            if number.is_multiple_of(SYMBOLS) && budget.is_spent() {
                return None;
            }
            image.symbol(symbol, endian, &written);
        }
        // The variables are sorted so that a search reads neighbouring ones from the same page.
        image.variables.sort_by_key(|it| it.addresses.start);
        Some(image)
    }

    /// Returns the difference between run-time addresses and addresses in the file, given that the
    /// part of the file at `offset` was loaded at `start`.
    pub(super) fn bias(&self, offset: u64, start: u64) -> Option<u64> {
        let (first, address) = self.first?;
        (offset == first).then(|| start.wrapping_sub(address))
    }

    /// Looks up the functions that contain `addresses`, which are return addresses and so never a
    /// function's first byte. All addresses are looked up in one pass, because a file has too
    /// many functions to sort for a few addresses.
    pub(super) fn look_up(&self, addresses: impl Iterator<Item = u64>, budget: Budget) {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new: Vec<u64> = addresses.collect();
        new.sort_unstable();
        new.dedup();
        {
            let known = known();
            new.retain(|address| !known.contains_key(address));
        }
        let (Some(&first), Some(&last)) = (new.first(), new.last()) else {
            return;
        };
        let mut found: FxHashMap<_, _> = new.iter().map(|&address| (address, None)).collect();
        for (number, function) in self.functions.iter().enumerate() {
            if number.is_multiple_of(SYMBOLS) && budget.is_spent() {
                return;
            }
            // If a function ends with a call that never returns, the return address of that call
            // lies after the function.
            let (start, end) = (
                function.start,
                function.start.saturating_add(function.bytes.into()),
            );
            if start >= last || end < first {
                continue;
            }
            let inside = new.partition_point(|address| *address <= start);
            for &address in new[inside..].iter().take_while(|address| **address <= end) {
                let name = self.name(function.name);
                found.insert(address, name.map(|name| names::owner(name, self.rules)));
            }
        }
        known().extend(found);
    }

    /// Returns the functions of the crate in which a path such as `optim::STATE` begins; none if
    /// there is no time to find them.
    pub(super) fn functions_of_crate(&self, path: &str, budget: Budget) -> Vec<&Function> {
        let Some((name, _)) = path.split_once("::") else {
            return Vec::new();
        };
        let crate_name = names::CrateName::new(name);
        let mut functions = Vec::new();
        for (number, function) in self.functions.iter().enumerate() {
            if number.is_multiple_of(SYMBOLS) && budget.is_spent() {
                return Vec::new();
            }
            let name = self.names.get(function.name as usize..);
            if name.is_some_and(|name| crate_name.is_of(name)) {
                functions.push(function);
            }
        }
        functions
    }

    /// Returns the owner of the function at an address that was looked up; `None` if there is no
    /// function.
    pub(super) fn function(&self, address: u64) -> Option<Owner> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&address)?.clone()
    }

    /// Returns the name at an offset.
    fn name(&self, at: u32) -> Option<&'static str> {
        let name = CStr::from_bytes_until_nul(self.names.get(at as usize..)?);
        name.ok()?.to_str().ok()
    }

    fn segment(&mut self, segment: &ProgramHeader64<Endianness>, endian: Endianness) {
        let page = |value: u64| value & !(PAGE - 1);
        let kind = segment.p_type(endian);
        let address = segment.p_vaddr(endian);
        if kind == PT_LOAD && self.first.is_none() {
            self.first = Some((page(segment.p_offset(endian)), page(address)));
        } else if kind == PT_TLS {
            // The loader and the linker agree on this layout for the program itself.
            let align = segment.p_align(endian).max(1);
            let first = address.wrapping_neg() & (align - 1);
            let bytes = segment.p_memsz(endian).saturating_sub(first);
            let rounded = bytes.checked_next_multiple_of(align).unwrap_or_default();
            self.thread_block = rounded.wrapping_add(first);
        }
    }

    fn symbol(&mut self, symbol: &Sym64<Endianness>, endian: Endianness, written: &[bool]) {
        // There are about fifty functions for each variable, so this does as little work as
        // possible for a function.
        let kind = symbol.st_type();
        let start = symbol.st_value(endian);
        let bytes = symbol.st_size(endian);
        if kind == STT_FUNC {
            if start != 0 {
                self.functions.push(Function {
                    start,
                    bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
                    name: symbol.st_name(endian),
                });
            }
        } else if kind == STT_OBJECT || kind == STT_TLS {
            let section = symbol.st_shndx(endian).index();
            let is_written = section.and_then(|section| written.get(usize::from(section)));
            let (Some(true), 1..) = (is_written, bytes) else {
                return;
            };
            let Some(name) = self.name(symbol.st_name(endian)) else {
                return;
            };
            let variable = Variable {
                addresses: start..start.saturating_add(bytes),
                owner: names::owner(name, self.rules),
            };
            if kind == STT_TLS {
                self.thread_locals.push(variable);
            } else {
                self.variables.push(variable);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use super::{Budget, Image};
    use crate::glibc::tests::RULES;

    /// A file with two segments, one of which describes thread-locals, and with four sections: an
    /// empty one, a symbol table that claims to have `bytes` bytes, names and variables.
    fn file(bytes: u64) -> Vec<u8> {
        const SECTIONS: usize = 64 + 2 * 56;
        const SYMBOLS: usize = SECTIONS + 4 * 64;
        const NAMES: usize = SYMBOLS + 3 * 24;

        let names = b"\0.data\0train::step\0train::CACHE\0";
        let mut file = vec![0_u8; NAMES];
        file.extend(names);
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"\x7fELF\x02\x01\x01");
        put(16, &3_u16.to_le_bytes());
        put(18, &62_u16.to_le_bytes());
        put(20, &1_u32.to_le_bytes());
        put(32, &64_u64.to_le_bytes());
        put(40, &(SECTIONS as u64).to_le_bytes());
        for (at, value) in [(52, 64_u16), (54, 56), (56, 2), (58, 64), (60, 4), (62, 2)] {
            put(at, &value.to_le_bytes());
        }
        for (segment, (kind, bytes)) in [(1_u32, 0x1000_u64), (7, 0x40)].into_iter().enumerate() {
            let segment = 64 + 56 * segment;
            put(segment, &kind.to_le_bytes());
            put(segment + 16, &0x1000_u64.to_le_bytes());
            put(segment + 40, &bytes.to_le_bytes());
            put(segment + 48, &0x20_u64.to_le_bytes());
        }
        let mut section = |number: usize, kind: u32, (at, bytes): (usize, u64), link: u32| {
            let section = SECTIONS + 64 * number;
            put(section + 4, &kind.to_le_bytes());
            put(section + 24, &(at as u64).to_le_bytes());
            put(section + 32, &bytes.to_le_bytes());
            put(section + 40, &link.to_le_bytes());
        };
        section(1, 2, (SYMBOLS, bytes), 2);
        section(2, 3, (NAMES, names.len() as u64), 0);
        section(3, 1, (0, 0x40), 0);
        put(SECTIONS + 3 * 64, &1_u32.to_le_bytes());
        put(SECTIONS + 3 * 64 + 8, &3_u64.to_le_bytes());
        for (number, (name, kind)) in [(7_u32, 2_u8), (19, 1), (19, 6)].into_iter().enumerate() {
            let symbol = SYMBOLS + 24 * number;
            put(symbol, &name.to_le_bytes());
            put(symbol + 4, &[kind, 0, 3]);
            put(symbol + 8, &0x1000_u64.to_le_bytes());
            put(symbol + 16, &16_u64.to_le_bytes());
        }
        file
    }

    fn image(path: &Path, file: &[u8]) -> Option<Image> {
        fs::write(path, file).unwrap();
        Image::read(path, RULES, Budget::new(Duration::from_secs(100)))
    }

    /// A user's process must not panic because of a library that it loads.
    #[test]
    fn a_damaged_library_is_read_without_a_panic() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("library.so");
        let whole = image(&path, &file(3 * 24)).unwrap();
        let counts = [&whole.variables, &whole.thread_locals].map(Vec::len);
        assert_eq!((counts, whole.functions.len()), ([1, 1], 1));
        assert_eq!(whole.thread_block, 0x40);
        gpu_leak_mutations::each_of("image", &[file(3 * 24)], 5_000, 4, |_, input| {
            let Some(image) = image(&path, input) else {
                return;
            };
            let budget = || Budget::new(Duration::from_secs(100));
            image.bias(0, 0x5000);
            image.look_up([1, 0x1001, u64::MAX].into_iter(), budget());
            image.function(0x1001);
            image.functions_of_crate("train::CACHE", budget());
            for variable in image.variables.iter().chain(&image.thread_locals) {
                assert!(variable.addresses.start <= variable.addresses.end);
                variable.name();
            }
        });
    }

    #[test]
    fn a_table_that_is_longer_than_its_file_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("library.so");
        assert!(image(&path, &file(0)).is_some());
        assert!(image(&path, &file(1 << 62)).is_none());
    }

    /// A stripped program still has the names of the functions that it exports, such as `dlsym`.
    #[test]
    fn a_program_without_its_symbol_table_is_stripped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        let mut program = fs::read("/proc/self/exe").unwrap();
        let is_stripped = |program: &[u8]| image(&path, program).map(|image| image.is_stripped);
        assert_eq!(is_stripped(&program), Some(false));
        let number = |bytes: &[u8]| {
            let bytes = bytes.iter().rev();
            bytes.fold(0, |number, byte| number << 8 | usize::from(*byte))
        };
        let (first, count) = (number(&program[40..48]), number(&program[60..62]));
        for section in 0..count {
            let kind = first + 64 * section + 4;
            if program[kind] == 2 {
                program[kind] = 0;
            }
        }
        assert_eq!(is_stripped(&program), Some(true));
    }
}
