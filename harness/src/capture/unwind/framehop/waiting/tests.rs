//! Tests that the stack of a waiting thread, as it is unwound, is the stack that the thread itself
//! reports.

use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use super::{ReturnAddresses, WaitingThread, room, walk};
use crate::capture::unwind::trace;

/// How a thread waits until its test has ended.
type Wait = fn(&Receiver<()>);

/// Returns the return addresses on the stack of the calling thread, innermost first.
fn own() -> Vec<u64> {
    let mut own = Vec::new();
    trace(|_, address, _| {
        own.push(address as u64);
        true
    });
    // The outermost frame may have no return address.
    own.retain(|address| *address != 0);
    own
}

#[inline(never)]
fn waits(wait: Wait, stopped: &Receiver<()>) {
    wait(stopped);
    black_box(stopped);
}

/// Walks the stack of a thread that waits in this way. Also returns the stack that the thread
/// itself reported just before.
fn walked(wait: Wait) -> (ReturnAddresses, Vec<u64>) {
    let (tell, reported) = channel();
    let (stop, stopped) = channel();
    let waiting = thread::spawn(move || {
        let task = fs::read_link("/proc/thread-self").expect("the link exists on Linux");
        tell.send((task, own())).expect("the test is waiting");
        waits(wait, &stopped);
    });
    let (task, own) = reported.recv().expect("the thread has reported its stack");
    let call = fs::canonicalize("/proc")
        .unwrap()
        .join(task)
        .join("syscall");
    let memory = File::open("/proc/self/mem").expect("a process may read its own memory");
    let mut word = |at: u64| {
        let mut bytes = [0; 8];
        memory.read_exact_at(&mut bytes, at).ok()?;
        Some(u64::from_le_bytes(bytes))
    };
    // The thread may not have begun to wait yet, or may be waiting for another thread first. If a
    // thread can never be walked, the test fails.
    let mut walked = ReturnAddresses::default();
    for _ in 0..10_000 {
        thread::sleep(Duration::from_millis(1));
        let before = fs::read_to_string(&call).expect("the thread is running");
        if !before.starts_with(|first: char| first.is_ascii_digit()) {
            continue;
        }
        let mut last = before.split_ascii_whitespace().rev();
        let mut number = || u64::from_str_radix(last.next()?.strip_prefix("0x")?, 16).ok();
        let (Some(instruction), Some(stack_pointer)) = (number(), number()) else {
            continue;
        };
        let waiting = WaitingThread {
            instruction,
            stack_pointer,
            end: stack_pointer + (1 << 20),
        };
        walked = walk(waiting, &mut word);
        let is_inside =
            |it: &(u64, u64)| (waits as *const () as u64..).take(200).any(|at| at == it.1);
        let same = fs::read_to_string(&call).expect("the thread is running") == before;
        if same && walked.complete && walked.found.iter().any(is_inside) {
            break;
        }
    }
    drop(stop);
    waiting.join().expect("the thread did not panic");
    (walked, own)
}

/// Whether `function` finds its frame through the frame pointer. With the toolchains of some Linux
/// distributions, all functions of the standard library do so. Only the stack pointer of a waiting
/// thread is known, so a walk ends at such a function and is marked as incomplete.
fn keeps_frame_pointers(function: *const u8) -> bool {
    let begins_with: &[u8] = match cfg!(target_arch = "x86_64") {
        // push %rbp; mov %rsp,%rbp
        true => &[0x55, 0x48, 0x89, 0xe5],
        false => return false,
    };
    // SAFETY: every function is longer than these instructions.
    unsafe { std::slice::from_raw_parts(function, begins_with.len()) == begins_with }
}

#[test]
fn a_thread_that_waits_is_walked_to_its_first_function() {
    let ways: [(&str, Wait); 4] = [
        ("a channel", |stopped| {
            let _ = stopped.recv();
        }),
        ("a channel with a time", |stopped| {
            while stopped
                .recv_timeout(Duration::from_secs(600))
                .is_err_and(|it| it == std::sync::mpsc::RecvTimeoutError::Timeout)
            {}
        }),
        ("a condition", |stopped| {
            static NEVER: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
            let mut guard = NEVER.0.lock().unwrap();
            while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                guard = NEVER
                    .1
                    .wait_timeout(guard, Duration::from_millis(100))
                    .unwrap()
                    .0;
            }
        }),
        ("a nap", |stopped| {
            while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                thread::sleep(Duration::from_millis(100));
            }
        }),
    ];
    for (name, wait) in ways {
        let (walked, own) = walked(wait);
        if !walked.complete && keeps_frame_pointers(thread::park as fn() as *const u8) {
            continue;
        }
        assert!(walked.complete, "{name}: {walked:x?}");
        let found = walked.found.iter().rev().map(|(_, address)| address);
        let common = found
            .zip(own.iter().rev())
            .take_while(|(a, b)| a == b)
            .count();
        // The two stacks differ only in the innermost frames: those of the wait or of the thread's
        // own walk, and the frame of the function that makes both.
        assert!(
            common + 4 >= own.len() && common > 3,
            "{name}: {walked:x?} {own:x?}"
        );
    }
}

#[test]
fn unreadable_memory_ends_a_walk() {
    let waiting = WaitingThread {
        instruction: 0x1000,
        stack_pointer: 0x2000,
        end: 0x3000,
    };
    assert_eq!(walk(waiting, |_| None), ReturnAddresses::default());
    assert_eq!(walk(waiting, |_| Some(0x1234)), ReturnAddresses::default());
}

#[test]
fn the_size_of_a_frame_is_what_its_prologue_reserves() {
    let code = |code: &[u8]| {
        let mut code = code.to_vec();
        code.resize(code.len() + 16, 0x90);
        code
    };
    for (beginning, expected) in [
        (&[0x41, 0x57, 0x53, 0x48, 0x83, 0xec, 0x28][..], 16 + 0x28),
        (&[0x50], 8),
        (&[0x48, 0x81, 0xec, 0, 0x10, 0, 0], 0x1000),
        (&[], 0),
    ] {
        assert_eq!(room(&code(beginning)), Some(expected), "{beginning:x?}");
    }
    assert_eq!(room(&[0x50, 0x50]), None, "cut off");
}
