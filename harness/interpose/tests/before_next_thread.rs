//! Tests the callback that runs before the program starts its next thread. This is a separate
//! program, so that no other test starts threads.

use std::sync::Mutex;
use std::thread::{self, ThreadId};

use gpu_leak_interpose::{before_next_thread, inherits};

static RAN_ON: Mutex<Vec<ThreadId>> = Mutex::new(Vec::new());

fn first() {
    RAN_ON.lock().unwrap().push(thread::current().id());
    // The callback may start threads itself.
    thread::spawn(|| ()).join().unwrap();
}

#[test]
fn the_function_runs_once_on_the_thread_that_starts_the_next() {
    before_next_thread(first);
    assert!(RAN_ON.lock().unwrap().is_empty());
    let seen = thread::spawn(|| RAN_ON.lock().unwrap().clone());
    let before_it_began = seen.join().unwrap();
    thread::spawn(|| ()).join().unwrap();
    let expected = if inherits() {
        vec![thread::current().id()]
    } else {
        Vec::new()
    };
    assert_eq!(before_it_began, expected);
    assert_eq!(*RAN_ON.lock().unwrap(), expected);
}
