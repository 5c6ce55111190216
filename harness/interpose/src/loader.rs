//! Visits the program and its libraries, as the loader lists them.
#![expect(unsafe_code, reason = "calls the loader's C functions")]

use std::ffi::{CStr, c_int, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Range;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;
use std::{ptr, slice, thread};

/// Calls `visit` for the program and for each library until it returns false. No library is loaded
/// or unloaded during the call.
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

/// The ID of the thread that visits objects or forks, or 0.
static BUSY: AtomicI32 = AtomicI32::new(0);

/// A visit, during which no other thread forks. The loader's lock for visits would stay locked in
/// the child, and the child would wait forever when it opens a library.
struct Visit {
    /// Whether this is not inside another visit or a fork.
    is_outermost: bool,
}

impl Visit {
    fn begin() -> Self {
        static IS_SET: Once = Once::new();
        // SAFETY: the handlers are functions of this image, which do not unwind.
        IS_SET.call_once(|| unsafe {
            libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child));
        });
        // SAFETY: the call only returns the thread's ID.
        let thread = unsafe { libc::gettid() };
        while let Err(busy) = BUSY.compare_exchange(0, thread, Ordering::Acquire, Ordering::Relaxed)
        {
            if busy == thread {
                return Self {
                    is_outermost: false,
                };
            }
            // Yielding would not let a thread of lower priority continue.
            thread::sleep(Duration::from_micros(50));
        }
        Self { is_outermost: true }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if self.is_outermost {
            BUSY.store(0, Ordering::Release);
        }
    }
}

/// Whether the fork in progress set [`BUSY`]. Only the thread that `BUSY` names uses this.
static FORK_IS_OUTERMOST: AtomicBool = AtomicBool::new(false);

extern "C" fn before_fork() {
    let visit = ManuallyDrop::new(Visit::begin());
    FORK_IS_OUTERMOST.store(visit.is_outermost, Ordering::Relaxed);
}

extern "C" fn after_fork() {
    drop(Visit {
        is_outermost: FORK_IS_OUTERMOST.load(Ordering::Relaxed),
    });
}

extern "C" fn in_child() {
    BUSY.store(0, Ordering::Relaxed);
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

/// Returns the library that contains an address and the exported symbol to which it belongs, which
/// may be null. The names are C strings, valid while the library is loaded.
pub fn symbol_of(address: usize) -> Option<libc::Dl_info> {
    let (address, mut info) = (ptr::without_provenance(address), MaybeUninit::uninit());
    // SAFETY: the result is writable, a call that finds something writes all fields, and any
    // address may be queried.
    unsafe { (libc::dladdr(address, info.as_mut_ptr()) != 0).then(|| info.assume_init()) }
}

/// Calls `body` with a handle of the loaded object with this name, which stays loaded during the
/// call. Returns `None` if there is no such object. A `link_map` is a handle as well, but it does
/// not suffice for an object that was loaded at program start: the C library has no search list for
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
    unsafe { libc::dlclose(handle) };
    Some(answer)
}

#[cfg(all(test, target_env = "gnu"))]
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
        // SAFETY: the child makes only calls to the C library, which may be forked in a program
        // with threads. A signal ends it if it waits, and it runs no handlers. `status` is writable.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(2);
                let library = libc::dlopen(c"libanl.so.1".as_ptr(), libc::RTLD_NOW);
                libc::_exit(i32::from(library.is_null()));
            }
            libc::waitpid(child, &raw mut status, 0);
        }
        status
    }
}
