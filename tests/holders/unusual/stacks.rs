//! Addresses in registers, and on stacks that do not belong to a thread of the program.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::hint::black_box;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use gpu_leak_check::gpu_leak_check;

use super::{assert_nothing_is_reported, beside_the_static, run};
use crate::holders::planted::{keep, taken};
use crate::kinds::planted::{Pointer, context};

#[cfg(target_arch = "x86_64")]
#[test]
fn an_address_that_is_only_in_a_register_is_in_no_searched_place() {
    let checked = run("stacks::kept_in_a_register");
    let other = beside_the_static(&checked);
    assert!(
        other.holders.as_ref().is_none_or(Vec::is_empty),
        "{}",
        checked.output()
    );
    if other.holders.is_some() {
        let reported = "held by    nothing any more: no static, thread-local or stack points to it";
        assert!(
            checked.child.stderr.contains(reported),
            "{}",
            checked.output()
        );
    }
}

/// Waits forever with an address in a register that no system call changes.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn wait_with_it_in_a_register(ready: Sender<()>) -> ! {
    /// Holds the address until it is in the register.
    static WAY: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

    WAY.store(taken(), Ordering::Relaxed);
    thread::spawn(move || {
        while WAY.load(Ordering::Relaxed) != 0 {
            thread::yield_now();
        }
        ready.send(()).unwrap();
    });
    // SAFETY: the code reads and clears the static, and calls `pause` repeatedly.
    unsafe {
        std::arch::asm!(
            "mov r12, qword ptr [rdi]",
            "mov qword ptr [rdi], 0",
            "2:",
            "mov eax, 34",
            "syscall",
            "jmp 2b",
            in("rdi") WAY.as_ptr(),
            options(noreturn)
        )
    }
}

#[cfg(target_arch = "x86_64")]
#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_in_a_register() {
    keep();
    let (ready, is_ready) = channel();
    thread::spawn(move || wait_with_it_in_a_register(ready));
    is_ready.recv().unwrap();
}

/// A driver's functions have no unwind information, so the owner of the words on the stack of one
/// of its threads cannot be determined. They may point to the driver's tables, which contain every
/// address.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_thread_of_the_driver_is_not_a_holder() {
    let checked = run("stacks::kept_by_a_worker");
    let holders = beside_the_static(&checked).holders.as_deref();
    let Some([worker]) = holders else {
        panic!("{holders:?}\n{}", checked.output());
    };
    assert_eq!(worker.root.thread.as_deref(), Some("worker-5"));
    assert_eq!(worker.root.name, None);
    let checked = run("stacks::kept_by_the_driver");
    let holders = beside_the_static(&checked).holders.as_deref();
    assert!(holders.is_none_or(<[_]>::is_empty), "{}", checked.output());
}

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".globl wait_without_unwind_information",
    "wait_without_unwind_information:",
    "push rdi",
    "2:",
    "mov eax, 34",
    "syscall",
    "jmp 2b",
);

/// Starts a thread called `name` that waits in a function without unwind information, which has an
/// address on its stack.
#[cfg(target_arch = "x86_64")]
fn keep_without_unwind_information(name: &str) {
    unsafe extern "C" {
        fn wait_without_unwind_information(kept: Pointer) -> !;
    }
    context();
    keep();
    let (ready, is_ready) = channel();
    let worker = thread::Builder::new().name(name.to_owned());
    let worker = worker.spawn(move || {
        let kept = taken();
        ready.send(()).unwrap();
        // SAFETY: the function keeps its argument on the stack and calls `pause` repeatedly.
        unsafe { wait_without_unwind_information(kept) }
    });
    let worker: thread::JoinHandle<()> = worker.unwrap();
    is_ready.recv().unwrap();
    std::mem::forget(worker);
}

#[cfg(target_arch = "x86_64")]
#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_by_a_worker() {
    keep_without_unwind_information("worker-5");
}

#[cfg(target_arch = "x86_64")]
#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_by_the_driver() {
    keep_without_unwind_information("cuda-EvtHandlr");
}

/// The saved contexts of a fibre and of the code that started it.
struct Fibre {
    home: UnsafeCell<libc::ucontext_t>,
    fibre: UnsafeCell<libc::ucontext_t>,
}

// SAFETY: only one thread at a time uses a fibre.
unsafe impl Sync for Fibre {}

/// The address of the running fibre.
static FIBRE: Mutex<usize> = Mutex::new(0);

#[inline(never)]
extern "C" fn waits_on_its_own_stack() {
    let kept = Cell::new(taken());
    black_box(&kept);
    let fibre = *FIBRE.lock().unwrap() as *const Fibre;
    // SAFETY: `run_on` stored this pointer, and the fibre lives forever. `home` was filled in when
    // the thread switched to this stack.
    unsafe { libc::swapcontext((*fibre).fibre.get(), (*fibre).home.get()) };
    black_box(&kept);
}

/// Runs a function on this stack until it waits there.
#[inline(never)]
fn run_on(stack: *mut c_void, bytes: usize) {
    // SAFETY: `getcontext` fills in the zeroed contexts. The new context runs on a stack that
    // nothing else uses, and returns here.
    unsafe {
        let fibre = Box::leak(Box::new(Fibre {
            home: UnsafeCell::new(zeroed()),
            fibre: UnsafeCell::new(zeroed()),
        }));
        let context = fibre.fibre.get();
        assert_eq!(libc::getcontext(context), 0);
        (*context).uc_stack.ss_sp = stack;
        (*context).uc_stack.ss_size = bytes;
        libc::makecontext(context, waits_on_its_own_stack, 0);
        *FIBRE.lock().unwrap() = &raw const *fibre as usize;
        assert_eq!(libc::swapcontext(fibre.home.get(), context), 0);
    }
}

/// A stack in the heap looks like the driver's own tables, because both contain return addresses
/// into the driver.
#[test]
fn nothing_is_reported_for_a_stack_in_the_heap() {
    assert_nothing_is_reported(&run("stacks::kept_on_a_stack_in_the_heap"));
}

static STACKS: Mutex<Vec<Vec<u128>>> = Mutex::new(Vec::new());

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_on_a_stack_in_the_heap() {
    keep();
    let mut stack = vec![0_u128; 1 << 10];
    let (start, bytes) = (stack.as_mut_ptr(), size_of_val(&*stack));
    STACKS.lock().unwrap().push(stack);
    run_on(start.cast(), bytes);
}

#[test]
fn nothing_is_reported_for_a_stack_in_its_own_mapping() {
    assert_nothing_is_reported(&run("stacks::kept_on_a_mapped_stack"));
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_on_a_mapped_stack() {
    const BYTES: usize = 1 << 20;
    keep();
    // SAFETY: the mapping is new, and its first page is made inaccessible.
    let stack = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let stack = libc::mmap(null_mut(), BYTES, access, flags, -1, 0);
        assert_ne!(stack, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(stack, 4096, libc::PROT_NONE), 0);
        stack
    };
    run_on(stack, BYTES);
}
