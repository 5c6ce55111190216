//! The program's own calls to the C library's allocator, while somebody is watching them.
//!
//! Meanwhile the words in which the loader stored the addresses of `malloc` and its relatives for the
//! program lead here. Only the program's words are replaced: calls inside libraries are not seen.
#![expect(
    unsafe_code,
    reason = "stands between the program and the C library's allocator"
)]

use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::dlsym;
use crate::interface::{CLEARED, FreedBlock, HeapWatch, Slot};
use crate::objects::{self, Object};
use crate::process;

/// The watcher; null if there is none.
static WATCH: AtomicPtr<HeapWatch> = AtomicPtr::new(ptr::null_mut());

/// A replaced word of the program, and what it contained.
struct Replaced {
    place: usize,
    before: usize,
    by: usize,
}

static REPLACED: Mutex<Vec<Replaced>> = Mutex::new(Vec::new());

/// A function: its name, what replaces it, and where the real one is stored.
type Function = (&'static CStr, fn() -> *mut c_void, &'static Slot);

static FUNCTIONS: [Function; 6] = [
    (c"malloc", || malloc as *mut c_void, &MALLOC),
    (c"calloc", || calloc as *mut c_void, &CALLOC),
    (c"realloc", || realloc as *mut c_void, &REALLOC),
    (
        c"posix_memalign",
        || posix_memalign as *mut c_void,
        &ALIGNED,
    ),
    (c"free", || free as *mut c_void, &FREE),
    (c"malloc_usable_size", || ptr::null_mut(), &USABLE_SIZE),
];

static MALLOC: Slot = Slot::new();
static CALLOC: Slot = Slot::new();
static REALLOC: Slot = Slot::new();
static ALIGNED: Slot = Slot::new();
static FREE: Slot = Slot::new();
static USABLE_SIZE: Slot = Slot::new();

/// From now on, tells `watch` about the heap blocks that the program's own code allocates and
/// frees; `None` ends the watch. Returns whether they are seen: not if the program has another
/// allocator, or if somebody else is watching.
pub fn watch_heap(watch: Option<&'static HeapWatch>) -> bool {
    let mut replaced = REPLACED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(watch) = watch else {
        WATCH.store(ptr::null_mut(), Ordering::Release);
        restore(&mut replaced);
        return false;
    };
    // Another copy of this crate would write the same words.
    if !process::is_serving() || !replaced.is_empty() || !are_found() {
        return false;
    }
    let Some(program) = program() else {
        return false;
    };
    nothing_in_forked_children();
    WATCH.store(ptr::from_ref(watch).cast_mut(), Ordering::Release);
    let is_wanted = |name: &CStr| FUNCTIONS.iter().any(|(known, ..)| *known == name);
    let mut words = Vec::new();
    let mut is_all = true;
    program.relocations(false, is_wanted, |relocation| {
        let row = FUNCTIONS
            .iter()
            .find(|(name, ..)| *name == relocation.symbol);
        let Some((_, ours, real)) = row else { return };
        // SAFETY: the program stays loaded, and the loader stores an address here.
        let bound = unsafe { AtomicPtr::from_ptr(relocation.place) }.load(Ordering::Relaxed);
        let ours = ours();
        if bound.cast_const().cast() == real.real() {
            if !ours.is_null() {
                words.push((relocation.place.addr(), bound.addr(), ours.addr()));
            }
        } else {
            // Another allocator, or a function that the loader binds at its first call.
            is_all = false;
        }
    });
    if !is_all || words.is_empty() {
        WATCH.store(ptr::null_mut(), Ordering::Release);
        return false;
    }
    // A block whose allocation was seen must not be freed unseen.
    words.sort_by_key(|(.., by)| *by != free as *mut c_void as usize);
    for (place, before, by) in words {
        if !write(Some(&program), place, before, by) {
            WATCH.store(ptr::null_mut(), Ordering::Release);
            restore(&mut replaced);
            return false;
        }
        replaced.push(Replaced { place, before, by });
    }
    true
}

/// Whether somebody is watching: the watch ends when the process is forked.
pub fn is_heap_watched() -> bool {
    watch().is_some()
}

/// Writes back what the words contained.
fn restore(replaced: &mut Vec<Replaced>) {
    let program = program();
    for word in replaced.drain(..) {
        write(program.as_ref(), word.place, word.by, word.before);
    }
}

/// Returns the program.
fn program() -> Option<Object> {
    let mut objects = objects::loaded().into_iter();
    objects.find(|object| object.name.is_empty())
}

fn write(program: Option<&Object>, place: usize, before: usize, after: usize) -> bool {
    // SAFETY: a word of the program in which the loader has stored an address.
    let place = unsafe { AtomicPtr::from_ptr(ptr::with_exposed_provenance_mut(place)) };
    let address = ptr::with_exposed_provenance_mut::<c_void>;
    program.is_some_and(|program| program.write(place, address(before), address(after)))
}

/// Finds the real functions. Returns whether all were found, in one library: an allocator that lacks one of
/// them does not know the blocks of another.
fn are_found() -> bool {
    let mut library = None;
    FUNCTIONS.iter().all(|(name, _, slot)| {
        // SAFETY: the name is a C string.
        let real = unsafe { dlsym::next()(libc::RTLD_DEFAULT, name.as_ptr()) };
        let real: *const () = real.cast_const().cast();
        let object = dlsym::object_of(real.cast());
        !real.is_null() && object == *library.get_or_insert(object) && slot.fill(real, real)
    })
}

/// Ends the watch when the process is forked: in the child, a lock of the watcher may be held by a thread
/// that does not exist there. Before the fork, because other handlers of the child may free something.
fn nothing_in_forked_children() {
    extern "C" fn nobody() {
        WATCH.store(ptr::null_mut(), Ordering::Relaxed);
    }
    static IS_SET: std::sync::Once = std::sync::Once::new();
    // SAFETY: the function only stores a null pointer.
    IS_SET.call_once(|| unsafe {
        libc::pthread_atfork(Some(nobody), None, None);
    });
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Calls the watcher. `malloc` and `free` are not cancellation points, and `free` keeps `errno`.
fn unnoticed<T>(call: impl FnOnce() -> T) -> T {
    /// `PTHREAD_CANCEL_DISABLE`.
    const DISABLED: c_int = 1;

    let mut before = 0;
    // SAFETY: this thread's own state and error number, whose address is valid as long as it lives.
    unsafe {
        let number = libc::__errno_location();
        let error = *number;
        pthread_setcancelstate(DISABLED, &raw mut before);
        let result = call();
        pthread_setcancelstate(before, ptr::null_mut());
        *number = error;
        result
    }
}

fn watch() -> Option<&'static HeapWatch> {
    // SAFETY: null, or from a static reference.
    unsafe { WATCH.load(Ordering::Acquire).as_ref() }
}

/// Reports a block in which the caller's content ends after `kept` bytes.
fn allocated(block: *mut c_void, bytes: usize, kept: usize) -> *mut c_void {
    if !block.is_null()
        && let Some(watch) = watch()
        && unnoticed(|| (watch.allocated)(block.addr(), bytes))
    {
        let end = usable_size(block).min(CLEARED);
        if kept < end {
            // SAFETY: inside the block, after what the caller has in it.
            unsafe { block.byte_add(kept).write_bytes(0, end - kept) };
        }
    }
    block
}

/// Returns whether the watcher was interested in the block.
fn freed(block: *mut c_void, is_moved: bool) -> bool {
    let watch = watch().filter(|_| !block.is_null());
    watch.is_some_and(|watch| unnoticed(|| (watch.freed)(&FreedBlock::new(block), is_moved)))
}

/// Returns how many bytes of a block can be read.
pub(crate) fn usable_size(block: *mut c_void) -> usize {
    // SAFETY: the function with this name; the block is not freed yet.
    unsafe {
        transmute::<*const (), unsafe extern "C" fn(*mut c_void) -> usize>(USABLE_SIZE.real())(
            block,
        )
    }
}

unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
    // SAFETY: the function with this name, which gets the caller's arguments; likewise below.
    let block = unsafe {
        transmute::<*const (), unsafe extern "C" fn(usize) -> *mut c_void>(MALLOC.real())(bytes)
    };
    allocated(block, bytes, 0)
}

unsafe extern "C" fn calloc(count: usize, each: usize) -> *mut c_void {
    // SAFETY: as for `malloc`.
    let block = unsafe {
        transmute::<*const (), unsafe extern "C" fn(usize, usize) -> *mut c_void>(CALLOC.real())(
            count, each,
        )
    };
    let bytes = count.saturating_mul(each);
    allocated(block, bytes, bytes)
}

unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    // Before the call, because another thread may get the old block during it. An old block of
    // which nothing is known may contain anything.
    let is_known = block.is_null() || freed(block, true);
    let kept = match block.is_null() {
        true => 0,
        false => usable_size(block),
    };
    // SAFETY: as for `malloc`.
    let moved = unsafe {
        transmute::<*const (), unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void>(
            REALLOC.real(),
        )(block, bytes)
    };
    if is_known && moved.is_null() && bytes != 0 {
        // It failed, and the old block is still there.
        allocated(block, kept, kept);
    }
    match is_known {
        true => allocated(moved, bytes, kept),
        false => moved,
    }
}

unsafe extern "C" fn posix_memalign(
    block: *mut *mut c_void,
    alignment: usize,
    bytes: usize,
) -> c_int {
    // SAFETY: as for `malloc`; the caller's pointer is writable.
    unsafe {
        let result = transmute::<
            *const (),
            unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int,
        >(ALIGNED.real())(block, alignment, bytes);
        if result == 0 {
            allocated(*block, bytes, 0);
        }
        result
    }
}

unsafe extern "C" fn free(block: *mut c_void) {
    freed(block, false);
    // SAFETY: as for `malloc`.
    unsafe { transmute::<*const (), unsafe extern "C" fn(*mut c_void)>(FREE.real())(block) }
}
