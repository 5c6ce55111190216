//! Intercepts the program's own calls to the C library's allocator while a watcher is installed.
//! The loader has stored the addresses of `malloc` and related functions in words of the program.
//! While there is a watcher, these words point to the functions in this file. Words of libraries
//! are not replaced, so calls inside libraries are not seen.
#![expect(
    unsafe_code,
    reason = "replaces functions of the C library's allocator"
)]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::objects::{self, Object};
use super::pthread::uncancelled;
use super::{next, process};
use crate::interface::{CLEARED, FreedBlock, HeapWatch, function};

/// The watcher; null if none is installed.
static WATCH: AtomicPtr<HeapWatch> = AtomicPtr::new(ptr::null_mut());

/// A replaced word of the program, and its original contents.
struct Replaced {
    place: &'static AtomicPtr<c_void>,
    before: *mut c_void,
    by: *mut c_void,
}

// SAFETY: the addresses are valid on every thread, because the program stays loaded, and `place` is
// accessed only atomically.
unsafe impl Send for Replaced {}

static REPLACED: Mutex<Vec<Replaced>> = Mutex::new(Vec::new());

/// The C library's functions, which the functions in this file call.
struct Real {
    malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    calloc: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    posix_memalign: unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int,
    free: unsafe extern "C" fn(*mut c_void),
    usable_size: unsafe extern "C" fn(*mut c_void) -> usize,
}

static REAL: OnceLock<Real> = OnceLock::new();

/// A name, the function to which it resolves, and the replacement for that function.
type Function = (&'static CStr, *mut c_void, *mut c_void);

impl Real {
    /// Finds the functions. All of them must be in one library: an allocator that lacks one of them
    /// cannot handle blocks that another allocator's function has returned.
    fn find() -> Option<(Self, Vec<Function>)> {
        let mut library = None;
        let mut functions = Vec::new();
        let mut find = |name: &'static CStr, by: *mut c_void| {
            // SAFETY: the name is a C string.
            let found = unsafe { next::dlsym()(libc::RTLD_DEFAULT, name.as_ptr()) };
            let object = objects::object_of(found);
            functions.push((name, found, by));
            (object == *library.get_or_insert(object)).then_some(found)
        };
        // SAFETY: these are the signatures of the functions with these names.
        let real = unsafe {
            Self {
                malloc: function(find(c"malloc", malloc as _)?)?,
                calloc: function(find(c"calloc", calloc as _)?)?,
                realloc: function(find(c"realloc", realloc as _)?)?,
                posix_memalign: function(find(c"posix_memalign", posix_memalign as _)?)?,
                free: function(find(c"free", free as _)?)?,
                usable_size: function(find(c"malloc_usable_size", ptr::null_mut())?)?,
            }
        };
        Some((real, functions))
    }

    /// Returns the C library's functions, which were found before any word was replaced.
    fn get() -> &'static Self {
        REAL.get().unwrap_or_else(|| std::process::abort())
    }
}

/// Reports to `watch`, from now on, the heap blocks that the program's own code allocates and
/// frees. `None` ends the watch. Returns whether the blocks can be seen. They cannot if the program
/// has another allocator or if there is another watcher.
pub fn watch_heap(watch: Option<&'static HeapWatch>) -> bool {
    let mut replaced = REPLACED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(watch) = watch else {
        end(&mut replaced);
        return false;
    };
    // Only the serving copy may do this. Otherwise, several copies of this crate would write the
    // same words.
    process::is_serving() && replaced.is_empty() && begin(watch, &mut replaced).is_some()
}

fn begin(watch: &'static HeapWatch, replaced: &mut Vec<Replaced>) -> Option<()> {
    let program = program()?;
    let words = words(&program)?;
    end_at_forks();
    WATCH.store(ptr::from_ref(watch).cast_mut(), Ordering::Release);
    for word in words {
        if !program.write(word.place, word.before, word.by) {
            end(replaced);
            return None;
        }
        replaced.push(word);
    }
    Some(())
}

/// Returns the words of the program that hold addresses of the allocator's functions, in the order
/// in which they are to be replaced; `None` if not all of them hold the addresses of the real
/// functions.
fn words(program: &Object) -> Option<Vec<Replaced>> {
    let (real, functions) = Real::find()?;
    REAL.get_or_init(|| real);
    let mut words = Vec::new();
    let mut is_all = true;
    let function = |name: &CStr| functions.iter().find(|(known, ..)| *known == name);
    let is_wanted = |name: &CStr| function(name).is_some();
    program.relocations(false, is_wanted, |relocation| {
        // SAFETY: the program stays loaded, so the word stays mapped, and it holds an address that
        // the loader stores there.
        let place = unsafe { AtomicPtr::from_ptr(relocation.place) };
        let before = place.load(Ordering::Relaxed);
        if let Some(&(_, real, by)) = function(relocation.symbol) {
            // If the two addresses differ, the word points to another allocator, or the loader
            // binds the function only at its first call.
            is_all &= before == real;
            words.extend((!by.is_null()).then_some(Replaced { place, before, by }));
        }
    });
    // `free` is replaced first, so that a block whose allocation was seen is never freed unseen.
    words.sort_by_key(|word| word.by != free as *mut c_void);
    (is_all && !words.is_empty()).then_some(words)
}

/// Whether a watcher is installed. A forked child has none.
pub fn is_heap_watched() -> bool {
    watch().is_some()
}

/// Ends the watch and restores the original contents of the words.
fn end(replaced: &mut Vec<Replaced>) {
    WATCH.store(ptr::null_mut(), Ordering::Release);
    if let Some(program) = program() {
        for word in replaced.drain(..) {
            program.write(word.place, word.by, word.before);
        }
    }
}

fn program() -> Option<Object> {
    let mut objects = objects::loaded().1.into_iter();
    objects.find(|object| object.name.is_empty())
}

/// Ends the watch when the process is forked: in the child, a lock of the watcher may be held by a
/// thread that does not exist there. The watch ends before the fork, because handlers that run in
/// the child may free blocks.
fn end_at_forks() {
    extern "C" fn before_fork() {
        WATCH.store(ptr::null_mut(), Ordering::Relaxed);
    }
    static IS_SET: std::sync::Once = std::sync::Once::new();
    // SAFETY: the handler has the required signature, does not unwind and only stores a null
    // pointer.
    IS_SET.call_once(|| unsafe {
        libc::pthread_atfork(Some(before_fork), None, None);
    });
}

/// Calls the watcher without side effects for the caller: `malloc` and `free` are not cancellation
/// points, and `free` keeps `errno`.
fn unnoticed<T>(call: impl FnOnce() -> T) -> T {
    // SAFETY: the address of this thread's `errno` is valid as long as the thread lives.
    unsafe {
        let number = libc::__errno_location();
        let error = *number;
        let result = uncancelled(call);
        *number = error;
        result
    }
}

fn watch() -> Option<&'static HeapWatch> {
    // SAFETY: the pointer is null or comes from a static reference.
    unsafe { WATCH.load(Ordering::Acquire).as_ref() }
}

/// Reports a block whose first `kept` bytes contain the caller's data. If the watcher is interested
/// in the block, the rest of its first [`CLEARED`] bytes is overwritten with zeros.
fn allocated(block: *mut c_void, bytes: usize, kept: usize) -> *mut c_void {
    if !block.is_null()
        && let Some(watch) = watch()
        && unnoticed(|| (watch.allocated)(block.addr(), bytes))
    {
        let end = usable_size(block).min(CLEARED);
        if kept < end {
            // SAFETY: the bytes are inside the block, after the caller's part of it.
            unsafe { block.byte_add(kept).write_bytes(0, end - kept) };
        }
    }
    block
}

/// Reports a block that is about to be freed or moved. Returns whether the watcher was interested
/// in it.
fn freed(block: *mut c_void, is_moved: bool) -> bool {
    let watch = watch().filter(|_| !block.is_null());
    watch.is_some_and(|watch| {
        let words = usable_size(block) / size_of::<u64>();
        let words = ptr::slice_from_raw_parts(block.cast_const().cast(), words);
        unnoticed(|| (watch.freed)(&FreedBlock { words }, is_moved))
    })
}

/// Returns how many bytes of a block can be read; 0 for a null pointer.
fn usable_size(block: *mut c_void) -> usize {
    // SAFETY: the block is null, or has been allocated and not yet freed.
    unsafe { (Real::get().usable_size)(block) }
}

unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
    // SAFETY: this forwards the caller's own call unchanged.
    allocated(unsafe { (Real::get().malloc)(bytes) }, bytes, 0)
}

unsafe extern "C" fn calloc(count: usize, each: usize) -> *mut c_void {
    let bytes = count.saturating_mul(each);
    // SAFETY: this forwards the caller's own call unchanged.
    allocated(unsafe { (Real::get().calloc)(count, each) }, bytes, bytes)
}

unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    // The old block is reported before the call, because another thread may get that block during
    // the call. If nothing is known about the old block, it may contain anything.
    let is_known = block.is_null() || freed(block, true);
    let kept = usable_size(block);
    // SAFETY: this forwards the caller's own call unchanged.
    let moved = unsafe { (Real::get().realloc)(block, bytes) };
    if !is_known {
        return moved;
    }
    if moved.is_null() && bytes != 0 {
        // The call failed, so the old block is still there.
        allocated(block, kept, kept);
    }
    allocated(moved, bytes, kept)
}

unsafe extern "C" fn posix_memalign(
    block: *mut *mut c_void,
    alignment: usize,
    bytes: usize,
) -> c_int {
    // SAFETY: this forwards the caller's own call unchanged.
    let result = unsafe { (Real::get().posix_memalign)(block, alignment, bytes) };
    if result == 0 {
        // SAFETY: the call has succeeded, so it has stored an address in `block`.
        allocated(unsafe { *block }, bytes, 0);
    }
    result
}

unsafe extern "C" fn free(block: *mut c_void) {
    freed(block, false);
    // SAFETY: this forwards the caller's own call unchanged.
    unsafe { (Real::get().free)(block) }
}
