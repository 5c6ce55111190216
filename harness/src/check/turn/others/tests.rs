use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::{fs, thread};

use super::{is_living, list_threads};

fn own_number() -> i32 {
    let link = fs::read_link("/proc/thread-self").expect("a thread");
    let number = link.file_name().expect("its number");
    number.to_string_lossy().parse().expect("a number")
}

#[test]
fn a_thread_that_was_joined_lives_no_longer() {
    for _ in 0..1000 {
        let joined = thread::spawn(own_number).join().expect("a number");
        assert!(!is_living(joined));
    }
    assert!(is_living(own_number()));
}

/// The kernel lists threads in the order in which they began.
#[test]
fn a_thread_is_listed_while_others_before_it_end() {
    for _ in 0..200 {
        let end = AtomicBool::new(false);
        thread::scope(|scope| {
            let ends = || {
                scope.spawn(|| {
                    while !end.load(Ordering::Relaxed) {
                        thread::yield_now();
                    }
                })
            };
            let mut others: Vec<_> = (0..8).map(|_| ends()).collect();
            let (tell, number) = channel();
            let last = scope.spawn(move || {
                tell.send(own_number()).expect("the test waits");
                thread::park();
            });
            let number = number.recv().expect("a number");
            end.store(true, Ordering::Relaxed);
            let mut is_missing = false;
            while !others.is_empty() {
                others.retain(|other| !other.is_finished());
                is_missing |= list_threads().is_some_and(|listed| !listed.contains(&number));
            }
            last.thread().unpark();
            assert!(!is_missing);
        });
    }
}
