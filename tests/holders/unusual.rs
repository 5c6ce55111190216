//! Holders in the places where the tests of `LeakSanitizer` and memray put them. A report cannot
//! name a place that cannot be searched, but then it does not say either that nothing holds the
//! leak.

#![expect(
    unsafe_code,
    reason = "uses thread-local data, stacks and signals of the C library"
)]

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::hint::black_box;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use gpu_leak_check::report::check_report::{Finding, FindingKind, HolderKind};
use gpu_leak_check::{Check, gpu_leak_check};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;
use gpu_leak_tests::fake::Fake;
use gpu_leak_tests::library;

use super::only;
use super::planted::{keep, start, taken};
use crate::kinds::planted::{Pointer, context};

fn run(test: &str) -> Checked {
    run_with(test, |run| run)
}

/// Runs a test of this file on the stand-in, because a real driver has more memory than a search
/// reads.
fn run_with(test: &str, prepared: impl FnOnce(Run) -> Run) -> Checked {
    let fake = Fake::new();
    let run = fake.run(&format!("holders::unusual::{test}"));
    checked::finish(prepared(run.env("GPU_LEAK_CHECK_HELD_BY", "600s")))
}

/// Returns the finding that is not the leak of [`keep`]. Fails unless the report names the static
/// for the leak of `keep`, which shows that there was a search.
fn beside_the_static(checked: &Checked) -> &Finding {
    let leaks = checked.report().findings.iter();
    let leaks = leaks.filter(|finding| finding.kind == FindingKind::Leaked);
    let (kept, others): (Vec<_>, Vec<_>) = leaks.partition(|finding| {
        let mut frames = finding.site.frames.iter();
        frames.any(|frame| frame.function.as_deref() == Some("main::holders::planted::keep"))
    });
    let ([kept], [other]) = (&kept[..], &others[..]) else {
        panic!("{}", checked.output());
    };
    let holders = kept.holders.iter().flatten();
    let names: Vec<_> = holders.map(|it| it.root.name.as_deref()).collect();
    assert_eq!(
        names,
        [Some("main::holders::planted::STATIC")],
        "{}",
        checked.output()
    );
    other
}

/// The reasons why a report does not say what holds the other leak. Either the holder has no name,
/// or it was not searched, like the stack of a running thread.
const REASONS: [&str; 2] = [
    "it is referenced only from memory that belongs to no known variable, or through more than 6 \
     heap blocks",
    "some memory could not be searched",
];

/// Fails unless the report names no holder of the other leak, and gives a reason for that.
#[track_caller]
fn assert_nothing_is_reported(checked: &Checked) {
    let other = beside_the_static(checked);
    assert_eq!(other.holders, None, "{}", checked.output());
    let reason = other.not_searched.as_deref().unwrap_or_default();
    assert!(REASONS.contains(&reason), "{}", checked.output());
}

/// The variable that tells a child the path of the library.
const LIBRARY: &str = "HOLDERS_LIBRARY";

#[test]
fn nothing_is_reported_for_a_thread_local_of_a_library() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = "__thread unsigned long kept[8];\n\
                  void keep(unsigned long it) { kept[3] = it; }\n";
    let library = library::of_c(folder.path(), "libkeeps.so", source);
    for test in ["kept_by_a_library", "kept_by_a_library_on_the_first_thread"] {
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

/// Installs a handler that does not restart the system calls that it interrupts.
fn handle(signal: i32, handler: extern "C" fn(i32)) {
    // SAFETY: the handler is a function of this type, and all other fields may be zero.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = handler as usize;
        assert_eq!(libc::sigaction(signal, &raw const action, null_mut()), 0);
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_thread_local_of_the_first_thread_is_named() {
    let checked = run("kept_on_the_first_thread");
    let root = &only(&checked).root;
    assert_eq!(root.kind, HolderKind::ThreadLocal, "{}", checked.output());
    assert_eq!(root.thread.as_deref(), Some("main"));
    let name = root.name.as_deref();
    assert_eq!(name, Some("main::holders::unusual::LOCAL"));
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
    assert_nothing_is_reported(&run("kept_as_specific_data"));
    assert_nothing_is_reported(&run("kept_as_the_fortieth_specific_data"));
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

#[cfg(target_arch = "x86_64")]
#[test]
fn an_address_that_is_only_in_a_register_is_in_no_searched_place() {
    let checked = run("kept_in_a_register");
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

/// A driver's functions have no unwind information, so the owner of the words on the stack of one of
/// its threads cannot be determined. They may lead to the driver's tables, which contain every
/// address.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_thread_of_the_driver_is_no_holder() {
    let checked = run("kept_by_a_worker");
    let holders = beside_the_static(&checked).holders.as_deref();
    let Some([worker]) = holders else {
        panic!("{holders:?}\n{}", checked.output());
    };
    assert_eq!(worker.root.thread.as_deref(), Some("worker-5"));
    assert_eq!(worker.root.name, None);
    let checked = run("kept_by_the_driver");
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

#[test]
fn nothing_is_reported_for_an_unaligned_address() {
    assert_nothing_is_reported(&run("kept_in_a_packed_field"));
}

#[repr(C, packed)]
struct Packed {
    flag: u8,
    pointer: Pointer,
}

#[inline(never)]
fn keep_in_a_packed_field() {
    static PACKED: Mutex<Packed> = Mutex::new(Packed {
        flag: 0,
        pointer: 0,
    });
    let mut packed = PACKED.lock().unwrap();
    packed.flag = 1;
    packed.pointer = taken();
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_in_a_packed_field() {
    keep();
    keep_in_a_packed_field();
}

/// A function that has switched to another stack, and the stack that it waits on.
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

/// Such a stack looks like the driver's own tables, because both contain return addresses into the
/// driver.
#[test]
fn nothing_is_reported_for_a_stack_in_the_heap() {
    assert_nothing_is_reported(&run("kept_on_a_stack_in_the_heap"));
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
    assert_nothing_is_reported(&run("kept_on_a_mapped_stack"));
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

#[test]
fn signals_that_arrive_during_the_search_do_not_disturb_it() {
    let checked = run("kept_while_signals_arrive");
    let root = &only(&checked).root;
    let name = root.name.as_deref();
    assert_eq!(
        name,
        Some("main::holders::unusual::MANY"),
        "{}",
        checked.output()
    );
    let (_, arrived) = checked
        .child
        .stdout
        .split_once("arrived: ")
        .expect("a count");
    let arrived: u32 = arrived.lines().next().unwrap().parse().expect("a number");
    assert!(arrived > 0, "{}", checked.output());
}

static MANY: Mutex<Vec<Vec<Pointer>>> = Mutex::new(Vec::new());
static ARRIVED: AtomicU32 = AtomicU32::new(0);

#[expect(
    clippy::print_stdout,
    reason = "the test that runs this reads the figure"
)]
#[ignore = "leaks on purpose"]
#[test]
fn kept_while_signals_arrive() {
    extern "C" fn arrived(_: i32) {
        ARRIVED.fetch_add(1, Ordering::Relaxed);
    }

    context();
    handle(libc::SIGUSR1, arrived);
    // SAFETY: this call has no preconditions.
    let checking = unsafe { libc::gettid() };
    let (searches, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let found = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if searches.load(Ordering::Relaxed) {
                    let (process, signal) = (std::process::id(), libc::SIGUSR1);
                    // SAFETY: the signal has a handler.
                    unsafe { libc::syscall(libc::SYS_tgkill, process, checking, signal) };
                }
                // If it is interrupted continuously, a search never ends.
                thread::sleep(Duration::from_millis(1));
            }
        });
        let check = || {
            Check::new("block").confirm(false).run(|| {
                let mut many = MANY.lock().unwrap();
                many.resize_with(100_000, || vec![0; 64]);
                many[99_000][60] = taken();
                searches.store(true, Ordering::Relaxed);
            });
        };
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
        over.store(true, Ordering::Relaxed);
        found
    });
    println!("arrived: {}", ARRIVED.load(Ordering::Relaxed));
    if let Err(panic) = found {
        std::panic::resume_unwind(panic);
    }
}

/// A report and its search need little of the stack of the thread that they run on.
#[test]
fn a_thread_with_a_small_stack_can_search() {
    let checked = run("kept_by_a_static_while_the_stack_is_small");
    let name = only(&checked).root.name.clone();
    assert_eq!(
        name.as_deref(),
        Some("main::holders::unusual::SMALL"),
        "{}",
        checked.output()
    );
}

static SMALL: Mutex<Vec<Pointer>> = Mutex::new(Vec::new());

#[ignore = "leaks on purpose"]
#[test]
fn kept_by_a_static_while_the_stack_is_small() {
    context();
    let check = || {
        Check::new("block").confirm(false).run(|| {
            SMALL.lock().unwrap().push(taken());
        });
    };
    let small = thread::Builder::new().stack_size(64 << 10);
    let found = small.spawn(check).expect("a thread").join();
    if let Err(panic) = found {
        std::panic::resume_unwind(panic);
    }
}
