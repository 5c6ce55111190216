//! The loaded objects of the process: the program and the libraries as the loader has mapped them.
#![expect(unsafe_code, reason = "reads memory that the loader mapped")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{iter, ptr};

use super::next;
use crate::loader::{object_name, segments, visit_objects, while_open};

/// Makes `dladdr1` also return the symbol to which the address belongs.
const RTLD_DL_SYMENT: c_int = 1;
/// Makes `dladdr1` also return the object.
const RTLD_DL_LINKMAP: c_int = 2;
/// The type of a symbol that names a variable.
const STT_OBJECT: u8 = 1;

/// The first fields of glibc's `struct link_map`. A handle from `dlopen` also points to this
/// structure.
#[repr(C)]
pub(crate) struct LinkMap {
    pub(crate) base: usize,
    pub(crate) name: *const c_char,
    pub(crate) dynamic: *const c_void,
    pub(crate) next: *const LinkMap,
}

/// Returns the loaded object that contains `address`.
pub(crate) fn object_of(address: *const c_void) -> Option<*const LinkMap> {
    let map = found_at(address, RTLD_DL_LINKMAP).cast::<LinkMap>();
    (!map.is_null()).then_some(map)
}

/// Whether an exported variable is at this address. Some libraries have variables with the names of
/// functions, in which they store the addresses of these functions.
pub(crate) fn is_variable(address: *const c_void) -> bool {
    let symbol = found_at(address, RTLD_DL_SYMENT).cast::<libc::Elf64_Sym>();
    // SAFETY: the pointer is null or points to a symbol of the object, which is loaded.
    unsafe { symbol.as_ref() }.is_some_and(|symbol| symbol.st_info & 0xf == STT_OBJECT)
}

/// Returns what `dladdr1` finds for the request `what` about the object that contains `address`;
/// null if it finds nothing.
fn found_at(address: *const c_void, what: c_int) -> *const c_void {
    let (mut info, mut found) = (MaybeUninit::uninit(), ptr::null_mut());
    // SAFETY: both results are writable, and any address may be queried.
    unsafe { libc::dladdr1(address, info.as_mut_ptr(), &raw mut found, what) };
    found
}

/// Calls `body` with a handle of the loaded object that contains `address`. Returns `None` if there
/// is no such object. The caller makes sure that the object stays loaded.
pub(crate) fn while_open_at<T>(
    address: *const c_void,
    body: impl FnOnce(*mut c_void) -> T,
) -> Option<T> {
    // SAFETY: the object is loaded, and its name is a C string.
    let name = object_of(address).map(|map| unsafe { CStr::from_ptr((*map).name) });
    while_open(name?, body)
}

/// Returns the loaded object that contains this copy of the crate.
pub(crate) fn own_object() -> *const LinkMap {
    static OWN: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

    let find = || found_at(own_object as *const c_void, RTLD_DL_LINKMAP);
    next::once(&OWN, || find().cast_mut()).cast()
}

/// An object as described by its program headers.
pub(crate) struct Object {
    /// The file's name; empty for the program itself.
    pub(crate) name: CString,
    /// The address of the object's dynamic section.
    pub(crate) dynamic: usize,
    base: usize,
    writable: Vec<Range<usize>>,
    /// The addresses that are read-only after relocation.
    relro: Range<usize>,
}

/// Returns how many objects have been loaded and unloaded, and the objects that are loaded in the
/// same loader namespace as this code.
pub(crate) fn loaded() -> ((u64, u64), Vec<Object>) {
    let (mut changes, mut objects) = ((0, 0), Vec::new());
    visit_objects(|info| {
        changes = (info.dlpi_adds, info.dlpi_subs);
        let mut object = Object {
            name: object_name(info).to_owned(),
            dynamic: 0,
            base: info.dlpi_addr as usize,
            writable: Vec::new(),
            relro: 0..0,
        };
        for (kind, flags, range) in segments(info) {
            match kind {
                libc::PT_LOAD if flags & libc::PF_W != 0 => object.writable.push(range),
                libc::PT_DYNAMIC => object.dynamic = range.start,
                libc::PT_GNU_RELRO => object.relro = range,
                _ => {}
            }
        }
        objects.push(object);
        true
    });
    (changes, objects)
}

/// A word of an object in which the loader stores the address of a symbol.
pub(crate) struct Relocation<'a> {
    pub(crate) place: *mut *mut c_void,
    pub(crate) symbol: &'a CStr,
    /// Whether this object imports the symbol.
    pub(crate) is_undefined: bool,
}

/// `Elf64_Dyn`.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
const DT_GNU_HASH: i64 = 0x6fff_fef5;
const DT_RELACOUNT: i64 = 0x6fff_fff9;

/// The types of relocations that store the address of a symbol: in entries of the global offset
/// table, in its entries for calls, and in data.
#[cfg(target_arch = "x86_64")]
const WITH_ADDRESS: [u32; 3] = [6, 7, 1];
#[cfg(target_arch = "aarch64")]
const WITH_ADDRESS: [u32; 3] = [1025, 1026, 257];

impl Object {
    /// Calls `body` with a handle of the object, which stays loaded during the call. Does nothing
    /// if the object has been unloaded or is not a file.
    pub(crate) fn while_loaded(&self, body: impl FnOnce(*mut c_void)) {
        // The name of the program itself is empty, as the loader expects.
        while_open(&self.name, |handle| {
            // SAFETY: a handle from glibc points to this structure.
            if unsafe { (*handle.cast::<LinkMap>()).dynamic.addr() } == self.dynamic {
                body(handle);
            }
        });
    }

    /// Calls `each` for every word that holds the address of a wanted symbol, if the object imports
    /// the symbol or, with `wholly`, defines it. The object must be loaded.
    pub(crate) fn relocations(
        &self,
        wholly: bool,
        is_wanted: impl Fn(&CStr) -> bool,
        mut each: impl FnMut(&Relocation<'_>),
    ) {
        let names = self.dynamic(DT_STRTAB);
        if names < self.base {
            // This is the kernel's own object. It imports nothing, and glibc has not relocated it.
            return;
        }
        let symbols = ptr::with_exposed_provenance::<libc::Elf64_Sym>(self.dynamic(DT_SYMTAB));
        // SAFETY: the object is loaded, and its dynamic section holds the addresses of its tables.
        let symbol = |at: u32| unsafe { &*symbols.add(at as usize) };
        let name = |symbol: &libc::Elf64_Sym| {
            let name = ptr::with_exposed_provenance(names + symbol.st_name as usize);
            // SAFETY: the names of an object's symbols are C strings in the object.
            unsafe { CStr::from_ptr(name) }
        };
        // Imported symbols come before exported ones, and the hash table states where the exported
        // ones begin. There are many relocations and few wanted symbols, so the symbols are
        // searched first.
        let hash = ptr::with_exposed_provenance::<u32>(self.dynamic(DT_GNU_HASH));
        // SAFETY: the hash table belongs to the loaded object, and its second word is the index of
        // the first exported symbol.
        let imported = unsafe { hash.as_ref().map_or(0, |_| *hash.add(1)) };
        let names_a_wanted = |at: &u32| is_wanted(name(symbol(*at)));
        let wanted: Vec<u32> = (0..imported).filter(names_a_wanted).collect();
        // For an object without exports, the number of symbols cannot be read from the hash table,
        // so all of its relocations are examined.
        let wholly = wholly || imported <= 1;
        if wanted.is_empty() && !wholly {
            return;
        }
        let tables = [
            // The first relocations have no symbol.
            (DT_RELA, DT_RELASZ, self.dynamic(DT_RELACOUNT)),
            (DT_JMPREL, DT_PLTRELSZ, 0),
        ];
        for (table, bytes, mut next) in tables {
            let table = ptr::with_exposed_provenance::<libc::Elf64_Rela>(self.dynamic(table));
            let end = self.dynamic(bytes) / size_of::<libc::Elf64_Rela>();
            // This loop is kept simple, because a user's debug build runs it unoptimised, hundreds
            // of thousands of times.
            while next < end {
                // SAFETY: the table belongs to the loaded object and has `end` entries.
                let relocation = unsafe { &*table.add(next) };
                next += 1;
                let at = (relocation.r_info >> 32) as u32;
                let may_matter = wanted.contains(&at) || wholly && at >= imported;
                if !may_matter || !WITH_ADDRESS.contains(&(relocation.r_info as u32)) {
                    continue;
                }
                let symbol = symbol(at);
                if relocation.r_addend == 0 && is_wanted(name(symbol)) {
                    let place = self.base.wrapping_add(relocation.r_offset as usize);
                    each(&Relocation {
                        place: ptr::with_exposed_provenance_mut(place),
                        symbol: name(symbol),
                        is_undefined: symbol.st_shndx == 0,
                    });
                }
            }
        }
    }

    /// Returns an entry of the dynamic section; 0 if it is missing. glibc has converted the offsets
    /// in this section to addresses.
    fn dynamic(&self, tag: i64) -> usize {
        let mut entry = ptr::with_exposed_provenance::<Dynamic>(self.dynamic);
        // SAFETY: the dynamic section of a loaded object ends with a tag of zero.
        unsafe {
            while (*entry).tag != 0 && (*entry).tag != tag {
                entry = entry.add(1);
            }
            if (*entry).tag == 0 { 0 } else { (*entry).value }
        }
    }

    /// Replaces the word at `place` if it still holds `before`. Returns whether the word could be
    /// written. The object must be loaded.
    pub(crate) fn write(
        &self,
        place: &AtomicPtr<c_void>,
        before: *mut c_void,
        after: *mut c_void,
    ) -> bool {
        /// Locked while a page is writable, so that only one thread writes at a time.
        static WRITING: Mutex<()> = Mutex::new(());

        let address = place.as_ptr().addr();
        if !self.writable.iter().any(|range| range.contains(&address)) {
            return false;
        }
        let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the call has no preconditions.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let page = ptr::with_exposed_provenance_mut::<c_void>(address & !(size - 1));
        // The loader protects only whole pages.
        let is_read_only = (self.relro.start..self.relro.end & !(size - 1)).contains(&address);
        let protect = |protection| {
            // SAFETY: the page belongs to the object and contains no code.
            !is_read_only || unsafe { libc::mprotect(page, size, protection) } == 0
        };
        if !protect(libc::PROT_READ | libc::PROT_WRITE) {
            return false;
        }
        let exchanged = place.compare_exchange(before, after, Ordering::Release, Ordering::Relaxed);
        // A failure is ignored: the word has been replaced, and the page merely stays writable.
        protect(libc::PROT_READ);
        exchanged.is_ok() || exchanged == Err(after)
    }
}

/// `struct r_debug`, through which the loader shows its namespaces to debuggers. `next` exists in
/// version 2 and later.
#[repr(C)]
struct Namespace {
    version: c_int,
    first: *const LinkMap,
    breakpoint: usize,
    state: c_int,
    loader: usize,
    next: *const Namespace,
}

/// Returns the files loaded into other namespaces, by `dlmopen` or for `LD_AUDIT`. They have their
/// own C library and perhaps their own driver, and calls to that library and driver are not
/// intercepted. The result is empty before glibc 2.35, because earlier releases do not list other
/// namespaces.
pub fn libraries_elsewhere() -> Vec<String> {
    static FIRST: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

    let mut files = Vec::new();
    let own = own_object();
    // SAFETY: the call looks up a C string in the global scope.
    let find = || unsafe { next::dlsym()(libc::RTLD_DEFAULT, c"_r_debug".as_ptr()) };
    let first = next::once(&FIRST, find);
    // SAFETY: the lists and their names belong to the loader, and do not change while objects are
    // visited.
    visit_objects(|_| unsafe {
        let first = first.cast_const().cast::<Namespace>().as_ref();
        let namespaces = iter::successors(first, |this| match this.version {
            2.. => this.next.as_ref(),
            _ => None,
        });
        for namespace in namespaces {
            let objects = || iter::successors(namespace.first.as_ref(), |map| map.next.as_ref());
            if !objects().any(|map| ptr::eq(map, own)) {
                let names = objects().map(|map| CStr::from_ptr(map.name).to_string_lossy());
                files.extend(names.map(|name| name.into_owned()));
            }
        }
        false
    });
    files
}
