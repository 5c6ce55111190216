//! Opens one ELF file.

use std::path::Path;

use miniz_oxide::inflate::decompress_slice_iter_to_slice;
use object::read::elf::{NativeElfFile, ProgramHeader};
use object::{CompressionFormat, Object, ObjectSection, elf};

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

    /// Returns the build id, which a file shares with its separate debug file.
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
