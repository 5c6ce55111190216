//! Addresses in the data of one thread: thread-locals, and data for `pthread_getspecific`.

use std::cell::Cell;
use std::ffi::c_void;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::HolderKind;
use gpu_leak_tests::library;

use super::{assert_nothing_is_reported, handle, run, run_with};
use crate::holders::only;
use crate::holders::planted::{keep, start, taken};
use crate::kinds::planted::Pointer;

/// The variable that tells a child the path of the library.
const LIBRARY: &str = "HOLDERS_LIBRARY";

#[test]
fn nothing_is_reported_for_a_thread_local_of_a_library() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = "__thread unsigned long kept[8];\n\
                  void keep(unsigned long it) { kept[3] = it; }\n";
    let library = library::of_c(folder.path(), "libkeeps.so", source);
    for test in [
        "thread_data::kept_by_a_library",
        "thread_data::kept_by_a_library_on_the_first_thread",
    ] {
        let checked = run_with(test, |run| run.env(LIBRARY, &library));
        assert_nothing_is_reported(&checked);
    }
}

/// Keeps an allocation in a thread-local of the library.
#[inline(never)]
fn keep_in_the_library() {
    let file = std::env::var(LIBRARY).expect("the parent has compiled it");
    // SAFETY: the library is never unloaded, and its function has this type.
    unsafe {
        let library = libloading::Library::new(file).expect("it can be loaded");
        let keep: extern "C" fn(Pointer) = *library.get(b"keep\0").expect("the function");
        std::mem::forget(library);
        keep(taken());
    }
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_by_a_library() {
    keep();
    start("worker-6", |ready, stopped| {
        keep_in_the_library();
        ready.send(()).unwrap();
        let _ = stopped.recv();
    });
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_by_a_library_on_the_first_thread() {
    keep();
    on_the_first_thread(keep_in_the_library);
}

/// Runs a function in a signal handler on the process's first thread, where libtest waits.
fn on_the_first_thread(function: fn()) {
    static FUNCTION: Mutex<Option<fn()>> = Mutex::new(None);
    static OVER: Mutex<Option<Sender<()>>> = Mutex::new(None);
    extern "C" fn run(_: i32) {
        let function = FUNCTION.lock().unwrap().take().unwrap();
        function();
        let over = OVER.lock().unwrap().take().unwrap();
        over.send(()).unwrap();
    }

    let (over, is_over) = channel();
    *FUNCTION.lock().unwrap() = Some(function);
    *OVER.lock().unwrap() = Some(over);
    handle(libc::SIGUSR2, run);
    // SAFETY: the signal has a handler, and the thread that receives it waits in a system call.
    unsafe {
        libc::syscall(
            libc::SYS_tgkill,
            libc::getpid(),
            libc::getpid(),
            libc::SIGUSR2,
        )
    };
    is_over.recv().unwrap();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_thread_local_of_the_first_thread_is_named() {
    let checked = run("thread_data::kept_on_the_first_thread");
    let root = &only(&checked).root;
    assert_eq!(root.kind, HolderKind::ThreadLocal, "{}", checked.output());
    assert_eq!(root.thread.as_deref(), Some("main"));
    let name = root.name.as_deref();
    assert_eq!(name, Some("main::holders::unusual::thread_data::LOCAL"));
}

thread_local! {
    static LOCAL: Cell<Pointer> = const { Cell::new(0) };
}

#[inline(never)]
fn keep_in_a_thread_local() {
    LOCAL.set(taken());
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_on_the_first_thread() {
    on_the_first_thread(keep_in_a_thread_local);
}

#[test]
fn nothing_is_reported_for_data_of_pthread_getspecific() {
    assert_nothing_is_reported(&run("thread_data::kept_as_specific_data"));
    assert_nothing_is_reported(&run("thread_data::kept_as_the_fortieth_specific_data"));
}

/// Creates this many keys, and keeps an allocation as this thread's data for the last one. glibc
/// stores the data for the first 32 keys in the thread's descriptor.
#[inline(never)]
fn keep_as_specific_data(keys: usize) {
    let mut key = 0;
    for _ in 0..keys {
        // SAFETY: the key has no destructor, and nothing dereferences its data.
        assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, None) }, 0);
    }
    let data = taken() as *const c_void;
    // SAFETY: the key was created above, and nothing dereferences its data.
    assert_eq!(unsafe { libc::pthread_setspecific(key, data) }, 0);
}

/// Overwrites the copies of an address that functions have left on the stack.
#[inline(never)]
fn overwrite_the_stack() {
    black_box([0_u64; 4096]);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_as_specific_data() {
    keep();
    start("worker-7", |ready, stopped| {
        keep_as_specific_data(1);
        overwrite_the_stack();
        ready.send(()).unwrap();
        let _ = stopped.recv();
    });
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_as_the_fortieth_specific_data() {
    keep();
    start("worker-8", |ready, stopped| {
        keep_as_specific_data(40);
        overwrite_the_stack();
        ready.send(()).unwrap();
        let _ = stopped.recv();
    });
}
