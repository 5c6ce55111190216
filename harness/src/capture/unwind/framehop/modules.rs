//! The unwind tables of the program and its libraries, as framehop wants them.
//!
//! The list is made at the first walk, and again after one that went wrong, if a library has come
//! or gone since. What was there when the program started stays as long as the process, and its
//! tables are used where they lie. What came later may go at any time, and is not held back: it
//! may run something of the program's when it goes. Its tables are copied while the loader holds
//! still.

use std::ops::Range;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::device::dl::{self, Changes};

use framehop::{
    ExplicitModuleSectionInfo, Module, MustNotAllocateDuringUnwind, Unwinder, UnwinderNative,
};

/// Lists are never freed, since a walk may be using one. A program that goes on loading and
/// unloading gets no new ones after so many; its stacks are then walked by the exact engine.
const MOST_LISTS: usize = 64;

type ModuleBytes = &'static [u8];

/// What is in the process.
pub(super) struct UnwindModules {
    pub(super) unwinder: UnwinderNative<ModuleBytes, MustNotAllocateDuringUnwind>,
    changes: Changes,
}

static CURRENT: AtomicPtr<UnwindModules> = AtomicPtr::new(ptr::null_mut());
/// How many lists were made.
static LISTS: Mutex<usize> = Mutex::new(0);

/// The newest list; none where it is being made.
pub(super) fn current() -> Option<&'static UnwindModules> {
    published().or_else(|| {
        refresh();
        published()
    })
}

fn published() -> Option<&'static UnwindModules> {
    // SAFETY: null, or a list that `refresh` has leaked.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// Makes a new list if a library has come or gone.
pub(super) fn refresh() {
    // Whoever does not get it has the old list for this once.
    let Ok(mut lists) = LISTS.try_lock() else {
        return;
    };
    let old = published().map(|modules| modules.changes);
    if *lists == MOST_LISTS || old == Some(dl::changes()) {
        return;
    }
    *lists += 1;
    let new = Box::leak(Box::new(read()));
    CURRENT.store(new, Ordering::Release);
}

fn read() -> UnwindModules {
    let mut modules = UnwindModules {
        unwinder: UnwinderNative::new(),
        changes: Changes::default(),
    };
    // Whether what comes now was there when the program started.
    let mut from_the_start = true;
    // Where the loader itself lies: the last of what was there.
    // SAFETY: looks a number up.
    let loader = unsafe { libc::getauxval(libc::AT_BASE) };
    dl::visit(|object| {
        modules.changes = (object.dlpi_adds, object.dlpi_subs);
        // SAFETY: the loader passes a valid entry, and holds its lock during this call, so that
        // the module stays; one from the start stays for ever.
        if let Some(module) = unsafe { module(object, from_the_start) } {
            modules.unwinder.add_module(module);
        }
        // The program is the first of the list, and there is no loader where it is static.
        from_the_start &= loader != 0 && object.dlpi_addr != loader;
        true
    });
    modules
}

/// One module with its tables; none if it has none of the usual form.
///
/// # Safety
///
/// `info` is a valid entry, and the module stays mapped during the call; with `stays`, for ever.
unsafe fn module(info: *const libc::dl_phdr_info, stays: bool) -> Option<Module<ModuleBytes>> {
    // SAFETY: the entry is valid, and so are its program headers.
    let (base, headers) = unsafe {
        let count = usize::from((*info).dlpi_phnum);
        let headers = std::slice::from_raw_parts((*info).dlpi_phdr, count);
        ((*info).dlpi_addr, headers)
    };
    let loaded = || {
        headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD)
    };
    let range = |header: &libc::Elf64_Phdr| header.p_vaddr..header.p_vaddr + header.p_memsz;
    let start = loaded().map(|header| range(header).start).min()?;
    let end = loaded().map(|header| range(header).end).max()?;

    let index = range(
        headers
            .iter()
            .find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?,
    );
    // What a program may write to cannot be a slice.
    let constant =
        |header: &&libc::Elf64_Phdr| header.p_flags & (libc::PF_R | libc::PF_W) == libc::PF_R;
    let segment_of = |address: u64| {
        let mut segments = loaded().filter(constant).map(range);
        segments.find(|segment| segment.contains(&address))
    };
    let bytes = |range: Range<u64>| {
        let data = ptr::with_exposed_provenance::<u8>((base + range.start) as usize);
        // SAFETY: inside a segment of the module that is readable and that no one writes to;
        // mapped as long as the caller says, and copied if that is not for ever.
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
        (leaked(index_bytes), leaked(&frames_bytes[..used]))
    };
    let sections = ExplicitModuleSectionInfo {
        base_svma: start,
        eh_frame_svma: Some(frames),
        eh_frame: Some(frames_bytes),
        eh_frame_hdr_svma: Some(index),
        eh_frame_hdr: Some(index_bytes),
        ..ExplicitModuleSectionInfo::default()
    };
    let addresses = base + start..base + end;
    Some(Module::new(
        String::new(),
        addresses.clone(),
        addresses.start,
        sections,
    ))
}

fn leaked(bytes: &[u8]) -> ModuleBytes {
    Box::leak(bytes.into())
}

/// Where `.eh_frame` lies, counted from the start of `.eh_frame_hdr`, whose bytes these are.
fn offset_of_frames(index: &[u8]) -> Option<i64> {
    /// As every linker writes it: 32 bits, counted from where they stand.
    const RELATIVE: u8 = 0x1b;
    let [1, RELATIVE, _, _, a, b, c, d] = *index.first_chunk()? else {
        return None;
    };
    Some(i64::from(i32::from_le_bytes([a, b, c, d])) + 4)
}

/// How much of what begins with `.eh_frame` is that: its entries end with an empty one.
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
