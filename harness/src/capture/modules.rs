//! The memory mappings of this process, and the library or program that contains an address.
//!
//! Mappings are read from `/proc/thread-self/maps` (see
//! [proc_pid_maps(5)](https://man7.org/linux/man-pages/man5/proc_pid_maps.5.html)), which needs no
//! `unsafe`. The file in `/proc/self` is empty once the first thread has ended through
//! `pthread_exit`. On systems other than Linux, no mappings are known.

use std::fs::{self, File};
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use gpu_leak_interpose::uncancelled;

/// A program or library that is or was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    /// The file from which the module was loaded.
    pub(crate) path: PathBuf,
    /// The file's inode number and the time of its last modification distinguish it from another
    /// file with the same path, which may have got the same number. The time is `None` if the file
    /// is no longer at its path.
    inode: u64,
    pub(crate) modified: Option<SystemTime>,
    /// The module's page numbers, from its first page to the end of its code.
    pages: Range<usize>,
}

impl Module {
    /// Returns the name of the module's file, such as `libcublas.so.13`.
    pub(crate) fn name(&self) -> &str {
        let name = self.path.file_name().and_then(|name| name.to_str());
        name.unwrap_or("unknown module")
    }

    /// Returns the path at which the file from which the module was loaded can be opened; `None` if
    /// the file was removed or replaced, for example by a new build.
    pub(crate) fn file(&self) -> Option<&Path> {
        /// The kernel keeps the program's file while the program runs.
        const PROGRAM: &str = "/proc/thread-self/exe";

        if self.modified.is_some() && self.modified == modified(&self.path) {
            return Some(&self.path);
        }
        let program = fs::read_link(PROGRAM).ok()?;
        (path_of(program.to_str()?) == self.path).then_some(Path::new(PROGRAM))
    }

    /// Returns the distance of `address` from the module's first byte.
    pub(crate) fn offset(&self, address: usize) -> usize {
        address - self.pages.start * PAGE
    }

    /// Whether the module belongs to the system or to an installed Python. The sources of such a
    /// module are not on this machine, even if its debug information names them.
    pub(crate) fn is_installed(&self) -> bool {
        let path = self.path.to_str().unwrap_or_default();
        let of_python = ["/site-packages/", "/dist-packages/", "/lib-dynload/"];
        of_python.iter().any(|directory| path.contains(directory))
            || is_in_a_system_directory(&self.path)
    }
}

/// Whether a library is in one of the system's directories.
pub(crate) fn is_in_a_system_directory(library: &Path) -> bool {
    let mut directories = library.iter().skip(1);
    let first = directories.next();
    let directory = match first {
        Some(usr) if usr == "usr" => directories.next(),
        _ => first,
    };
    let is = |name: &str| directory.is_some_and(|it| it == name);
    library.is_absolute() && ["lib", "lib32", "lib64"].into_iter().any(is)
}

/// The modules that are loaded at the same time, in the order of their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Modules(Vec<Arc<Module>>);

impl Modules {
    /// Finds the modules in `maps`, the text that [`read_maps`] returns.
    pub(crate) fn parse(maps: &str) -> Self {
        let mut modules: Vec<Module> = Vec::new();
        for mapping in mappings(maps) {
            let Some(path) = mapping.file() else { continue };
            let Range { start, end } = mapping.pages();
            // A copy of the file that is mapped only for reading may lie below the module. In a
            // module whose first segment is executable, that segment is at offset 0. In a module
            // whose first two segments share the first page of the file, both are at offset 0.
            let continues = |last: &&mut Module| {
                let shares_a_page = mapping.executable && last.pages.start + 1 == start;
                last.path == path && (mapping.offset != 0 || shares_a_page)
            };
            match modules.last_mut().filter(continues) {
                Some(module) if mapping.executable => {
                    (module.pages.end, module.modified) = (end, modified(mapping.name));
                }
                Some(_) => {}
                None => modules.push(Module {
                    path: path.to_owned(),
                    inode: mapping.inode,
                    modified: mapping.executable.then(|| modified(mapping.name)).flatten(),
                    pages: start..if mapping.executable { end } else { start },
                }),
            }
        }
        Self(modules.into_iter().map(Arc::new).collect())
    }

    /// Returns the module that contains `address`.
    pub(crate) fn find(&self, address: usize) -> Option<&Arc<Module>> {
        let mut modules = self.0.iter();
        modules.find(|module| module.pages.contains(&(address / PAGE)))
    }

    /// Whether this module object is one of the loaded modules.
    pub(crate) fn has(&self, module: &Arc<Module>) -> bool {
        self.0.iter().any(|other| Arc::ptr_eq(other, module))
    }

    /// Returns the modules with code that are not in `others`.
    pub(super) fn without(&self, others: &Self) -> Self {
        let is_other = |it: &&Arc<Module>| !it.pages.is_empty() && !others.has(it);
        let modules = self.0.iter().filter(is_other);
        Self(modules.cloned().collect())
    }

    /// Replaces each module that is also in `before` with the object from `before`.
    pub(super) fn share(&mut self, before: &Self) {
        for module in &mut self.0 {
            let same = before.find(module.pages.start * PAGE);
            if let Some(same) = same.filter(|same| *same == module) {
                *module = Arc::clone(same);
            }
        }
    }
}

/// The initial capacity for the text, in bytes. For a process with a GPU, the text is usually
/// smaller.
const USUAL: usize = 32 << 10;
/// On every Linux system, the beginning and the end of a mapping are multiples of this size.
const PAGE: usize = 4096;

/// One mapping: an address range with one permission and one origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping<'a> {
    /// The numbers of the mapping's first page and of the page after its last. Addresses are not
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
        self.name.starts_with('/').then(|| path_of(self.name))
    }

    /// Parses a line such as `55d0c0a00000-55d0c0a21000 r-xp 00001000 08:01 42  /usr/bin/train
    /// (deleted)`.
    fn parse(line: &'a str) -> Option<Self> {
        let (start, rest) = address(line, b'-')?;
        let (end, rest) = address(rest, b' ')?;
        let (permissions, rest) = word(rest)?;
        let (offset, rest) = address(rest, b' ')?;
        let (_device, rest) = word(rest)?;
        // A name may contain spaces, and may come after many spaces.
        let (inode, name) = word(rest).unwrap_or((rest, ""));
        let page = |address| Some(usize::try_from(address).ok()? / PAGE);
        let may = |at, access| permissions.as_bytes().get(at) == Some(&access);
        Some(Self {
            first_page: page(start)?,
            end_page: page(end)?,
            readable: may(0, b'r'),
            writable: may(1, b'w'),
            executable: may(2, b'x'),
            offset,
            inode: inode.parse().ok()?,
            name: name.trim_ascii_start(),
        })
    }
}

/// Returns the path that a file has or, if the file was removed, had. `name` is the kernel's name for
/// the file.
fn path_of(name: &str) -> &Path {
    Path::new(name.strip_suffix(" (deleted)").unwrap_or(name))
}

fn modified(file: impl AsRef<Path>) -> Option<SystemTime> {
    fs::metadata(file).ok()?.modified().ok()
}

/// Splits `text` into the hexadecimal number with which it begins, and the part after `end`, the
/// character that follows the number.
fn address(text: &str, end: u8) -> Option<(u64, &str)> {
    /// The maximum number of hexadecimal digits of a 64-bit number.
    const LONGEST: usize = 16;

    let (number, digits) = hexadecimal(text.as_bytes());
    let is_number = digits <= LONGEST && text.as_bytes().get(digits) == Some(&end);
    is_number.then(|| (number, &text[digits + 1..]))
}

/// Returns the number at the beginning of a text, and how many digits it has. This is not inlined,
/// because the loop is faster in its own function, and a process may have thousands of mappings.
#[inline(never)]
fn hexadecimal(text: &[u8]) -> (u64, usize) {
    let mut number: u64 = 0;
    let mut digits = 0;
    while digits < text.len() {
        let digit = match text[digits] {
            byte @ b'0'..=b'9' => byte - b'0',
            byte @ b'a'..=b'f' => byte - b'a' + 10,
            _ => break,
        };
        number = number << 4 | u64::from(digit);
        digits += 1;
    }
    (number, digits)
}

/// Splits `text` at its first space. The space is near the start, so examining each byte is faster
/// than a search that is optimised for long texts.
fn word(text: &str) -> Option<(&str, &str)> {
    let end = text.bytes().position(|byte| byte == b' ')?;
    Some((&text[..end], &text[end + 1..]))
}

/// Returns the text to pass to [`mappings`]; empty if it is not available.
pub(crate) fn read_maps() -> String {
    let mut maps = Vec::with_capacity(USUAL);
    // A `Take` does not ask for the size of the file, which the kernel does not know.
    let read = |file: File| file.take(u64::MAX).read_to_end(&mut maps);
    match uncancelled(|| File::open("/proc/thread-self/maps").and_then(read)) {
        // The name of a file need not be valid UTF-8.
        Ok(_) => String::from_utf8(maps)
            .unwrap_or_else(|why| String::from_utf8_lossy(why.as_bytes()).into_owned()),
        Err(_) => String::new(),
    }
}

/// Whether the memory at this address is readable. Returns `true` if the mappings are not available.
pub(super) fn is_readable(address: usize) -> bool {
    let maps = read_maps();
    let mut mappings = mappings(&maps);
    maps.is_empty() || mappings.any(|it| it.readable && it.pages().contains(&(address / PAGE)))
}

/// Returns the mappings in `maps`, the text that [`read_maps`] returns, in the order of their
/// addresses.
pub(crate) fn mappings(maps: &str) -> impl Iterator<Item = Mapping<'_>> {
    maps.lines().filter_map(Mapping::parse)
}

#[cfg(test)]
mod tests {
    use super::{Modules, read_maps};

    const MAPS: &str = "\
1000-2000 r--p 00000000 08:01 11 /w/target/debug/deps/my train
2000-5000 r-xp 00001000 08:01 11 /w/target/debug/deps/my train
5000-6000 rw-p 00004000 08:01 11 /w/target/debug/deps/my train
6000-7000 rw-p 00000000 00:00 0 [heap]
8000-9000 r-xp 00000000 08:01 12 /usr/lib/x86_64-linux-gnu/libcublas.so.13 (deleted)
9000-a000 ---p 00001000 08:01 12 /usr/lib/x86_64-linux-gnu/libcublas.so.13 (deleted)
b000-c000 r-xp 00000000 00:00 0 [vdso]
";

    #[test]
    fn an_address_in_code_has_a_module_and_an_offset() {
        let modules = Modules::parse(MAPS);
        let program = modules.find(0x2345).unwrap();
        assert_eq!(
            (program.name(), program.offset(0x2345)),
            ("my train", 0x1345)
        );
        let library = modules.find(0x8010).unwrap();
        assert_eq!(
            (library.name(), library.offset(0x8010)),
            ("libcublas.so.13", 0x10)
        );
        assert!(library.is_installed() && !program.is_installed());
        for (path, installed) in [
            (
                "/venv/lib/python3.12/site-packages/torch/lib/libc10.so",
                true,
            ),
            ("/opt/lib/python3.12/lib-dynload/_ctypes.so", true),
            ("/home/ann/build/my_extension.so", false),
        ] {
            let maps = format!("1000-2000 r-xp 00000000 08:01 11 {path}\n");
            let modules = Modules::parse(&maps);
            assert_eq!(modules.find(0x1000).unwrap().is_installed(), installed);
        }
    }

    #[test]
    fn a_mapping_without_a_file_is_not_a_module() {
        let modules = Modules::parse(MAPS);
        for address in [0x0, 0x5800, 0x6800, 0xb000] {
            assert_eq!(modules.find(address), None, "{address:x}");
        }
    }

    #[test]
    fn a_copy_mapped_as_data_is_not_part_of_the_module_beside_it() {
        const COPY_BELOW: &str = "\
1000-3000 r--p 00000000 08:01 11 /w/libtrain.so
3000-4000 r--p 00000000 08:01 11 /w/libtrain.so
4000-5000 r-xp 00001000 08:01 11 /w/libtrain.so
5000-7000 r--p 00000000 08:01 11 /w/libtrain.so
";
        let modules = Modules::parse(COPY_BELOW);
        assert_eq!(modules.find(0x4010).unwrap().offset(0x4010), 0x1010);
        assert_eq!(modules.find(0x1010), None);
    }

    #[test]
    fn a_copy_below_a_module_that_begins_with_code_is_not_part_of_it() {
        const COPY_BELOW: &str = "\
1000-3000 r--p 00000000 08:01 11 /w/libtrain.so
3000-4000 r-xp 00000000 08:01 11 /w/libtrain.so
4000-5000 rw-p 00001000 08:01 11 /w/libtrain.so
";
        let modules = Modules::parse(COPY_BELOW);
        assert_eq!(modules.find(0x3010).unwrap().offset(0x3010), 0x10);
    }

    #[test]
    fn code_in_the_first_page_of_a_file_is_part_of_the_module() {
        const SMALL: &str = "\
1000-2000 r--p 00000000 08:01 11 /w/libtrain.so
2000-3000 r-xp 00000000 08:01 11 /w/libtrain.so
";
        let modules = Modules::parse(SMALL);
        assert_eq!(modules.find(0x2010).unwrap().offset(0x2010), 0x1010);
    }

    /// A program may map any file.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_file_whose_name_is_not_text_hides_no_module() {
        use std::os::unix::ffi::OsStrExt;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(std::ffi::OsStr::from_bytes(b"\xff"));
        std::fs::write(&path, "data").unwrap();
        assert!(crate::loader::mapped::file(&path).is_some());
        let here = read_maps as fn() -> _ as usize;
        assert!(Modules::parse(&read_maps()).find(here).is_some());
    }

    #[test]
    fn damaged_mappings_are_read_without_a_panic() {
        gpu_leak_mutations::each_of("maps", &[MAPS.into()], 5_000, 4, |_, input| {
            let modules = Modules::parse(&String::from_utf8_lossy(input));
            for address in [0, 0x1000, 0x2345, 0x8010, usize::MAX] {
                modules.find(address).map(|module| module.offset(address));
            }
            let mut again = Modules::parse(MAPS);
            again.share(&modules);
            again.without(&modules);
        });
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_program_finds_itself() {
        let modules = Modules::parse(&read_maps());
        let here = read_maps as fn() -> _ as usize;
        let module = modules.find(here).unwrap();
        assert_eq!(module.path, std::env::current_exe().unwrap());
    }
}
