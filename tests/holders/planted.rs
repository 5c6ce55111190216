//! Leaks that something in the program still holds, and leaks that nothing holds.
//!
//! All are ignored: [`super`] runs them in separate processes.

#![expect(unsafe_code, reason = "makes mappings that cannot be read")]

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use gpu_leak_check::observe::Source;
use gpu_leak_check::{Check, Place, Scope, gpu_leak_check};

use crate::kinds::planted::memory::linear;
use crate::kinds::planted::streams::event;
use crate::kinds::planted::{Pointer, context};

static STATIC: Mutex<Option<Pointer>> = Mutex::new(None);
static VECTOR: Mutex<Vec<Pointer>> = Mutex::new(Vec::new());
static MAP: Mutex<Option<HashMap<u64, Pointer>>> = Mutex::new(None);
static INSIDE: Mutex<Pointer> = Mutex::new(0);
static EVENT: Mutex<Vec<usize>> = Mutex::new(Vec::new());
static UNREADABLE: Mutex<Vec<u64>> = Mutex::new(Vec::new());
type Far = OnceLock<Arc<Mutex<Vec<Box<Pointer>>>>>;
static FAR: Far = Far::new();

thread_local! {
    static LOCAL: Cell<Pointer> = const { Cell::new(0) };
}

/// Allocates memory. No frame of a caller contains its address.
#[inline(never)]
pub(super) fn taken() -> Pointer {
    context();
    linear()
}

/// Keeps an allocation in a static.
#[inline(never)]
pub(super) fn keep() {
    *STATIC.lock().unwrap() = Some(taken());
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_in_a_static() {
    keep();
}

/// Fails unless the searches for the leaks of many scopes eventually end.
#[ignore = "leaks on purpose"]
#[test]
fn kept_by_many_scopes() {
    const ENDED: &str = "the searches in this process took more than ";

    let mut reasons = (0..10_000).map(|_| {
        let scope = Scope::open("one of many");
        scope.in_scope(|| _ = taken());
        let report = scope.finish();
        report.findings[0].not_searched.clone().unwrap_or_default()
    });
    assert!(!reasons.next().unwrap().starts_with(ENDED));
    assert!(reasons.any(|reason| reason.starts_with(ENDED)));
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_in_its_own_static() {
    static OWN: Mutex<Pointer> = Mutex::new(0);
    *OWN.lock().unwrap() = taken();
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_in_a_vector() {
    VECTOR.lock().unwrap().push(taken());
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_far_away() {
    let far = FAR.get_or_init(Arc::default);
    far.lock().unwrap().push(Box::new(taken()));
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_in_a_map() {
    let mut map = MAP.lock().unwrap();
    let map = map.get_or_insert_default();
    for number in 0..100 {
        map.insert(number, 0);
    }
    map.insert(50, taken());
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_by_an_address_inside() {
    *INSIDE.lock().unwrap() = taken() + 24;
}

/// Leaks a segment of an allocator without a probe, and a block in it.
#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_in_a_segment() {
    static BLOCKS: Source = Source::new("segments", &[]);
    static SEGMENT: Mutex<Pointer> = Mutex::new(0);
    static BLOCK: Mutex<Pointer> = Mutex::new(0);

    let segment = taken();
    *SEGMENT.lock().unwrap() = segment;
    BLOCKS.allocated(Place::cuda(0), segment + 256, 64);
    *BLOCK.lock().unwrap() = segment + 256;
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_event() {
    context();
    EVENT.lock().unwrap().push(event().addr());
}

/// Starts a thread that runs `keep`, and waits until the thread is ready.
pub(super) fn start(name: &str, keep: fn(&Sender<()>, &Receiver<()>)) {
    let (ready, is_ready) = channel();
    let (stop, stopped) = channel();
    let worker = thread::Builder::new().name(name.to_owned());
    let worker = worker.spawn(move || keep(&ready, &stopped)).unwrap();
    is_ready.recv().unwrap();
    std::mem::forget((worker, stop));
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_on_a_stack() {
    context();
    start("worker-3", |ready, stopped| {
        let kept = Cell::new(taken());
        black_box(&kept);
        ready.send(()).unwrap();
        let _ = stopped.recv();
        black_box(&kept);
    });
}

/// Leaves an address deeper in the stack than the frame in which its thread waits later.
#[inline(never)]
fn works_deep_below() {
    #[inline(never)]
    fn and_deeper(kept: &Cell<Pointer>) {
        let room = [kept.get(); 64];
        black_box(&room);
    }
    let kept = Cell::new(taken());
    and_deeper(&kept);
    black_box(&kept);
}

/// Waits above old values on the stack, without overwriting them.
#[inline(never)]
fn waits_above_it(ready: &Sender<()>, stopped: &Receiver<()>) {
    let mut room = MaybeUninit::<[u64; 4096]>::uninit();
    black_box(&mut room);
    ready.send(()).unwrap();
    let _ = stopped.recv();
    black_box(&mut room);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn left_on_a_stack_by_a_function_that_returned() {
    context();
    start("worker-5", |ready, stopped| {
        works_deep_below();
        waits_above_it(ready, stopped);
    });
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_in_a_thread_local() {
    context();
    #[inline(never)]
    fn take() {
        LOCAL.set(taken());
    }
    start("worker-4", |ready, stopped| {
        take();
        ready.send(()).unwrap();
        let _ = stopped.recv();
    });
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn forgotten() {
    keep();
    black_box(taken());
}

#[inline(never)]
fn in_a_new_block(pointer: Pointer) -> Box<Pointer> {
    Box::new(pointer)
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_in_a_new_block_each_time() {
    static BOXED: Mutex<Option<Box<Pointer>>> = Mutex::new(None);
    let before = BOXED.lock().unwrap().replace(in_a_new_block(taken()));
    drop(before);
}

struct Node {
    _pointer: Pointer,
    next: RefCell<Option<Rc<Node>>>,
}

#[inline(never)]
fn node(pointer: Pointer) -> Rc<Node> {
    Rc::new(Node {
        _pointer: pointer,
        next: RefCell::default(),
    })
}

#[inline(never)]
fn tie() {
    let first = node(taken());
    let second = node(0);
    second.next.replace(Some(Rc::clone(&first)));
    first.next.replace(Some(second));
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_by_a_cycle() {
    tie();
}

#[inline(never)]
fn forget_a_box() {
    std::mem::forget(black_box(Box::new([0, taken()])));
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn forgotten_with_its_box() {
    forget_a_box();
}

#[inline(never)]
fn discard(boxed: Box<[Pointer; 4]>) {
    drop(black_box(boxed));
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn discarded_with_its_box() {
    discard(Box::new([0, 0, taken(), 0]));
}

#[inline(never)]
fn start_a_thread(ready: Sender<()>, stopped: Receiver<()>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let kept = Cell::new(taken());
        black_box(&kept);
        ready.send(()).unwrap();
        let _ = stopped.recv();
        black_box(&kept);
    })
}

#[inline(never)]
fn abandon(thread: thread::JoinHandle<()>) {
    drop(thread);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_by_a_detached_thread() {
    context();
    let (ready, is_ready) = channel();
    let (stop, stopped) = channel();
    let thread = start_a_thread(ready, stopped);
    is_ready.recv().unwrap();
    abandon(thread);
    std::mem::forget(stop);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn freed_with_its_vector() {
    keep();
    VECTOR.lock().unwrap().push(1);
    let mut addresses = vec![0; 1000];
    addresses[500] = taken();
    drop(black_box(addresses));
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn freed_with_its_box() {
    keep();
    let boxed = Box::new([0, 0, taken(), 0]);
    drop(black_box(boxed));
}

/// Returns the addresses of pages that cannot be read, and of pages of a file that was truncated.
fn unreadable() -> [u64; 2] {
    let map = |protection, flags, file| {
        // SAFETY: the mapping is new, and nothing refers to it.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), 1 << 20, protection, flags, file, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        at.addr() as u64
    };
    let forbidden = map(libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 20).unwrap();
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
    let writable = libc::PROT_READ | libc::PROT_WRITE;
    let cut = map(writable, libc::MAP_PRIVATE, descriptor);
    file.set_len(0).unwrap();
    [forbidden + 4096, cut + 4096]
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_beside_unreadable_memory() {
    let mut kept = UNREADABLE.lock().unwrap();
    // Adds values that are not addresses.
    kept.extend([1, u64::MAX, u64::MAX - 7, 1 << 47, 0x7fff_ffff_f000]);
    kept.extend(unreadable());
    kept.push(taken());
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn kept_while_others_allocate() {
    static BUSY: AtomicBool = AtomicBool::new(false);
    static CHURN: Mutex<Vec<Vec<Vec<u64>>>> = Mutex::new(Vec::new());
    if !BUSY.swap(true, Ordering::Relaxed) {
        for _ in 0..2 {
            thread::spawn(|| {
                for size in (1..2000).cycle() {
                    let mut churn = CHURN.lock().unwrap();
                    churn.push(vec![vec![7; size]; 5]);
                    if churn.len() > 100 {
                        churn.clear();
                    }
                }
            });
        }
    }
    VECTOR.lock().unwrap().push(taken());
}

#[ignore = "leaks on purpose"]
#[test]
fn kept_by_the_caller_of_a_block() {
    context();
    let kept = Cell::new(0);
    let block = Check::new("block").confirm(false);
    block.run(|| black_box(&kept).set(taken()));
    black_box(&kept);
}

/// Returns how many bytes this process has read from files, including its own memory.
fn read_so_far() -> u64 {
    let counts = std::fs::read_to_string("/proc/self/io").unwrap();
    let mut lines = counts.lines();
    let read = lines.find_map(|line| line.strip_prefix("rchar: "));
    read.unwrap().parse().unwrap()
}

#[expect(
    clippy::print_stdout,
    reason = "the test that runs this reads the figure"
)]
#[ignore = "leaks on purpose"]
#[test]
fn kept_beside_a_large_heap() {
    static LARGE: Mutex<Vec<Vec<u64>>> = Mutex::new(Vec::new());
    // Blocks that are never written to use no memory.
    let block = || vec![0; (64 << 10) / 8 - 2];
    LARGE.lock().unwrap().resize_with(32 << 10, block);
    context();
    let before = read_so_far();
    let check = Check::new("block").confirm(false);
    let check = || check.run(|| black_box(taken()));
    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
    println!("bytes read: {}", read_so_far() - before);
    if let Err(panic) = checked {
        std::panic::resume_unwind(panic);
    }
}
