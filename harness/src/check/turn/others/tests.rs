use std::{fs, thread};

use super::living_threads;

fn own_number() -> i32 {
    let link = fs::read_link("/proc/thread-self").expect("a thread");
    let number = link.file_name().expect("its number");
    number.to_string_lossy().parse().expect("a number")
}

#[test]
fn a_thread_that_was_joined_lives_no_longer() {
    for _ in 0..1000 {
        let joined = thread::spawn(own_number).join().expect("a number");
        assert!(!living_threads().contains(&joined));
    }
    assert!(living_threads().contains(&own_number()));
}
