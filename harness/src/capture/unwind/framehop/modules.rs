//! The unwind tables of the program and its libraries, for framehop.
//!
//! The list is built at the first walk. It is built again after a wrong walk if a library has been
//! loaded or unloaded since. Modules that are loaded when the program starts stay loaded as long as
//! the process runs, so their tables are used in place. Modules that are loaded later may be
//! unloaded at any time. They are not kept loaded, because unloading may run code of the program;
//! instead, their tables are copied while the loader's lock is held. Lists share these copies.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::ops::Range;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use gpu_leak_interpose::{object_name, segments};

use crate::loader::{self, Changes};
use crate::sync::locked;

use framehop::{
    ExplicitModuleSectionInfo, Module, MustNotAllocateDuringUnwind, Unwinder, UnwinderNative,
};

/// The maximum number of lists. Lists are never freed, because a walk may be using one. A program
/// that keeps loading and unloading libraries gets no more lists after this number. From then on,
/// the exact unwinder walks its stacks.
const MAX_LISTS: usize = 64;

/// The number of rows in `UnwindModules::wrong`. The memory is limited, because a just-in-time
/// compiler keeps creating code without unwind tables.
const WRONG: usize = 128;

type ModuleBytes = &'static [u8];

/// The modules of the process.
pub(super) struct UnwindModules {
    pub(super) unwinder: UnwinderNative<ModuleBytes, MustNotAllocateDuringUnwind>,
    changes: Changes,
    /// The return addresses of frames whose callers were guessed wrong.
    wrong: Box<[[AtomicU64; 8]]>,
    /// The number of these addresses.
    wrong_count: AtomicUsize,
    /// Whether the program runs under Valgrind, which reports each comparison that involves a word
    /// that the program has not written.
    pub(super) is_under_valgrind: bool,
}

static CURRENT: AtomicPtr<UnwindModules> = AtomicPtr::new(ptr::null_mut());
/// How many lists have been built.
static LISTS: Mutex<usize> = Mutex::new(0);

/// Returns the newest list; `None` while it is being built.
pub(super) fn current() -> Option<&'static UnwindModules> {
    published().or_else(|| {
        refresh();
        published()
    })
}

fn published() -> Option<&'static UnwindModules> {
    // SAFETY: the pointer is null or points to a list that `refresh` has leaked.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

impl UnwindModules {
    /// Whether the caller of a frame with this return address was guessed wrong before.
    pub(super) fn is_wrong_at(&self, address: u64) -> bool {
        let is_it = |slot: &AtomicU64| slot.load(Ordering::Relaxed) == address;
        self.wrong_count.load(Ordering::Acquire) > 0 && self.slots_of(address).iter().any(is_it)
    }

    /// Records that the caller of a frame with this return address was guessed wrong, if there is
    /// room.
    pub(super) fn add_wrong(&self, address: u64) {
        for slot in self.slots_of(address) {
            match slot.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    self.wrong_count.fetch_add(1, Ordering::Release);
                    return;
                }
                Err(other) if other == address => return,
                Err(_) => {}
            }
        }
    }

    /// Returns the slots that this address may be in.
    fn slots_of(&self, address: u64) -> &[AtomicU64] {
        // The multiplier is derived from the golden ratio, so that the upper bits of the product
        // depend on all bits of the address.
        let hash = address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.wrong[hash as usize % self.wrong.len()]
    }

    /// Returns a number that differs for each list and changes with each recorded address.
    pub(super) fn state(&self) -> usize {
        // Addresses have 48 bits.
        ptr::from_ref(self).addr() ^ self.wrong_count.load(Ordering::Acquire) << 48
    }
}

/// Builds a new list if a library has been loaded or unloaded. Otherwise, or if no more lists may
/// be built, returns the current list.
pub(super) fn refresh() -> Option<&'static UnwindModules> {
    // If another thread holds the lock, the old list is used this time.
    let mut lists = LISTS.try_lock().ok()?;
    let old = published();
    if *lists == MAX_LISTS || old.map(|it| it.changes) == Some(loader::changes()) {
        return old;
    }
    *lists += 1;
    let new = Box::leak(Box::new(read()));
    CURRENT.store(new, Ordering::Release);
    None
}

fn read() -> UnwindModules {
    let mut modules = UnwindModules {
        unwinder: UnwinderNative::new(),
        changes: Changes::default(),
        wrong: (0..WRONG).map(|_| Default::default()).collect(),
        wrong_count: AtomicUsize::new(0),
        is_under_valgrind: false,
    };
    // Whether the next module was loaded when the program started.
    let mut from_the_start = true;
    // The address of the loader. If modules that were loaded at the start follow it, they are
    // treated like modules that were loaded later.
    // SAFETY: the call only returns a number.
    let loader = unsafe { libc::getauxval(libc::AT_BASE) };
    loader::visit(|object| {
        modules.changes = (object.dlpi_adds, object.dlpi_subs);
        modules.is_under_valgrind |= is_of_valgrind(object_name(object));
        // SAFETY: the loader holds its lock during this call, so the module stays loaded; a module
        // from the start stays loaded forever.
        if let Some(module) = unsafe { module(object, from_the_start) } {
            modules.unwinder.add_module(module);
        }
        // The program is the first module in the list. A static program has no loader.
        from_the_start &= loader != 0 && object.dlpi_addr != loader;
        true
    });
    modules
}

/// Whether this is a library that Valgrind loads into the programs that it runs.
fn is_of_valgrind(file: &CStr) -> bool {
    let mut parts = file.to_bytes().rsplit(|byte| *byte == b'/');
    parts
        .next()
        .is_some_and(|name| name.starts_with(b"vgpreload_"))
}

/// Returns one module with its tables; `None` if the module has no tables in the usual form.
///
/// # Safety
///
/// The module stays mapped during the call or, if `stays` is set, forever.
unsafe fn module(object: &libc::dl_phdr_info, stays: bool) -> Option<Module<ModuleBytes>> {
    let of_type = |wanted| {
        let segments = segments(object).filter(move |(kind, ..)| *kind == wanted);
        segments.map(|(_, flags, range)| (flags, range.start as u64..range.end as u64))
    };
    let loaded = || of_type(libc::PT_LOAD);
    let start = loaded().map(|(_, range)| range.start).min()?;
    let end = loaded().map(|(_, range)| range.end).max()?;
    let (_, index) = of_type(libc::PT_GNU_EH_FRAME).next()?;
    let segment_of = |address: u64| {
        // A slice must not refer to writable memory.
        let is_constant = |flags| flags & (libc::PF_R | libc::PF_W) == libc::PF_R;
        let mut constant = loaded().filter(|(flags, _)| is_constant(*flags));
        constant.find_map(|(_, range)| range.contains(&address).then_some(range))
    };
    let bytes = |range: Range<u64>| {
        let data = ptr::with_exposed_provenance::<u8>(range.start as usize);
        // SAFETY: the bytes are inside a segment of the module that is readable and not writable.
        // The segment is mapped as long as the caller promises. If that is not forever, the bytes
        // are copied.
        let bytes: ModuleBytes =
            unsafe { std::slice::from_raw_parts(data, (range.end - range.start) as usize) };
        bytes
    };
    let segment = segment_of(index.start)?;
    let index = index.start..index.end.min(segment.end);
    let index_bytes = bytes(index.clone());
    let frames = index
        .start
        .checked_add_signed(offset_of_frames(index_bytes)?)?;
    let frames = frames..segment_of(frames)?.end;
    let frames_bytes = bytes(frames.clone());

    let (index_bytes, frames_bytes) = if stays {
        (index_bytes, frames_bytes)
    } else {
        let used = length_of_frames(frames_bytes);
        (copy_of(index_bytes), copy_of(&frames_bytes[..used]))
    };
    let sections = ExplicitModuleSectionInfo {
        base_svma: start,
        eh_frame_svma: Some(frames),
        eh_frame: Some(frames_bytes),
        eh_frame_hdr_svma: Some(index),
        eh_frame_hdr: Some(index_bytes),
        ..ExplicitModuleSectionInfo::default()
    };
    Some(Module::new(String::new(), start..end, start, sections))
}

/// Returns a copy of a table, which is never freed. A program may load hundreds of libraries one
/// after another, and each new list contains the tables of all of them. So a table that an earlier
/// list has copied is not copied again.
fn copy_of(bytes: &[u8]) -> ModuleBytes {
    static COPIES: Mutex<BTreeSet<ModuleBytes>> = Mutex::new(BTreeSet::new());

    let mut copies = locked(&COPIES);
    if let Some(copy) = copies.get(bytes) {
        return copy;
    }
    let copy = Box::leak(bytes.into());
    copies.insert(copy);
    copy
}

/// Returns the offset of `.eh_frame` from the start of `.eh_frame_hdr`, whose bytes are `index`.
fn offset_of_frames(index: &[u8]) -> Option<i64> {
    // Every linker uses these encodings: the address is relative to itself, the number of entries
    // has 32 bits, and the entries are relative to the index. With other encodings, framehop may
    // overflow.
    let [1, 0x1b, 0x03, 0x3b, a, b, c, d] = *index.first_chunk()? else {
        return None;
    };
    Some(i64::from(i32::from_le_bytes([a, b, c, d])) + 4)
}

/// Returns the length of the `.eh_frame` section at the start of `bytes`. The last entry of that
/// section is empty.
fn length_of_frames(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(length) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let length = u32::from_le_bytes(*length) as usize;
        at += 4;
        if length == 0 {
            break;
        }
        at += length;
    }
    at.min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::offset_of_frames;

    #[test]
    fn only_an_index_in_the_usual_encodings_is_used() {
        assert_eq!(offset_of_frames(&[1, 0x1b, 3, 0x3b, 8, 0, 0, 0]), Some(12));
        // The damaged encoding says that the number of entries has 64 bits.
        assert_eq!(offset_of_frames(&[1, 0x1b, 4, 0x3b, 8, 0, 0, 0]), None);
        assert_eq!(offset_of_frames(&[1, 0x1b, 3]), None);
    }
}
