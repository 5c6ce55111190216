//! The memory mappings of this process.
//!
//! They are read from `/proc/self/maps` (see
//! [proc_pid_maps(5)](https://man7.org/linux/man-pages/man5/proc_pid_maps.5.html)), which needs no
//! `unsafe`. On systems other than Linux, no mappings are known.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use gpu_leak_interpose::uncancelled;

/// A size in bytes. For a process with a GPU, the text is usually smaller than this.
const USUAL: usize = 32 << 10;
/// On every Linux system, the beginning and the end of a mapping are multiples of this size.
pub(super) const PAGE: usize = 4096;

/// One mapping: an address range with one permission and one origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping<'a> {
    /// The number of the mapping's first page, and of the page after its last. Addresses are not
    /// stored: lists of mappings are freed, and a search for holders must not find an address in
    /// the freed memory.
    first_page: usize,
    end_page: usize,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) executable: bool,
    /// The offset in the file at which the mapping begins.
    pub(crate) offset: u64,
    pub(crate) inode: u64,
    /// The path of the file; if there is no file, the kernel's name for the mapping (`[heap]`), or
    /// nothing for anonymous memory.
    pub(crate) name: &'a str,
}

impl<'a> Mapping<'a> {
    /// Returns the numbers of the mapping's pages.
    pub(crate) fn pages(&self) -> Range<usize> {
        self.first_page..self.end_page
    }

    pub(crate) fn file(&self) -> Option<&'a Path> {
        let name = self.name.strip_suffix(" (deleted)").unwrap_or(self.name);
        name.starts_with('/').then(|| Path::new(name))
    }

    /// Parses a line such as `55d0c0a00000-55d0c0a21000 r-xp 00001000 08:01 42  /usr/bin/train
    /// (deleted)`.
    fn parse(line: &'a str) -> Option<Self> {
        // A name may contain spaces, and many of them may come before it.
        let mut fields = line.splitn(6, ' ');
        let mut field = || fields.next();
        let (start, end) = field()?.split_once('-')?;
        let (permissions, offset, _device, inode) = (field()?, field()?, field()?, field()?);
        let name = field().unwrap_or_default().trim_start_matches(' ');
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        let page = |address| Some(usize::try_from(number(address)?).ok()? / PAGE);
        let may = |access| permissions.as_bytes().contains(&access);
        Some(Self {
            first_page: page(start)?,
            end_page: page(end)?,
            readable: may(b'r'),
            writable: may(b'w'),
            executable: may(b'x'),
            offset: number(offset)?,
            inode: inode.parse().ok()?,
            name,
        })
    }
}

/// Returns the text to pass to [`parse`]; empty if it is not available.
pub(crate) fn of_this_process() -> String {
    // The kernel reports no size for this file, so a string would grow read by read.
    let mut maps = String::with_capacity(USUAL);
    uncancelled(|| {
        File::open("/proc/self/maps").and_then(|mut file| file.read_to_string(&mut maps))
    })
    .map_or_else(|_| String::new(), |_| maps)
}

/// Returns the mappings in a text of this format, in the order of their addresses.
pub(crate) fn parse(maps: &str) -> impl Iterator<Item = Mapping<'_>> {
    maps.lines().filter_map(Mapping::parse)
}
