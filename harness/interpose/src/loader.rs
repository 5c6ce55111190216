//! Visits the program and its libraries, as the loader lists them.
#![expect(unsafe_code, reason = "calls the loader's C functions")]

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use std::{ptr, slice, thread};

use crate::glibc::{close, uncancelled};

/// Calls `visit` for the program and for each library until `visit` returns false. No library is
/// loaded or unloaded during the call.
pub fn visit_objects<F: FnMut(&libc::dl_phdr_info) -> bool>(mut visit: F) {
    unsafe extern "C" fn each<F: FnMut(&libc::dl_phdr_info) -> bool>(
        object: *mut libc::dl_phdr_info,
        _size: usize,
        visit: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a valid entry, and `visit` is the closure below, which nothing
        // else uses.
        c_int::from(unsafe { !(*visit.cast::<F>())(&*object) })
    }
    // Miri has no loader.
    if !cfg!(miri) {
        let _visit = Visit::begin();
        // SAFETY: `each` is instantiated for this closure, which outlives the call and does not
        // unwind (running out of memory aborts).
        unsafe { libc::dl_iterate_phdr(Some(each::<F>), (&raw mut visit).cast()) };
    }
}

/// How many visits are in progress.
static VISITS: AtomicU32 = AtomicU32::new(0);
/// Whether a thread is forking.
static IS_FORKING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// How many of these visits are on this thread. There may be several, because visits can be
    /// nested.
    static OWN_VISITS: Cell<u32> = const { Cell::new(0) };
}

/// A visit, during which no other thread forks. Otherwise, the lock that the loader holds during a
/// visit would stay locked in the child, and the child would wait forever when it opens a library.
/// Visits do not wait for each other, because a thread may already hold that lock when it begins a
/// visit.
struct Visit;

impl Visit {
    fn begin() -> Self {
        static IS_SET: Once = Once::new();
        // SAFETY: the handlers are functions of this image, which do not unwind.
        IS_SET.call_once(|| unsafe {
            libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child));
        });
        loop {
            VISITS.fetch_add(1, Ordering::SeqCst);
            if OWN_VISITS.get() > 0 || !IS_FORKING.load(Ordering::SeqCst) {
                OWN_VISITS.set(OWN_VISITS.get() + 1);
                return Self;
            }
            VISITS.fetch_sub(1, Ordering::SeqCst);
            pause();
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        OWN_VISITS.set(OWN_VISITS.get() - 1);
        VISITS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits for a moment. Yielding would not let a thread of lower priority continue.
fn pause() {
    uncancelled(|| thread::sleep(Duration::from_micros(50)));
}

/// Waits until no other thread is forking or visiting.
extern "C" fn before_fork() {
    let others = || VISITS.load(Ordering::SeqCst) != OWN_VISITS.get();
    loop {
        if !others() && !IS_FORKING.swap(true, Ordering::SeqCst) {
            if !others() {
                return;
            }
            IS_FORKING.store(false, Ordering::SeqCst);
        }
        pause();
    }
}

extern "C" fn after_fork() {
    IS_FORKING.store(false, Ordering::SeqCst);
}

extern "C" fn in_child() {
    VISITS.store(OWN_VISITS.get(), Ordering::SeqCst);
    after_fork();
}

/// Returns how many libraries have been loaded and unloaded since the process began.
pub fn object_changes() -> (u64, u64) {
    let mut changes = (0, 0);
    visit_objects(|object| {
        changes = (object.dlpi_adds, object.dlpi_subs);
        false
    });
    changes
}

/// Returns the name of a visited object's file; empty for the program itself.
pub fn object_name(object: &libc::dl_phdr_info) -> &CStr {
    match object.dlpi_name.is_null() {
        true => c"",
        // SAFETY: the name that the loader has for an object ends with a zero byte and does not
        // change during the visit.
        false => unsafe { CStr::from_ptr(object.dlpi_name) },
    }
}

/// Returns the type, the flags and the addresses of each program header of a visited object.
pub fn segments(object: &libc::dl_phdr_info) -> impl Iterator<Item = (u32, u32, Range<usize>)> {
    // SAFETY: the loader passes the object's own program headers.
    let headers =
        unsafe { slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    headers.iter().map(|header| {
        let from = (object.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
        let range = from..from.wrapping_add(header.p_memsz as usize);
        (header.p_type, header.p_flags, range)
    })
}

/// Returns the library that contains an address, and the exported symbol to which the address
/// belongs. The symbol may be null. The names are C strings, valid while the library is loaded.
pub fn symbol_of(address: usize) -> Option<libc::Dl_info> {
    let (address, mut info) = (ptr::without_provenance(address), MaybeUninit::uninit());
    // SAFETY: the result is writable, a call that finds something writes all fields, and any
    // address may be queried.
    unsafe { (libc::dladdr(address, info.as_mut_ptr()) != 0).then(|| info.assume_init()) }
}

/// Calls `body` with a handle of the loaded object with this name, which stays loaded during the
/// call. Returns `None` if there is no such object. A `link_map` is also a handle, but it does not
/// suffice for an object that was loaded at program start: the C library has no search list for
/// such an object until it is opened.
pub fn while_open<T>(name: &CStr, body: impl FnOnce(*mut c_void) -> T) -> Option<T> {
    // SAFETY: the call only asks for an object that is already loaded, and the name is a C string.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        // SAFETY: the call takes this thread's message, to which nothing else refers.
        unsafe { libc::dlerror() };
        return None;
    }
    let answer = body(handle);
    // SAFETY: the handle was opened above.
    unsafe { close(handle) };
    Some(answer)
}

#[cfg(target_env = "gnu")]
#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::visit_objects;

    /// Opening a library takes the loader's lock for visits.
    #[test]
    fn a_child_that_is_forked_during_a_visit_can_open_a_library() {
        let ends = AtomicBool::new(false);
        let statuses = thread::scope(|scope| {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    visit_objects(|_| {
                        thread::sleep(Duration::from_millis(4));
                        false
                    });
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let statuses = [(); 20].map(|()| status_of_a_child());
            ends.store(true, Ordering::Relaxed);
            statuses
        });
        assert_eq!(statuses, [0; 20], "14 means that the child waited");
    }

    /// Forks a child that opens a library, and returns its status.
    fn status_of_a_child() -> i32 {
        let mut status = 0;
        // SAFETY: the child only calls functions of glibc that also work in the child of a program
        // with threads, and ends without running handlers. If it waits forever, a signal ends it.
        // `status` is writable.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(60);
                let library = libc::dlopen(c"libanl.so.1".as_ptr(), libc::RTLD_NOW);
                libc::_exit(i32::from(library.is_null()));
            }
            libc::waitpid(child, &raw mut status, 0);
        }
        status
    }
}
