//! Addresses in statics: unaligned, or found by a search that signals interrupt or whose thread has
//! a small stack.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use gpu_leak_check::{Check, gpu_leak_check};

use super::{assert_nothing_is_reported, handle, run};
use crate::holders::only;
use crate::holders::planted::{keep, taken};
use crate::kinds::planted::{Pointer, context};

#[test]
fn nothing_is_reported_for_an_unaligned_address() {
    assert_nothing_is_reported(&run("statics::kept_in_a_packed_field"));
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

#[test]
fn signals_that_arrive_during_the_search_do_not_disturb_it() {
    let checked = run("statics::kept_while_signals_arrive");
    let root = &only(&checked).root;
    let name = root.name.as_deref();
    assert_eq!(
        name,
        Some("main::holders::unusual::statics::MANY"),
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
                // A search that is interrupted continuously would never end.
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
    let checked = run("statics::kept_by_a_static_while_the_stack_is_small");
    let name = only(&checked).root.name.clone();
    assert_eq!(
        name.as_deref(),
        Some("main::holders::unusual::statics::SMALL"),
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
