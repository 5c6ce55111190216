//! Reads DWARF: finds the line of an address, and the functions that are inlined there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use addr2line::gimli::constants::DW_AT_ranges;
use addr2line::gimli::{
    AbbreviationsCacheStrategy, Dwarf, DwarfPackage, EndianSlice, Format, NativeEndian, SectionId,
    Unit,
};
use addr2line::{Context, Frame, LookupContinuation, LookupResult, SplitDwarfLoad};

use super::file::ElfFile;
use super::{Symbol, demangled};

type SectionBytes = EndianSlice<'static, NativeEndian>;

/// The debug information of one program or library.
pub(super) struct Lines {
    context: Context<SectionBytes>,
    /// The parts that `split-debuginfo = "packed"` has moved to another file.
    package: Option<DwarfPackage<SectionBytes>>,
}

impl Lines {
    /// Reads the debug information of `file`, parts of which may be in two other files; `None` if
    /// it cannot be parsed.
    pub(super) fn read(
        file: &ElfFile,
        supplement: Option<&ElfFile>,
        package: Option<&ElfFile>,
    ) -> Option<Self> {
        let mut dwarf = Dwarf::load(|id| section(file, Some(id.name()))).ok()?;
        if let Some(supplement) = supplement {
            dwarf
                .load_sup(|id| section(supplement, Some(id.name())))
                .ok()?;
        }
        // The units of a program share a few lists of abbreviations. Without this cache, each unit
        // would read its list again.
        dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        let lines = without_removed_code(
            &dwarf,
            section(file, Some(SectionId::DebugLine.name())).ok()?,
        );
        dwarf.debug_line = EndianSlice::new(lines, NativeEndian).into();
        let package = package.and_then(|package| {
            let load = |id: SectionId| section(package, id.dwo_name());
            DwarfPackage::load(load, EndianSlice::default()).ok()
        });
        Some(Self {
            context: Context::from_dwarf(dwarf).ok()?,
            package,
        })
    }

    /// Calls `found` for each function at `address`, innermost first.
    pub(super) fn at(&self, address: u64, mut found: impl FnMut(Symbol)) {
        let mut looked_up = self.context.find_frames(address);
        let frames = loop {
            looked_up = match looked_up {
                LookupResult::Output(frames) => break frames,
                LookupResult::Load { load, continuation } => continuation.resume(self.split(load)),
            };
        };
        let Ok(mut frames) = frames else { return };
        while let Ok(Some(frame)) = frames.next() {
            found(symbol(&frame));
        }
    }

    /// Loads the debug information of a unit, which is in the package or in a file of its own.
    fn split(&self, load: SplitDwarfLoad<SectionBytes>) -> Option<Arc<Dwarf<SectionBytes>>> {
        let package = self.package.as_ref();
        if let Some(packed) = package.and_then(|it| it.find_cu(load.dwo_id, &load.parent).ok()?) {
            return Some(Arc::new(packed));
        }
        let mut path = PathBuf::new();
        path.extend(load.comp_dir.as_ref().map(|it| OsStr::from_bytes(it)));
        path.push(OsStr::from_bytes(&load.path?));
        let file = ElfFile::open(&path)?;
        let mut unit = Dwarf::load(|id| section(&file, id.dwo_name())).ok()?;
        // The source may have been compiled again since the program was linked.
        let header = unit.units().next().ok()??;
        if unit.unit(header).ok()?.dwo_id != Some(load.dwo_id) {
            return None;
        }
        unit.make_dwo(&load.parent);
        Some(Arc::new(unit))
    }
}

fn section(file: &ElfFile, name: Option<&str>) -> addr2line::gimli::Result<SectionBytes> {
    let bytes = name.map(|name| file.section(name)).unwrap_or_default();
    Ok(EndianSlice::new(bytes, NativeEndian))
}

/// Returns the section `.debug_line`, with empty line programs for units whose code the linker has
/// completely removed. If a unit has no address ranges, the `addr2line` crate runs its line program
/// to find them. In an optimised build, running the programs of removed code would take most of the
/// time of a first report.
fn without_removed_code(dwarf: &Dwarf<SectionBytes>, lines: SectionBytes) -> &'static [u8] {
    let mut shortened = lines.slice().to_vec();
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(unit) = dwarf.unit(header) else {
            continue;
        };
        let program = unit.line_program.as_ref().map(|it| it.header());
        let Some(program) = program.filter(|_| is_removed(dwarf, &unit)) else {
            continue;
        };
        let length = program.unit_length() - program.raw_program_buf().len();
        let at = program.offset().0;
        if let (Format::Dwarf32, Ok(length)) = (program.format(), u32::try_from(length)) {
            shortened[at..at + size_of::<u32>()].copy_from_slice(&length.to_ne_bytes());
        }
    }
    shortened.leak()
}

/// Whether a unit has a list of address ranges, all of which are empty.
fn is_removed(dwarf: &Dwarf<SectionBytes>, unit: &Unit<SectionBytes>) -> bool {
    let mut entries = unit.entries();
    let Ok(Some(root)) = entries.next_dfs() else {
        return false;
    };
    let ranges = dwarf.die_ranges(unit, root);
    root.has_attr(DW_AT_ranges) && ranges.is_ok_and(|mut ranges| matches!(ranges.next(), Ok(None)))
}

fn symbol(frame: &Frame<'_, SectionBytes>) -> Symbol {
    let name = frame.function.as_ref().and_then(|it| it.raw_name().ok());
    let location = frame.location.as_ref();
    Symbol {
        function: name.map(|name| demangled(&name)),
        file: location.and_then(|it| it.file.map(str::to_owned)),
        line: location.and_then(|it| it.line),
        column: location.and_then(|it| it.column),
    }
}
