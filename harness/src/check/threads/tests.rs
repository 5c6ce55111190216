use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use super::{TaskDirectory, can_act, is_drivers_name, list_threads, this_thread};

fn own_id() -> i32 {
    this_thread().expect("the kernel lists this thread")
}

#[test]
fn a_test_in_a_module_cuda_is_not_a_thread_of_the_driver() {
    for name in ["cuda-EvtHandlr", "cuda00001400006", "llvmpipe-0"] {
        assert!(is_drivers_name(name), "{name}");
    }
    for name in [
        "cuda::tests::al",
        "cuda-worker",
        "cuda",
        "cuda0",
        "llvmpipe",
        "main",
    ] {
        assert!(!is_drivers_name(name), "{name}");
    }
}

#[test]
fn another_file_with_the_number_of_the_closed_directory_is_not_read() {
    let kept = TaskDirectory::open().expect("the kernel lists threads");
    assert!(kept.metadata().is_some());
    let open = File::open("/proc/self/fd").expect("every process has this directory");
    let reused = TaskDirectory { open, ..kept };
    assert!(reused.metadata().is_none());
}

#[test]
fn a_joined_thread_cannot_act() {
    for _ in 0..1000 {
        let joined = thread::spawn(own_id)
            .join()
            .expect("the thread did not panic");
        assert!(!can_act(joined));
    }
    assert!(can_act(own_id()));
}

#[test]
fn a_thread_with_the_name_of_a_drivers_thread_cannot_act() {
    // The kernel truncates the last name inside a character.
    for (name, expected) in [
        ("cuda-EvtHandlr", false),
        (") S (cuda", true),
        ("tests::gute_größe", true),
    ] {
        let thread = thread::Builder::new().name(name.to_owned());
        let result = thread
            .spawn(|| can_act(own_id()))
            .expect("the thread starts");
        assert_eq!(
            result.join().expect("the thread did not panic"),
            expected,
            "{name}"
        );
    }
}

/// The kernel lists threads in the order in which they began, so the threads that end are listed
/// before the one that stays.
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
            let (sender, receiver) = channel();
            let last = scope.spawn(move || {
                sender.send(own_id()).expect("the test waits");
                thread::park();
            });
            let id = receiver.recv().expect("the thread sends its ID");
            // If another test starts a thread, the number of threads does not show that one is
            // missing.
            let known = loop {
                if let Some(listed) = list_threads() {
                    break listed;
                }
            };
            end.store(true, Ordering::Relaxed);
            let mut is_missing = false;
            while !others.is_empty() {
                others.retain(|other| !other.is_finished());
                is_missing |= list_threads().is_some_and(|listed| {
                    listed.iter().all(|it| known.contains(it)) && !listed.contains(&id)
                });
            }
            last.thread().unpark();
            assert!(!is_missing);
        });
    }
}
